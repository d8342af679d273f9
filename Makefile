# Builds, runs and tests mod_sigdefer; "make help" lists what there is.

APXS   ?= apxs
MPM    ?= prefork
PORT   ?= 8080
CC     ?= gcc
CFLAGS ?= -O2 -g
BUILD  := build

WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
          -Wpointer-arith -Wwrite-strings -Wdeclaration-after-statement
COMMON := -std=gnu11 -D_GNU_SOURCE -I. $(WARN)
PLUGIN := $(COMMON) -fPIC -fvisibility=hidden -fno-semantic-interposition \
          -fno-plt
SHARED := -shared -Wl,-z,relro,-z,now,-Bsymbolic-functions

# Only the glue sees httpd's headers; the engine is libc and POSIX, the accept
# locks need APR besides.  httpd's hooks have parameters that not everyone
# needs, and its module record has grown a field that older ones lack.
APR_CONFIG = $(shell $(APXS) -q APR_CONFIG)
APR_INC    = -isystem $(shell $(APXS) -q APR_INCLUDEDIR) \
             $(shell $(APR_CONFIG) --cppflags)
APR_LINK   = $(shell $(APR_CONFIG) --link-ld)
HTTPD_INC  = $(shell $(APXS) -q EXTRA_CPPFLAGS) \
             -isystem $(shell $(APXS) -q INCLUDEDIR) \
             -isystem $(shell $(APXS) -q APR_INCLUDEDIR)
HTTPD_WARN := -Wno-unused-parameter -Wno-missing-field-initializers

