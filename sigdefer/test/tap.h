/* Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License at
 *
 *     http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
 * See the License for the specific language governing permissions and
 * limitations under the License.
 */

/**
 * @file sigdefer/test/tap.h
 * @brief What the engine's tests share: TAP, a process and a deadline for
 *        each test, and a record of the signals that were handled.
 *
 * Each test function runs in a process of its own, so that every one finds
 * an engine that is not installed, default actions and open masks, and none
 * can hang or crash the rest.  The count of test points is in shared memory:
 * children may call ok(), too.
 */

#ifndef SIGDEFER_TEST_TAP_H
#define SIGDEFER_TEST_TAP_H

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "sigdefer/engine.h"

/* ---- TAP ---------------------------------------------------------------- */

/** How long one test may take; sanitizers and loaded machines included. */
#define TAP_DEADLINE 90

typedef struct {
    int points;
    int failed;
} tap_state_t;

/* In shared memory: written by whichever process calls ok(). */
static tap_state_t *tap_state;

typedef struct {
    const char *name;
    void (*run)(void);
} tap_test_t;

/* clang-format off */
#define TAP_TEST(function) { #function, function }
/* clang-format on */

static inline void diag(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
static inline int tap_ok(const char *file, int line, int pass,
                         const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline void diag(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("# ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

static inline int tap_ok(const char *file, int line, int pass,
                         const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    printf("%sok %d - %s\n", pass ? "" : "not ",
           __atomic_add_fetch(&tap_state->points, 1, __ATOMIC_SEQ_CST), text);
    if (!pass) {
        __atomic_add_fetch(&tap_state->failed, 1, __ATOMIC_SEQ_CST);
        diag("failed in %s at line %d", file, line);
    }
    return pass;
}

/** A test point: passes if the condition holds. */
#define ok(pass, ...) tap_ok(__FILE__, __LINE__, (pass) ? 1 : 0, __VA_ARGS__)

/** A test point: passes if two integers are the same. */
#define is(got, expected, ...) \
    do { \
        long long tap_got = (long long)(got); \
        long long tap_expected = (long long)(expected); \
        if (!ok(tap_got == tap_expected, __VA_ARGS__)) { \
            diag("got %lld, expected %lld", tap_got, tap_expected); \
        } \
    } while (0)

/** A test point that cannot be tried here. */
static inline void skip(const char *reason)
{
    printf("ok %d # SKIP %s\n",
           __atomic_add_fetch(&tap_state->points, 1, __ATOMIC_SEQ_CST), reason);
}

/* Wait for a test's process until the deadline; returns its wait status. */
static inline int tap_wait(pid_t pid, const sigset_t *sigchld)
{
    const struct timespec limit = { TAP_DEADLINE, 0 };
    int status = -1;
    int rv;

    do {
        rv = sigtimedwait(sigchld, NULL, &limit);
    } while (rv < 0 && errno == EINTR);
    ok(rv == SIGCHLD, "ended within %d s", TAP_DEADLINE);
    /* With the group goes what the test has left behind. */
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    return status;
}

static inline void tap_run(const tap_test_t *test)
{
    const struct rlimit no_core = { 0, 0 };
    sigset_t sigchld;
    sigset_t none;
    int status;
    int signo;
    pid_t pid;

    diag("%s", test->name);
    fflush(stdout);
    sigemptyset(&none);
    sigemptyset(&sigchld);
    sigaddset(&sigchld, SIGCHLD);
    sigprocmask(SIG_SETMASK, &sigchld, NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        setrlimit(RLIMIT_CORE, &no_core);
        /* Whoever started us may ignore some, as nohup does. */
        for (signo = 1; signo <= SIGRTMAX; ++signo) {
            signal(signo, SIG_DFL);
        }
        sigprocmask(SIG_SETMASK, &none, NULL);
        test->run();
        exit(0);
    }
    if (pid < 0) {
        /* No point for a fork that works: the test prints its own by then. */
        ok(0, "%s: fork", test->name);
        return;
    }
    status = tap_wait(pid, &sigchld);
    if (!ok(status == 0, "%s: ended", test->name)) {
        diag("%s %d", WIFSIGNALED(status) ? "signal" : "exit status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

static inline int done_testing(void)
{
    printf("1..%d\n", tap_state->points);
    return tap_state->failed != 0;
}

/** Zeroed memory that children share, until the process ends. */
static inline void *shared_memory(size_t size)
{
    const int how = MAP_SHARED | MAP_ANONYMOUS;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, how, -1, 0);

    if (memory == MAP_FAILED) {
        printf("Bail out! mmap: %s\n", strerror(errno));
        exit(1);
    }
    return memory;
}

/** Run the tests that the command line names, or all. */
static inline int tap_main(int argc, char **argv, const tap_test_t *tests,
                           size_t count)
{
    size_t i;
    int arg;

    /* Nothing of a line is left in the buffer when a test forks. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    tap_state = shared_memory(sizeof(*tap_state));
    for (i = 0; i < count; ++i) {
        for (arg = 1; arg < argc && strcmp(argv[arg], tests[i].name) != 0;
             ++arg) {
            continue;
        }
        if (argc == 1 || arg < argc) {
            tap_run(&tests[i]);
        }
    }
    return done_testing();
}

/** Set where a tool stands between kernel and handlers, as ThreadSanitizer
 * does: it keeps signals back until the thread's next call, at most one of a
 * number, and lets no handler change the mask that it returns to.
 */
static inline int emulated(void)
{
#ifdef __SANITIZE_THREAD__
    return 1;
#else
    return getenv("SIGDEFER_TEST_EMULATED") != NULL;
#endif
}

#define TAP_RUN(tests) \
    tap_main(argc, argv, (tests), sizeof(tests) / sizeof(*(tests)))

#define TAP_MAIN(tests) \
    int main(int argc, char **argv) \
    { \
        return TAP_RUN(tests); \
    }

/** TAP_MAIN() for tests that make no sense under such a tool; those that the
 * command line names are run all the same.
 */
#define TAP_MAIN_EXACT(tests) \
    int main(int argc, char **argv) \
    { \
        if (emulated() && argc == 1) { \
            printf("1..0 # SKIP signals do not come when they are sent\n"); \
            return 0; \
        } \
        return TAP_RUN(tests); \
    }

/* ---- Processes and waits ------------------------------------------------ */

/** Poll until the condition holds, for at most some 10 s; whether it does. */
#define await(condition) \
    __extension__({ \
        int tap_turns = 0; \
        while (!(condition) && ++tap_turns < 60000) { \
            nanosleep(&(struct timespec){ 0, 100000 }, NULL); \
        } \
        (condition); \
    })

/** Whether the condition holds now; under a tool that keeps signals back until
 * the thread's next system call, soon.
 */
#define at_once(condition) (emulated() ? await(condition) : (condition))

/** Run a function in a child; returns the wait status. */
static inline int status_of(void (*body)(void))
{
    int status = -1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        body();
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    return status;
}

/** A signal set of this thread as /proc has it: "SigBlk", "SigIgn", ... */
static inline sigdefer_set_t proc_set(const char *name)
{
    unsigned long long set = ~0ULL;
    char line[128];
    FILE *file = fopen("/proc/thread-self/status", "r");

    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            sscanf(line + strlen(name), ":%llx", &set);
        }
    }
    if (file) {
        fclose(file);
    }
    return set;
}

/* ---- Signals: sending, recording ---------------------------------------- */

/** A handled signal as its handler saw it. */
typedef struct {
    int signo;
    int code;            /* si_code */
    int value;           /* si_value */
    pid_t pid;           /* si_pid */
    int depth;           /* sections that the thread was in */
    sigdefer_set_t mask; /* blocked meanwhile */
    char *stack;         /* an address on the handler's stack */
} seen_t;

#define SEEN_MAX 64

/* In order of handling; the last entry is overwritten when it is full. */
static seen_t seen[SEEN_MAX];
static volatile sig_atomic_t seen_count;

static inline sigdefer_set_t set_of(const sigset_t *signals)
{
    sigdefer_set_t set = 0;
    int signo;

    for (signo = 1; signo <= SIGRTMAX; ++signo) {
        if (sigismember(signals, signo) == 1) {
            set |= SIGDEFER_BIT(signo);
        }
    }
    return set;
}

static inline sigdefer_set_t current_mask(void)
{
    sigset_t mask;

    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    return set_of(&mask);
}

/** A siginfo handler that records what it sees. */
static inline void record(int signo, siginfo_t *info, void *context)
{
    seen_t *entry = &seen[seen_count < SEEN_MAX ? seen_count : SEEN_MAX - 1];

    (void)context;
    ++seen_count;
    entry->signo = signo;
    entry->code = info->si_code;
    entry->value = info->si_value.sival_int;
    entry->pid = info->si_pid;
    entry->depth = sigdefer_depth();
    entry->mask = current_mask();
    entry->stack = __builtin_frame_address(0);
}

/** Register a siginfo handler for deferral; returns what it was told. */
static inline int handle(int signo, void (*handler)(int, siginfo_t *, void *),
                         int flags, sigdefer_set_t mask)
{
    struct sigaction action;
    int other;

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    for (other = 1; other <= SIGRTMAX; ++other) {
        if (mask & SIGDEFER_BIT(other)) {
            sigaddset(&action.sa_mask, other);
        }
    }
    return sigdefer_sigaction(signo, &action, NULL);
}

/** Send a signal with a value to this process. */
static inline int send_value(int signo, int value)
{
    return sigqueue(getpid(), signo, (union sigval){ .sival_int = value });
}

static inline void change_mask(int how, int signo)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signo);
    pthread_sigmask(how, &set, NULL);
}

static inline sigdefer_stats_t stats_now(void)
{
    sigdefer_stats_t stats;

    sigdefer_stats(&stats);
    return stats;
}

/** Start the engine with the default signals. */
static inline void install(void)
{
    is(sigdefer_install(sigdefer_default_set()), 0, "installed");
}

#endif /* SIGDEFER_TEST_TAP_H */
