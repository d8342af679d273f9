# Builds, runs and tests mod_sigdefer.  README.md says what each target is for.

APXS    ?= $(firstword $(shell command -v apxs apxs2 2>/dev/null) apxs)
HTTPD   ?= $(shell command -v apache2 || command -v httpd || echo /usr/sbin/apache2)
MPM     ?= prefork
PORT    ?= 8080
CC      ?= gcc

BUILD   := build
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
           -Wpointer-arith -Wwrite-strings -Wdeclaration-after-statement
OPT     ?= -O2 -g
CSTD    := -std=gnu11
COMMON  := $(CSTD) $(OPT) $(WARN) -fPIC -fvisibility=hidden -D_GNU_SOURCE -I.
# Only the glue sees httpd's headers; the engine is libc and POSIX.
HTTPD_INC = $(shell $(APXS) -q EXTRA_CPPFLAGS) \
            -isystem $(shell $(APXS) -q INCLUDEDIR) \
            -isystem $(shell $(APXS) -q APR_INCLUDEDIR)

# httpd's hooks have parameters that not everyone needs, and its module record
# has grown a field that older ones lack.
GLUE_WARN := -Wno-unused-parameter -Wno-missing-field-initializers

ENGINE_SRC := $(wildcard sigdefer/*.c)
HOLD_SRC   := $(wildcard hold/*.c)
ENGINE_OBJ := $(ENGINE_SRC:%.c=$(BUILD)/%.o)
HOLD_OBJ   := $(HOLD_SRC:%.c=$(BUILD)/%.o)

all: $(BUILD)/mod_sigdefer.so

$(ENGINE_OBJ): $(BUILD)/%.o: %.c mod_sigdefer.h $(wildcard sigdefer/*.h)
	@mkdir -p $(@D)
	$(CC) $(COMMON) $(CFLAGS) -c -o $@ $<

$(HOLD_OBJ): $(BUILD)/%.o: %.c mod_sigdefer.h hold/hold.h sigdefer/engine.h
	@mkdir -p $(@D)
	$(CC) $(COMMON) $(HTTPD_INC) $(CFLAGS) -c -o $@ $<

$(BUILD)/mod_sigdefer.o: mod_sigdefer.c mod_sigdefer.h hold/hold.h \
                         sigdefer/engine.h
	@mkdir -p $(@D)
	$(CC) $(COMMON) $(HTTPD_INC) $(GLUE_WARN) $(CFLAGS) -c -o $@ $<

$(BUILD)/mod_sigdefer.so: $(BUILD)/mod_sigdefer.o $(HOLD_OBJ) $(ENGINE_OBJ)
	$(CC) -shared $(LDFLAGS) -Wl,-z,relro,-z,now -o $@ $^ -pthread -ldl