ENGINE := $(wildcard sigdefer/*.c)
LOCKS  := $(filter-out accept_lock/provider.c,$(wildcard accept_lock/*.c))
GLUE   := mod_sigdefer.c accept_lock/provider.c \
          $(wildcard hold/*.c mpm/*.c status/*.c)
# An MPM of our own, and what it shares with the module.
MPM_ONLY    := $(wildcard mpm_threaded/*.c)
MPM_HEADERS := $(wildcard mpm_threaded/*.h)
MPM_SHARED  := hold/cgid.c hold/clock.c hold/listeners.c mpm/bind.c \
               mpm/listening.c mpm/retained.c
HEADERS := mod_sigdefer.h \
           $(wildcard sigdefer/*.h accept_lock/*.h hold/*.h mpm/*.h \
                      status/*.h)
TESTS  := $(patsubst sigdefer/test/%.c,$(BUILD)/test/%, \
                     $(wildcard sigdefer/test/test_*.c))
LOCK_TESTS := $(patsubst accept_lock/test/%.c,$(BUILD)/test/%, \
                         $(wildcard accept_lock/test/test_*.c))
PROBES := $(BUILD)/t/mod_probe_linked.so $(BUILD)/t/mod_probe_soft.so
UNLUCKY := $(BUILD)/t/unlucky.so
MODULE := $(BUILD)/mod_sigdefer.so
THREADED := $(BUILD)/mod_mpm_threaded.so
BENCHES := sections locks handover cost accept restart

.PHONY: all help deps run demo test model check-intree lint sanitize bench \
        soak install uninstall deb check-deb intree clean \
        $(BENCHES:%=bench-%)

all: deps-build $(MODULE) $(THREADED)

help:
	@sed -n 's/^#: //p' $(MAKEFILE_LIST)

#: make                 build/mod_sigdefer.so and build/mod_mpm_threaded.so
#: make deps            install what all of the targets need (Debian)
#: make run             a private httpd with the module; PORT=8080 MPM=prefork
#: make demo            restarts under load, with and without the module
#: make test            all tests, under prove
#: make model           the futex lock's algorithm, exhaustively, by spin
#: make check-intree    httpd built with the module in its tree, and the tests
#: make lint            warnings as errors, clang-tidy, cppcheck, formatting
#: make sanitize        the engine under ASan, UBSan, TSan; httpd -X in valgrind
#: make bench           all of the following
#: make bench-sections  what a critical section costs
#: make bench-cost      what the module costs when nothing happens
#: make bench-locks     what a lock costs, ours beside APR's and libc's
#: make bench-handover  how a lock is handed over that is held for long
#: make bench-accept    what the accept locks cost in the server; our MPM
#: make bench-restart   what restarts lose, with and without the module
#: make soak            1,500 restarts under load: is anything left over?
#: make install         into the httpd that apxs belongs to
#: make uninstall       what make install has installed
#: make deb             Debian packages, in build/deb
#: make check-deb       they are installed in a Debian of their own, and purged
#: make intree          into the source tree of an httpd: HTTPD_SRC=...
#: make clean           remove build/

deps-%:
	@scripts/deps $*

deps: ; @scripts/deps build demo test model bench lint sanitize deb intree

# ---- The module ----------------------------------------------------------

$(ENGINE:%.c=$(BUILD)/%.o): $(BUILD)/%.o: %.c $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(PLUGIN) $(CFLAGS) -c -o $@ $<

$(LOCKS:%.c=$(BUILD)/%.o): $(BUILD)/%.o: %.c $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(PLUGIN) $(APR_INC) $(CFLAGS) -c -o $@ $<

$(patsubst %.c,$(BUILD)/%.o,$(GLUE) $(MPM_ONLY)): $(BUILD)/%.o: %.c $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(PLUGIN) $(HTTPD_WARN) $(HTTPD_INC) $(CFLAGS) -c -o $@ $<

# what compiles needs what is installed first, also under make -j
OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(ENGINE) $(LOCKS) $(GLUE))
MPM_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(MPM_ONLY) $(MPM_SHARED))

$(sort $(OBJECTS) $(MPM_OBJECTS)): | deps-build
$(MPM_ONLY:%.c=$(BUILD)/%.o): $(MPM_HEADERS)

$(MODULE): $(OBJECTS)
	$(CC) $(SHARED) $(LDFLAGS) -o $@ $^ -pthread -ldl

$(THREADED): $(MPM_OBJECTS)
	$(CC) $(SHARED) $(LDFLAGS) -o $@ $^ -pthread -ldl

# ---- Installing it -------------------------------------------------------

LIBEXECDIR = $(shell $(APXS) -q LIBEXECDIR)
INCLUDEDIR = $(shell $(APXS) -q INCLUDEDIR)
SYSCONFDIR = $(shell $(APXS) -q SYSCONFDIR)

# What a2enmod of Debian takes: the sample, in two.
MODS := $(BUILD)/sigdefer.load $(BUILD)/sigdefer.conf

$(BUILD)/sigdefer.load: httpd.conf.sample
	@mkdir -p $(@D)
	sed -n 's,modules/,$(LIBEXECDIR)/,; /^LoadModule/p' $< >$@

$(BUILD)/sigdefer.conf: httpd.conf.sample
	@mkdir -p $(@D)
	sed '1,/^LoadModule/d' $< | sed 1d >$@

install: all $(MODS)
	install -d "$(DESTDIR)$(LIBEXECDIR)" "$(DESTDIR)$(INCLUDEDIR)"
	install -m 644 $(MODULE) $(THREADED) "$(DESTDIR)$(LIBEXECDIR)"
	install -m 644 mod_sigdefer.h "$(DESTDIR)$(INCLUDEDIR)"
	if test -d "$(SYSCONFDIR)/mods-available"; then \
	    install -d "$(DESTDIR)$(SYSCONFDIR)/mods-available" && \
	    install -m 644 $(MODS) "$(DESTDIR)$(SYSCONFDIR)/mods-available"; \
	fi

# a module that is enabled and not there keeps httpd from starting
uninstall:
	rm -f "$(DESTDIR)$(LIBEXECDIR)/mod_sigdefer.so" \
	      "$(DESTDIR)$(LIBEXECDIR)/mod_mpm_threaded.so" \
	      "$(DESTDIR)$(INCLUDEDIR)/mod_sigdefer.h" \
	      "$(DESTDIR)$(SYSCONFDIR)"/mods-enabled/sigdefer.load \
	      "$(DESTDIR)$(SYSCONFDIR)"/mods-enabled/sigdefer.conf \
	      "$(DESTDIR)$(SYSCONFDIR)"/mods-available/sigdefer.load \
	      "$(DESTDIR)$(SYSCONFDIR)"/mods-available/sigdefer.conf

# Debian packages, in build/deb; built elsewhere, as that writes to debian/.
deb: deps-build deps-deb
	@scripts/deb $(BUILD)/deb

check-deb: deb
	@scripts/check-deb $(BUILD)/deb/*.deb

# The sources of the module, as modules/sigdefer of httpd's source tree.
intree: INTREE = $(HTTPD_SRC)/modules/sigdefer
intree:
	@test -e "$(HTTPD_SRC)/include/httpd.h" \
	    || { echo "HTTPD_SRC: not the source tree of an httpd" >&2; exit 1; }
	@test -z "$$(basename -a $(ENGINE) $(LOCKS) $(GLUE) | sort | uniq -d)" \
	    || { echo "intree: two objects would have one name" >&2; exit 1; }
	rm -rf "$(INTREE)"
	mkdir "$(INTREE)"
	cp --parents $(ENGINE) $(LOCKS) $(GLUE) $(HEADERS) "$(INTREE)"
	cp intree/config.m4 intree/Makefile.in "$(INTREE)"

clean:
	rm -rf $(BUILD)

# ---- Trying it -----------------------------------------------------------

DEMO := $(BUILD)/mod_sigdefer_demo.so

$(DEMO): demo/mod_sigdefer_demo.c mod_sigdefer.h
	@mkdir -p $(@D)
	$(CC) $(PLUGIN) $(HTTPD_WARN) $(HTTPD_INC) $(CFLAGS) $(SHARED) -o $@ $<

run: deps-build deps-demo $(MODULE) $(THREADED) $(DEMO)
	@demo/run --port $(PORT) --mpm $(MPM)

demo: deps-build deps-demo $(MODULE) $(THREADED) $(BUILD)/bench/load
	@demo/restart --mpm $(MPM)

# ---- Tests ---------------------------------------------------------------

$(TESTS): $(BUILD)/test/%: sigdefer/test/%.c sigdefer/test/tap.h $(ENGINE) \
                           $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(COMMON) $(CFLAGS) -o $@ $< $(ENGINE) -pthread

$(LOCK_TESTS): $(BUILD)/test/%: accept_lock/test/%.c \
                                accept_lock/test/locks.h sigdefer/test/tap.h \
                                $(LOCKS) $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(COMMON) $(APR_INC) $(CFLAGS) -o $@ $< $(LOCKS) $(APR_LINK) -pthread

$(BUILD)/t/mod_probe_soft.so: SOFT := -DSIGDEFER_SOFT
$(PROBES): t/c-modules/probe/mod_probe.c mod_sigdefer.h
	@mkdir -p $(@D)
	$(CC) $(PLUGIN) $(HTTPD_WARN) $(HTTPD_INC) $(SOFT) $(CFLAGS) $(SHARED) \
	      -o $@ $<

$(UNLUCKY): t/c-modules/unlucky/unlucky.c
	@mkdir -p $(@D)
	$(CC) $(COMMON) -fPIC $(CFLAGS) $(SHARED) -o $@ $< -ldl

test: deps-build deps-test $(MODULE) $(THREADED) $(MODS) $(PROBES) $(UNLUCKY) $(TESTS) \
      $(LOCK_TESTS)
	@t/run $(TESTS) $(LOCK_TESTS) $(wildcard sigdefer/test/*.t docs/test/*.t)

model: deps-model
	@accept_lock/model/check

check-intree: deps-build deps-test deps-intree $(THREADED) $(PROBES)
	@scripts/check-intree

lint: deps-build deps-lint
	@CC='$(CC)' COMMON_FLAGS='$(COMMON)' APR_FLAGS='$(APR_INC)' \
	 HTTPD_FLAGS='$(HTTPD_WARN) $(HTTPD_INC)' scripts/lint

sanitize: deps-build deps-sanitize $(MODULE) $(PROBES)
	@scripts/sanitize

# ---- Benches -------------------------------------------------------------

$(BUILD)/bench/load: bench/load.c bench/transport.c bench/transport.h
	@mkdir -p $(@D)
	$(CC) $(COMMON) $(CFLAGS) -o $@ $(filter %.c,$^) -lssl -lcrypto

$(BUILD)/bench/mod_reads.so: bench/mod_reads.c
	@mkdir -p $(@D)
	$(CC) $(PLUGIN) $(HTTPD_WARN) $(HTTPD_INC) $(CFLAGS) $(SHARED) -o $@ $<

$(BUILD)/bench/libsigdefer.so: $(ENGINE) $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(PLUGIN) $(CFLAGS) $(SHARED) -o $@ $(ENGINE) -pthread

SECTIONS := $(BUILD)/bench/sections $(BUILD)/bench/lua_alloc

$(BUILD)/bench/lua_alloc: LUA = $(shell pkg-config --cflags --libs lua5.4)
$(SECTIONS): $(BUILD)/bench/%: bench/%.c bench/brackets.h mod_sigdefer.h \
                               $(BUILD)/bench/libsigdefer.so
	$(CC) $(COMMON) $(CFLAGS) -o $@ $< -L$(BUILD)/bench -lsigdefer \
	      -Wl,-rpath,'$$ORIGIN' $(LUA) -pthread

bench-sections: deps-build deps-bench $(SECTIONS)
	@bench/sections.pl --check

CONTESTS := $(BUILD)/bench/locks $(BUILD)/bench/handover

# the locks as the module has them, compiled with its flags
$(CONTESTS): $(BUILD)/bench/%: bench/%.c bench/contest.c bench/mechanisms.c \
                               bench/contest.h $(LOCKS:%.c=$(BUILD)/%.o) \
                               $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(COMMON) $(APR_INC) $(CFLAGS) -o $@ $(filter %.c %.o,$^) \
	      $(APR_LINK) -pthread

bench-locks: deps-build deps-bench $(BUILD)/bench/locks
	@bench/locks.pl --check

bench-handover: deps-build deps-bench $(CONTESTS)
	@bench/handover.pl

bench-accept: deps-build deps-bench $(MODULE) $(THREADED) $(BUILD)/bench/load \
              $(BUILD)/bench/locks
	@bench/accept.pl --check
	@bench/mpms.pl --check

bench-cost: deps-build deps-bench $(MODULE) $(BUILD)/bench/load \
            $(BUILD)/bench/mod_reads.so
	@bench/cost.pl --check

bench-restart: deps-build deps-bench $(MODULE) $(THREADED) $(BUILD)/bench/load
	@bench/restart.pl --check

bench: $(BENCHES:%=bench-%)

soak: deps-build deps-demo $(MODULE) $(THREADED) $(BUILD)/bench/load
	@bench/soak.pl
