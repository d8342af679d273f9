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

/* A module that uses mod_sigdefer.h as a stranger would, for the tests.
 *
 * Built twice: linked (probe_linked_module) and, with SIGDEFER_SOFT, soft
 * (probe_soft_module).  Its handler, "probe-linked" or "probe-soft", carries
 * out the command that the last segment of the path names and answers with
 * lines of "name: value".
 *
 * Concurrency: the tests put one question at a time to a process, so what
 * handlers note is kept in statics.  A handler runs on the thread that serves
 * the request, since in a threaded MPM no other has the signals open.
 */

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_log.h"
#include "http_protocol.h"
#include "http_request.h"
#include "util_script.h"
#include "apr_lib.h"
#include "apr_strings.h"

#define SIGDEFER_ZEND_NAMES
#include "mod_sigdefer.h"

#ifdef SIGDEFER_SOFT
#define PROBE_NAME "probe-soft"
#define PROBE_MODULE probe_soft_module
APLOG_USE_MODULE(probe_soft);
#else
#define PROBE_NAME "probe-linked"
#define PROBE_MODULE probe_linked_module
APLOG_USE_MODULE(probe_linked);
#endif

/* --- what handlers note ------------------------------------------------ */

#define SEEN_MAX 64

typedef struct {
    int signo;
    int code;
    int value;
    pid_t pid;
    int depth;
} seen_t;

static volatile sig_atomic_t seen_count;
static seen_t seen[SEEN_MAX];

static void on_signal(int signo, siginfo_t *info, void *context)
{
    int n = seen_count;

    if (n < SEEN_MAX) {
        seen[n].signo = signo;
        seen[n].code = info->si_code;
        seen[n].value = info->si_value.sival_int;
        seen[n].pid = info->si_pid;
        seen[n].depth = sigdefer_depth();
    }
    seen_count = n + 1;
}

/* Registered behind the back of mod_sigdefer. */
static void on_signal_foreign(int signo, siginfo_t *info, void *context)
{
    on_signal(signo, info, context);
}

/* The second handler of "changed". */
static void on_signal_newer(int signo, siginfo_t *info, void *context)
{
    on_signal(signo, info, context);
    seen[0].value += 100;
}

/* --- actions, put back at the end of the command ----------------------- */

typedef void handler_fn(int, siginfo_t *, void *);

static struct sigaction saved[NSIG];
static char is_saved[NSIG];

static void watch_with(int signo, handler_fn *handler, int flags)
{
    struct sigaction act;
    struct sigaction old;

    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_sigaction = handler;
    act.sa_flags = SA_SIGINFO | flags;
    if (sigdefer_sigaction(signo, &act, &old) == 0 && !is_saved[signo]) {
        saved[signo] = old;
        is_saved[signo] = 1;
    }
}

static void watch(int signo)
{
    watch_with(signo, on_signal, SA_RESTART);
}

static void unwatch_all(void)
{
    int signo;

    for (signo = 1; signo < NSIG; ++signo) {
        if (is_saved[signo]) {
            sigdefer_sigaction(signo, &saved[signo], NULL);
            is_saved[signo] = 0;
        }
    }
}

/* A threaded MPM shuts all asynchronous signals in its workers.  Opens those
 * that the commands send.
 * @param opened set to what was shut before
 */
static void open_signals(sigset_t *opened)
{
    int signos[] = { SIGALRM, SIGCHLD, SIGUSR2, SIGRTMIN, SIGRTMIN + 1 };
    sigset_t mask;
    size_t i;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    sigemptyset(opened);
    for (i = 0; i < sizeof(signos) / sizeof(signos[0]); ++i) {
        if (sigismember(&mask, signos[i])) {
            sigaddset(opened, signos[i]);
        }
    }
    pthread_sigmask(SIG_UNBLOCK, opened, NULL);
}

/* --- small helpers ----------------------------------------------------- */

static const char *arg(request_rec *r, const char *name, const char *unset)
{
    apr_table_t *args;
    const char *value;

    ap_args_to_table(r, &args);
    value = apr_table_get(args, name);
    return value ? value : unset;
}

static int int_arg(request_rec *r, const char *name, int unset)
{
    const char *value = arg(r, name, NULL);

    return value ? atoi(value) : unset;
}

static void say(request_rec *r, const char *name, long value)
{
    ap_rprintf(r, "%s: %ld\n", name, value);
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Lets time pass, whatever signals come. */
static void pass_ms(int ms)
{
    int64_t end = now_ms() + ms;
    int64_t left;

    while ((left = end - now_ms()) > 0) {
        poll(NULL, 0, (int)left);
    }
}

static void send_value(int signo, int value)
{
    union sigval sigval;

    memset(&sigval, 0, sizeof(sigval));
    sigval.sival_int = value;
    pthread_sigqueue(pthread_self(), signo, sigval);
}

static void set_timer(int first_ms, int next_ms)
{
    struct itimerval timer;

    timer.it_value.tv_sec = first_ms / 1000;
    timer.it_value.tv_usec = (suseconds_t)(first_ms % 1000) * 1000;
    timer.it_interval.tv_sec = next_ms / 1000;
    timer.it_interval.tv_usec = (suseconds_t)(next_ms % 1000) * 1000;
    setitimer(ITIMER_REAL, &timer, NULL);
}

static sigdefer_stats_t stats_now(void)
{
    sigdefer_stats_t stats;

    sigdefer_stats(&stats);
    return stats;
}

/* --- how a section is entered ------------------------------------------ */

typedef struct {
    const char *name;
    void (*enter)(void);
    void (*leave)(void);
} bracket_t;

static void macro_enter(void)
{
    SIGDEFER_ENTER();
}

static void macro_leave(void)
{
    SIGDEFER_LEAVE();
}

static void zend_enter(void)
{
    HANDLE_BLOCK_INTERRUPTIONS();
}

static void zend_leave(void)
{
    HANDLE_UNBLOCK_INTERRUPTIONS();
}

static void call_enter(void)
{
    ap_block_alarms();
}

static void call_leave(void)
{
    ap_unblock_alarms();
}

static const bracket_t brackets[] = {
    { "macro", macro_enter, macro_leave },
    { "zend", zend_enter, zend_leave },
    { "call", call_enter, call_leave },
};

static const bracket_t *bracket_arg(request_rec *r)
{
    const char *name = arg(r, "by", "macro");
    size_t i;

    for (i = 0; i < sizeof(brackets) / sizeof(brackets[0]); ++i) {
        if (!strcmp(name, brackets[i].name)) {
            return &brackets[i];
        }
    }
    return &brackets[0];
}

/* --- sections ---------------------------------------------------------- */

static void cmd_state(request_rec *r)
{
    static const char *const names[] = { "ABSENT", "OFF", "ON" };
    sigdefer_state_e state = sigdefer_state();

    ap_rprintf(r, "state: %d %s\n", state, names[state]);
    say(r, "depth", sigdefer_depth());
    say(r, "pid", getpid());
}

static void cmd_stats(request_rec *r)
{
    sigdefer_stats_t stats = stats_now();

    say(r, "direct", (long)stats.direct);
    say(r, "deferred", (long)stats.deferred);
    say(r, "replayed", (long)stats.replayed);
    say(r, "merged", (long)stats.merged);
    say(r, "ignored", (long)stats.ignored);
    say(r, "handed_back", (long)stats.handed_back);
    say(r, "overflows", (long)stats.overflows);
    say(r, "lost", (long)stats.lost);
    say(r, "unpaired_leaves", (long)stats.unpaired_leaves);
    say(r, "open_sections", (long)stats.open_sections);
    say(r, "adopted", (long)stats.adopted);
    say(r, "reaped", (long)stats.reaped);
    say(r, "longest_ms", (long)(stats.longest_ns / 1000000));
}

/* Sections that nest, with a signal in the inner one. */
static void cmd_nesting(request_rec *r)
{
    const bracket_t *by = bracket_arg(r);
    sigset_t pending;

    watch(SIGUSR2);
    by->enter();
    by->enter();
    say(r, "depth_inner", sigdefer_depth());
    raise(SIGUSR2);
    say(r, "calls_inner", seen_count);
    say(r, "pending", sigdefer_pending(&pending));
    say(r, "pending_usr2", sigismember(&pending, SIGUSR2));
    by->leave();
    say(r, "calls_outer", seen_count);
    by->leave();
    say(r, "calls_after", seen_count);
    say(r, "depth_in_handler", seen[0].depth);
    say(r, "depth_after", sigdefer_depth());
    say(r, "pending_after", sigdefer_pending(NULL));
    raise(SIGUSR2);
    say(r, "calls_outside", seen_count);
}

/* Two leaves without an enter, and a section that works after all. */
static void cmd_unpaired(request_rec *r)
{
    const bracket_t *by = bracket_arg(r);
    uint64_t before = stats_now().unpaired_leaves;

    watch(SIGUSR2);
    by->leave();
    say(r, "depth_first", sigdefer_depth());
    by->leave();
    say(r, "depth_second", sigdefer_depth());
    by->enter();
    say(r, "depth_inside", sigdefer_depth());
    raise(SIGUSR2);
    say(r, "calls_inside", seen_count);
    by->leave();
    say(r, "calls_after", seen_count);
    say(r, "counted", (long)(stats_now().unpaired_leaves - before));
}

/* Signals of several kinds in one section, in the order of their arrival. */
static void cmd_order(request_rec *r)
{
    int signos[] = { SIGRTMIN + 1, SIGUSR2,      SIGRTMIN,
                     SIGRTMIN + 1, SIGRTMIN + 1, SIGRTMIN };
    int count = (int)(sizeof(signos) / sizeof(signos[0]));
    int i;

    watch(SIGUSR2);
    watch(SIGRTMIN);
    watch(SIGRTMIN + 1);
    SIGDEFER_ENTER();
    for (i = 0; i < count; ++i) {
        send_value(signos[i], i + 1);
    }
    say(r, "calls_inside", seen_count);
    SIGDEFER_LEAVE();
    say(r, "calls_after", seen_count);
    for (i = 0; i < count && i < seen_count; ++i) {
        ap_rprintf(r, "call %d: signal %s value %d code %s sender %s\n", i + 1,
                   seen[i].signo == signos[i] ? "right" : "wrong",
                   seen[i].value, seen[i].code == SI_QUEUE ? "right" : "wrong",
                   seen[i].pid == getpid() ? "right" : "wrong");
    }
}

/* A section that is held while the test sends SIGUSR2 from outside. */
static void cmd_hold(request_rec *r)
{
    watch(SIGUSR2);
    SIGDEFER_ENTER();
    say(r, "pid", getpid());
    ap_rflush(r);
    pass_ms(int_arg(r, "ms", 500));
    say(r, "calls_inside", seen_count);
    SIGDEFER_LEAVE();
    say(r, "calls_after", seen_count);
    say(r, "sender", seen[0].pid);
    say(r, "code_user", seen[0].code == SI_USER);
}

static void cmd_open(request_rec *r)
{
    int depth = int_arg(r, "depth", 1);

    while (depth-- > 0) {
        SIGDEFER_ENTER();
    }
    say(r, "depth", sigdefer_depth());
}

/* Whatever is raised here has the action that the process has for it. */
static void cmd_raise(request_rec *r)
{
    int signo = int_arg(r, "signal", SIGUSR2);
    int in_section = int_arg(r, "section", 1);

    if (in_section) {
        SIGDEFER_ENTER();
    }
    raise(signo);
    say(r, "calls_inside", seen_count);
    ap_rflush(r);
    if (in_section) {
        SIGDEFER_LEAVE();
    }
    say(r, "calls_after", seen_count);
}

static sigjmp_buf jump_target;

static void on_signal_jump(int signo, siginfo_t *info, void *context)
{
    on_signal(signo, info, context);
    siglongjmp(jump_target, 1);
}

/* Jumps out of a section, and out of a handler that runs at its end. */
static void cmd_jump(request_rec *r)
{
    sigdefer_mark_t mark = sigdefer_mark();

    watch(SIGUSR2);
    if (!sigsetjmp(jump_target, 1)) {
        SIGDEFER_ENTER();
        SIGDEFER_ENTER();
        raise(SIGUSR2);
        siglongjmp(jump_target, 1);
    }
    say(r, "calls_before_restore", seen_count);
    sigdefer_restore(mark);
    say(r, "depth_after_jump", sigdefer_depth());
    say(r, "calls_after_jump", seen_count);

    watch_with(SIGUSR2, on_signal_jump, 0);
    if (!sigsetjmp(jump_target, 1)) {
        SIGDEFER_ENTER();
        raise(SIGUSR2);
        SIGDEFER_LEAVE();
    }
    sigdefer_restore(mark);
    say(r, "calls_handler_jumped", seen_count);

    watch(SIGUSR2);
    SIGDEFER_ENTER();
    raise(SIGUSR2);
    say(r, "calls_inside_again", seen_count);
    SIGDEFER_LEAVE();
    say(r, "calls_again", seen_count);
}

/* A fork inside a section; what the forked process finds. */
static void cmd_fork(request_rec *r)
{
    int report[6] = { -1, -1, -1, -1, -1, -1 };
    int ends[2];
    int status = -1;
    pid_t pid;

    watch(SIGUSR2);
    if (pipe(ends)) {
        return;
    }
    SIGDEFER_ENTER();
    raise(SIGUSR2);
    pid = fork();
    if (pid == 0) {
        report[0] = sigdefer_depth();
        report[1] = sigdefer_pending(NULL);
        raise(SIGUSR2);
        report[2] = seen_count;
        SIGDEFER_LEAVE();
        report[3] = seen_count;
        report[4] = sigdefer_depth();
        report[5] = sigdefer_state();
        _exit(write(ends[1], report, sizeof(report)) == sizeof(report) ? 0 : 1);
    }
    close(ends[1]);
    if (pid > 0 && read(ends[0], report, sizeof(report)) == sizeof(report)) {
        waitpid(pid, &status, 0);
    }
    close(ends[0]);
    say(r, "calls_inside", seen_count);
    SIGDEFER_LEAVE();
    say(r, "calls_after", seen_count);
    say(r, "child_status", status);
    say(r, "child_depth", report[0]);
    say(r, "child_pending", report[1]);
    say(r, "child_calls_inside", report[2]);
    say(r, "child_calls_after", report[3]);
    say(r, "child_depth_after", report[4]);
    say(r, "child_state", report[5]);
}

/* A forked process that waits for TERM to end it. */
static void cmd_fork_term(request_rec *r)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        for (;;) {
            pause();
        }
    }
    kill(pid, SIGTERM);
    while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
        continue;
    }
    say(r, "ended", WIFEXITED(status) || WIFSIGNALED(status));
}

static void say_status_of(request_rec *r, FILE *file)
{
    char line[256];

    while (fgets(line, sizeof(line), file)) {
        if (!strncmp(line, "SigBlk:", 7) || !strncmp(line, "SigIgn:", 7)
            || !strncmp(line, "SigCgt:", 7)) {
            ap_rputs(line, r);
        }
    }
}

/* The mask and the ignored signals of a program started at depth 2. */
static void cmd_spawn(request_rec *r)
{
    FILE *file;

    SIGDEFER_ENTER();
    SIGDEFER_ENTER();
    file = popen("exec cat /proc/self/status", "r");
    if (file) {
        say_status_of(r, file);
        say(r, "status", pclose(file));
    }
    SIGDEFER_LEAVE();
    SIGDEFER_LEAVE();
}

/* The statuses of programs, asked for in the usual ways. */
static void cmd_statuses(request_rec *r)
{
    FILE *file = popen("exit 7", "r");

    say(r, "pclose", file ? WEXITSTATUS(pclose(file)) : -1);
    say(r, "system", WEXITSTATUS(system("exit 9")));
}

/* --- actions ----------------------------------------------------------- */

static const struct {
    const char *name;
    int signo;
} named_signals[] = {
    { "ALRM", SIGALRM }, { "HUP", SIGHUP },   { "INT", SIGINT },
    { "QUIT", SIGQUIT }, { "TERM", SIGTERM }, { "USR1", SIGUSR1 },
    { "USR2", SIGUSR2 }, { "PROF", SIGPROF },
};

/* The C library's own flag on some machines: how its handlers return. */
#define RESTORER 0x04000000u

#define NAMED_SIGNALS (sizeof(named_signals) / sizeof(named_signals[0]))

static const char *describe(apr_pool_t *pool, const struct sigaction *act)
{
    unsigned long mask = 0;
    const char *handler;
    Dl_info info;
    int signo;

    for (signo = 1; signo < 32; ++signo) {
        if (sigismember(&act->sa_mask, signo) == 1) {
            mask |= 1ul << (signo - 1);
        }
    }
    if (act->sa_handler == SIG_DFL) {
        handler = "default";
    }
    else if (act->sa_handler == SIG_IGN) {
        handler = "ignored";
    }
    else if (dladdr((void *)act->sa_sigaction, &info) && info.dli_fname) {
        handler = apr_psprintf(pool, "%s+%lx",
                               apr_filepath_name_get(info.dli_fname),
                               (unsigned long)((char *)act->sa_sigaction
                                               - (char *)info.dli_fbase));
    }
    else {
        handler = apr_psprintf(pool, "%pp", (void *)act->sa_sigaction);
    }
    return apr_psprintf(pool, "%s flags %x mask %lx", handler,
                        (unsigned)act->sa_flags & ~RESTORER, mask);
}

/* Each action as the kernel has it and as its owner registered it. */
static void cmd_actions(request_rec *r)
{
    struct sigaction act;
    FILE *file;
    size_t i;

    for (i = 0; i < NAMED_SIGNALS; ++i) {
        sigaction(named_signals[i].signo, NULL, &act);
        ap_rprintf(r, "kernel %s: %s\n", named_signals[i].name,
                   describe(r->pool, &act));
        sigdefer_sigaction(named_signals[i].signo, NULL, &act);
        ap_rprintf(r, "registered %s: %s\n", named_signals[i].name,
                   describe(r->pool, &act));
    }
    file = fopen("/proc/self/status", "r");
    if (file) {
        say_status_of(r, file);
        fclose(file);
    }
}

/* The action is exchanged between the arrival of a signal and its handling. */
static void cmd_changed(request_rec *r)
{
    const char *to = arg(r, "to", "ignore");

    watch(SIGUSR2);
    SIGDEFER_ENTER();
    send_value(SIGUSR2, 7);
    if (!strcmp(to, "ignore")) {
        sigdefer_signal(SIGUSR2, SIG_IGN);
    }
    else if (!strcmp(to, "default")) {
        sigdefer_signal(SIGUSR2, SIG_DFL);
    }
    else {
        watch_with(SIGUSR2, on_signal_newer, 0);
    }
    say(r, "calls_inside", seen_count);
    ap_rflush(r);
    SIGDEFER_LEAVE();
    say(r, "calls_after", seen_count);
    say(r, "value", seen[0].value);
    say(r, "code_queue", seen[0].code == SI_QUEUE);
    say(r, "sender_self", seen[0].pid == getpid());
}

/* An interval timer that ticks again and again during one section. */
static void cmd_late_timer(request_rec *r)
{
    watch(SIGALRM);
    SIGDEFER_ENTER();
    set_timer(100, 100);
    pass_ms(int_arg(r, "ms", 1050));
    say(r, "calls_inside", seen_count);
    set_timer(0, 0);
    SIGDEFER_LEAVE();
    say(r, "calls_after", seen_count);
    say(r, "longest_ms", (long)(stats_now().longest_ns / 1000000));
}

static volatile sig_atomic_t gone_calls;

static void on_signal_gone(int signo, siginfo_t *info, void *context)
{
    ++gone_calls;
}

/* A timer whose handler has been put away again when its turn comes. */
static void cmd_gone_timer(request_rec *r)
{
    struct sigaction act;
    struct sigaction outer;

    gone_calls = 0;
    watch(SIGALRM);
    SIGDEFER_ENTER();
    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_sigaction = on_signal_gone;
    act.sa_flags = SA_SIGINFO;
    sigdefer_sigaction(SIGALRM, &act, &outer);
    set_timer(100, 0);
    pass_ms(300);
    sigdefer_sigaction(SIGALRM, &outer, NULL);
    SIGDEFER_LEAVE();
    say(r, "inner_calls", gone_calls);
    say(r, "outer_calls", seen_count);
    say(r, "outer_read_back", outer.sa_sigaction == on_signal);
}

#define RAISES 20000

static char *stack_low;
static char *stack_high;
static volatile sig_atomic_t nested_calls;
static volatile sig_atomic_t nested_max;

/* Raises its own signal, and has a section of its own: neither may make a
 * handler run inside this one.
 */
static void on_signal_raise(int signo, siginfo_t *info, void *context)
{
    char *address = __builtin_frame_address(0);

    if (++nested_calls > nested_max) {
        nested_max = nested_calls;
    }
    stack_low = !stack_low || address < stack_low ? address : stack_low;
    stack_high = address > stack_high ? address : stack_high;
    if (++seen_count < RAISES) {
        SIGDEFER_ENTER();
        raise(signo);
        SIGDEFER_LEAVE();
    }
    --nested_calls;
}

static void cmd_reentrant(request_rec *r)
{
    stack_low = NULL;
    stack_high = NULL;
    nested_calls = 0;
    nested_max = 0;
    watch_with(SIGUSR2, on_signal_raise, 0);
    SIGDEFER_ENTER();
    raise(SIGUSR2);
    SIGDEFER_LEAVE();
    say(r, "calls", seen_count);
    say(r, "nested", nested_max);
    say(r, "stack_span", (long)(stack_high - stack_low));
}

/* Goes behind the back of mod_sigdefer, and stays. */
static void cmd_foreign(request_rec *r)
{
    struct sigaction act;

    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_sigaction = on_signal_foreign;
    act.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR2, &act, NULL);
    say(r, "pid", getpid());
}

#define MANY_SIGNALS 12 /* SIGRTMIN and those that follow */

static void cmd_foreign_many(request_rec *r)
{
    struct sigaction act;
    int i;

    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_sigaction = on_signal_foreign;
    act.sa_flags = SA_SIGINFO;
    for (i = 0; i < MANY_SIGNALS; i++) {
        sigaction(SIGRTMIN + i, &act, NULL);
    }
    say(r, "signals", MANY_SIGNALS);
}

static void on_signal_crash(int signo, siginfo_t *info, void *context)
{
    static volatile int *volatile nowhere;

    *nowhere = 1; /* NOLINT(*.NullDereference) */
}

static void cmd_crash(request_rec *r)
{
    watch_with(SIGUSR2, on_signal_crash, 0);
    SIGDEFER_ENTER();
    raise(SIGUSR2);
    say(r, "pid", getpid());
    ap_rflush(r);
    SIGDEFER_LEAVE();
}

static void cmd_bad(request_rec *r)
{
    static const int signos[] = { -1,      0,       NSIG,    NSIG + 1000,
                                  SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,
                                  SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,
                                  SIGABRT };
    struct sigaction act;
    size_t i;

    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_handler = SIG_DFL;
    for (i = 0; i < sizeof(signos) / sizeof(signos[0]); ++i) {
        int rv = sigdefer_sigaction(signos[i], &act, NULL);

        errno = 0;
        ap_rprintf(r, "signal %d: %s %s\n", signos[i],
                   rv == EINVAL ? "EINVAL"
                   : rv         ? "other"
                                : "accepted",
                   sigdefer_signal(signos[i], SIG_DFL) == SIG_ERR
                           && errno == EINVAL
                       ? "EINVAL"
                       : "accepted");
    }
    say(r, "nothing", sigdefer_sigaction(SIGUSR2, NULL, NULL));
}

/* --- what an interrupted program must not notice ----------------------- */

static char *alt_low;
static char *alt_high;
static volatile sig_atomic_t calls_on_alt;

static void on_signal_alt(int signo, siginfo_t *info, void *context)
{
    char here;
    char *address = &here;

    on_signal(signo, info, context);
    calls_on_alt += address >= alt_low && address < alt_high;
}

static void cmd_alternate_stack(request_rec *r)
{
    size_t size = 65536;
    struct sigaction act;
    stack_t stack;
    stack_t old;

    memset(&stack, 0, sizeof(stack));
    stack.ss_sp = apr_palloc(r->pool, size);
    stack.ss_size = size;
    alt_low = stack.ss_sp;
    alt_high = alt_low + size;
    calls_on_alt = 0;
    sigaltstack(&stack, &old);
    watch_with(SIGUSR2, on_signal_alt, SA_ONSTACK | SA_RESTART);
    raise(SIGUSR2);
    say(r, "outside_on_stack", calls_on_alt);
    SIGDEFER_ENTER();
    raise(SIGUSR2);
    say(r, "calls_inside", seen_count);
    SIGDEFER_LEAVE();
    say(r, "calls_after", seen_count);
    say(r, "replayed_on_stack", calls_on_alt);
    sigaction(SIGUSR2, NULL, &act);
    say(r, "kernel_onstack", !!(act.sa_flags & SA_ONSTACK));
    say(r, "kernel_restart", !!(act.sa_flags & SA_RESTART));
    watch_with(SIGUSR2, on_signal_alt, SA_ONSTACK);
    sigaction(SIGUSR2, NULL, &act);
    say(r, "kernel_no_restart", !(act.sa_flags & SA_RESTART));
    sigdefer_sigaction(SIGUSR2, NULL, &act);
    say(r, "registered_onstack", !!(act.sa_flags & SA_ONSTACK));
    say(r, "registered_no_restart", !(act.sa_flags & SA_RESTART));
    unwatch_all();
    sigaltstack(&old, NULL);
}

/* One read of an empty pipe that a timer interrupts after 100 ms, and that
 * gets its byte after 300 ms.
 */
static void *write_late(void *data)
{
    pass_ms(300);
    return write(*(int *)data, "x", 1) == 1 ? data : NULL;
}

static void interrupted_read(request_rec *r, const char *name, int flags)
{
    int ends[2];
    pthread_t thread;
    sigset_t all;
    sigset_t old;
    char byte;
    ssize_t n;

    if (pipe(ends)) {
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pthread_create(&thread, NULL, write_late, &ends[1]);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    watch_with(SIGALRM, on_signal, flags);
    set_timer(100, 0);
    n = read(ends[0], &byte, 1);
    ap_rprintf(r, "%s: %s\n", name,
               n == 1           ? "read"
               : errno == EINTR ? "EINTR"
                                : "other");
    pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
}

static void cmd_restarted_call(request_rec *r)
{
    interrupted_read(r, "with_restart", SA_RESTART);
    interrupted_read(r, "without_restart", 0);
    say(r, "calls", seen_count);
}

/* Runs malloc and free, in and out of sections, for a while; the test and a
 * timer send signals meanwhile.
 */
static void cmd_malloc(request_rec *r)
{
    int64_t end = now_ms() + int_arg(r, "ms", 1000);
    long rounds = 0;

    watch(SIGUSR2);
    watch(SIGALRM);
    say(r, "pid", getpid());
    ap_rflush(r);
    set_timer(2, 2);
    while (now_ms() < end) {
        int i;

        for (i = 1; i < 100; ++i) {
            void *volatile outside = malloc((size_t)i * 37);
            void *volatile inside;

            SIGDEFER_ENTER();
            inside = malloc((size_t)i * 53);
            free(outside);
            SIGDEFER_LEAVE();
            free(inside);
        }
        ++rounds;
    }
    set_timer(0, 0);
    say(r, "rounds", rounds);
    say(r, "calls", seen_count);
}

typedef struct {
    pthread_t target;
    volatile int done;
} disturber_t;

/* Makes children end, and sends SIGUSR2, without pause. */
static void *disturb(void *data)
{
    disturber_t *disturber = data;

    while (!disturber->done) {
        pid_t pid = fork();

        if (pid == 0) {
            _exit(0);
        }
        pthread_kill(disturber->target, SIGUSR2);
        waitpid(pid, NULL, 0);
    }
    return NULL;
}

static void cmd_errno(request_rec *r)
{
    disturber_t disturber;
    sigset_t all;
    sigset_t old;
    pthread_t thread;
    int64_t end = now_ms() + 10000;
    int differences = 0;
    int turn;

    watch(SIGUSR2);
    disturber.target = pthread_self();
    disturber.done = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pthread_create(&thread, NULL, disturb, &disturber);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    for (turn = 0; (turn < 20000 || seen_count < 200) && now_ms() < end;
         ++turn) {
        volatile int spin;

        SIGDEFER_ENTER();
        errno = 71;
        for (spin = 0; spin < 2000; ++spin) {
            continue;
        }
        SIGDEFER_LEAVE();
        for (spin = 0; spin < 2000; ++spin) {
            continue;
        }
        differences += errno != 71;
    }
    disturber.done = 1;
    pthread_join(thread, NULL);
    say(r, "calls", seen_count);
    say(r, "differences", differences);
}

/* A wait that a SIGCHLD may interrupt; poll() is never restarted. */
static void cmd_interrupted_wait(request_rec *r)
{
    int64_t start = now_ms();
    int status = 0;
    pid_t reaped;
    pid_t pid = fork();
    int rv;

    if (pid == 0) {
        usleep(100000);
        _exit(5);
    }
    rv = poll(NULL, 0, 600);
    ap_rprintf(r, "poll: %s\n",
               rv == 0          ? "timeout"
               : errno == EINTR ? "EINTR"
                                : "other");
    say(r, "slept_ms", (long)(now_ms() - start));
    reaped = waitpid(pid, &status, 0);
    ap_rprintf(r, "waitpid: %s\n",
               reaped == pid && WEXITSTATUS(status) == 5 ? "status" : "gone");
}

/* --- requests that take their time ------------------------------------- */

/* Set while "slow" serves, for the report at the end of the child. */
static volatile sig_atomic_t serving;

static void cmd_slow(request_rec *r)
{
    int chunks = int_arg(r, "chunks", 30);
    int i;

    serving = 1;
    pass_ms(int_arg(r, "first_ms", 0));
    say(r, "pid", getpid());
    for (i = 1; i <= chunks && !r->connection->aborted; ++i) {
        say(r, "chunk", i);
        ap_rflush(r);
        pass_ms(int_arg(r, "step_ms", 100));
    }
    ap_rputs("END\n", r);
    serving = 0;
}

/* One wait, which a signal would cut short.  Each returns whether the call
 * ended as it does when nothing happens.
 */
static int wait_sleep(int seconds)
{
    struct timespec whole = { seconds, 0 };

    return nanosleep(&whole, NULL) == 0;
}

static int wait_poll(int seconds)
{
    return poll(NULL, 0, seconds * 1000) == 0;
}

static int wait_select(int seconds)
{
    struct timeval whole = { seconds, 0 };

    return select(0, NULL, NULL, NULL, &whole) == 0;
}

static int wait_recv(int seconds)
{
    struct timeval whole = { seconds, 0 };
    int ends[2];
    char byte;
    int in_full;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        return 0;
    }
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &whole, sizeof(whole));
    in_full = recv(ends[0], &byte, 1, 0) == -1
              && (errno == EAGAIN || errno == EWOULDBLOCK);
    close(ends[0]);
    close(ends[1]);
    return in_full;
}

static int wait_popen(int seconds)
{
    char command[64];
    char line[16] = "";
    FILE *program;

    snprintf(command, sizeof(command), "sleep %d && echo slept", seconds);
    program = popen(command, "r");
    return program && fgets(line, sizeof(line), program) && pclose(program) == 0
           && !strcmp(line, "slept\n");
}

static const struct {
    const char *name;
    int (*run)(int seconds);
} waits[] = {
    { "sleep", wait_sleep }, { "poll", wait_poll },   { "select", wait_select },
    { "recv", wait_recv },   { "popen", wait_popen },
};

static void cmd_wait(request_rec *r)
{
    const char *by = arg(r, "by", "sleep");
    int seconds = int_arg(r, "seconds", 1);
    int64_t begun;
    size_t i;

    say(r, "pid", getpid());
    ap_rflush(r);
    begun = now_ms();
    for (i = 0; i < sizeof(waits) / sizeof(waits[0]); ++i) {
        if (!strcmp(waits[i].name, by)) {
            int in_full = waits[i].run(seconds);
            long elapsed = (long)(now_ms() - begun);

            if (in_full && elapsed >= seconds * 1000L) {
                ap_rputs("waited: in full\n", r);
            }
            else {
                ap_rprintf(r, "waited: cut short after %ld ms\n", elapsed);
            }
        }
    }
}

/* A request that never ends, in a thread that no signal reaches. */
static void cmd_masked(request_rec *r)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    say(r, "pid", getpid());
    ap_rflush(r);
    for (;;) {
        pass_ms(1000);
    }
}

/* A request that never ends. */
static void cmd_endless(request_rec *r)
{
    say(r, "pid", getpid());
    ap_rflush(r);
    for (;;) {
        pass_ms(1000);
    }
}

/* A page of another module, made inside a section. */
static void cmd_around(request_rec *r)
{
    request_rec *page = ap_sub_req_lookup_uri(
        apr_pstrcat(r->pool, "/", arg(r, "page", ""), NULL), r, NULL);

    SIGDEFER_ENTER();
    ap_run_sub_req(page);
    SIGDEFER_LEAVE();
    ap_destroy_sub_req(page);
}

/* A section that waits for a lock whose owner is dead. */
static void cmd_stuck(request_rec *r)
{
    pthread_mutexattr_t attr;
    pthread_mutex_t *mutex = mmap(NULL, sizeof(pthread_mutex_t),
                                  PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(mutex, &attr);
    pid = fork();
    if (pid == 0) {
        pthread_mutex_lock(mutex);
        raise(SIGKILL);
    }
    waitpid(pid, NULL, 0);
    say(r, "pid", getpid());
    ap_rflush(r);
    SIGDEFER_ENTER();
    pthread_mutex_lock(mutex);
    SIGDEFER_LEAVE();
}

static void *wait_for_ever(void *data)
{
    for (;;) {
        pause();
    }
    return data;
}

/* A plain thread that has TERM open; with shut=1 this thread shuts it. */
static void cmd_thread(request_rec *r)
{
    pthread_t thread;
    sigset_t mask;
    sigset_t old;

    sigfillset(&mask);
    sigdelset(&mask, SIGTERM);
    pthread_sigmask(SIG_SETMASK, &mask, &old);
    say(r, "created", pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
    pthread_detach(thread);
    if (int_arg(r, "shut", 0)) {
        sigaddset(&old, SIGTERM);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    say(r, "pid", getpid());
}

/* --- the handler ------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(request_rec *r);
    int as_served; /* with the thread's signals as the MPM has them */
} commands[] = {
    { "actions", cmd_actions },
    { "alternate-stack", cmd_alternate_stack },
    { "around", cmd_around },
    { "bad", cmd_bad },
    { "changed", cmd_changed },
    { "crash", cmd_crash },
    { "endless", cmd_endless },
    { "errno", cmd_errno },
    { "foreign", cmd_foreign },
    { "foreign-many", cmd_foreign_many },
    { "fork", cmd_fork },
    { "fork-term", cmd_fork_term },
    { "gone-timer", cmd_gone_timer },
    { "hold", cmd_hold },
    { "interrupted-wait", cmd_interrupted_wait },
    { "jump", cmd_jump },
    { "late-timer", cmd_late_timer },
    { "malloc", cmd_malloc },
    { "masked", cmd_masked },
    { "nesting", cmd_nesting },
    { "open", cmd_open },
    { "order", cmd_order },
    { "raise", cmd_raise },
    { "reentrant", cmd_reentrant },
    { "restarted-call", cmd_restarted_call },
    { "slow", cmd_slow },
    { "spawn", cmd_spawn },
    { "state", cmd_state },
    { "stats", cmd_stats },
    { "statuses", cmd_statuses },
    { "stuck", cmd_stuck },
    { "thread", cmd_thread },
    { "unpaired", cmd_unpaired },
    { "wait", cmd_wait, 1 },
};

static int probe_handler(request_rec *r)
{
    const char *name;
    sigset_t opened;
    size_t i;

    if (!r->handler || strcmp(r->handler, PROBE_NAME) != 0) {
        return DECLINED;
    }
    name = apr_filepath_name_get(r->uri);
    for (i = 0; i < sizeof(commands) / sizeof(commands[0]); ++i) {
        if (!strcmp(name, commands[i].name)) {
            ap_set_content_type(r, "text/plain");
            seen_count = 0;
            memset(seen, 0, sizeof(seen));
            sigemptyset(&opened);
            if (!commands[i].as_served) {
                open_signals(&opened);
            }
            commands[i].run(r);
            unwatch_all();
            pthread_sigmask(SIG_BLOCK, &opened, NULL);
            return OK;
        }
    }
    return HTTP_NOT_FOUND;
}

/* --- the life of a child ----------------------------------------------- */

#define PAUSE_BEFORE_INIT 0x01
#define PAUSE_AFTER_INIT 0x02
#define PAUSE_BEFORE_TEARDOWN 0x04
#define PAUSE_AFTER_TEARDOWN 0x08
#define REPORT_ACTIONS 0x10
#define PAUSE_IN_CONFIG 0x20
#define HANDLER_BEFORE_INIT 0x40
#define HANDLER_AFTER_INIT 0x80

static const struct {
    const char *name;
    unsigned bit;
} option_names[] = {
    { "pause-before-init", PAUSE_BEFORE_INIT },
    { "pause-after-init", PAUSE_AFTER_INIT },
    { "pause-before-teardown", PAUSE_BEFORE_TEARDOWN },
    { "pause-in-config", PAUSE_IN_CONFIG },
    { "pause-after-teardown", PAUSE_AFTER_TEARDOWN },
    { "report-actions", REPORT_ACTIONS },
    { "handler-before-init", HANDLER_BEFORE_INIT },
    { "handler-after-init", HANDLER_AFTER_INIT },
};

/* Of ProbeOptions; read-only once the configuration has been read. */
static unsigned options;

static void report_pause(server_rec *s, unsigned bit)
{
    size_t i;

    for (i = 0; i < sizeof(option_names) / sizeof(option_names[0]); ++i) {
        if (option_names[i].bit == bit && options & bit) {
            ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s,
                         PROBE_NAME ": %ld: %s begins", (long)getpid(),
                         option_names[i].name);
            pass_ms(1000);
            ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s,
                         PROBE_NAME ": %ld: %s ends", (long)getpid(),
                         option_names[i].name);
        }
    }
}

static void report_actions(apr_pool_t *pool, server_rec *s, const char *when)
{
    struct sigaction act;
    size_t i;

    for (i = 0; options & REPORT_ACTIONS && i < NAMED_SIGNALS; ++i) {
        sigaction(named_signals[i].signo, NULL, &act);
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s,
                     PROBE_NAME ": child %ld: %s: %s: %s", (long)getpid(), when,
                     named_signals[i].name, describe(pool, &act));
    }
}

/* A handler of the module's own, for what also ends a child. */
static volatile sig_atomic_t term_calls;
static volatile sig_atomic_t term_calls_serving;

static void on_term(int signo)
{
    term_calls++;
    term_calls_serving += serving;
}

static apr_status_t before_teardown(void *data)
{
    report_pause(data, PAUSE_BEFORE_TEARDOWN);
    return APR_SUCCESS;
}

static apr_status_t after_teardown(void *data)
{
    server_rec *s = data;

    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s,
                 PROBE_NAME ": child %ld leaves, serving: %d", (long)getpid(),
                 (int)serving);
    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s,
                 PROBE_NAME ": child %ld: TERM handler called: %d, serving: %d",
                 (long)getpid(), (int)term_calls, (int)term_calls_serving);
    report_actions(s->process->pool, s, "after teardown");
    report_pause(s, PAUSE_AFTER_TEARDOWN);
    return APR_SUCCESS;
}

/* Cleanups run in the reverse order of their registration: what is registered
 * before mod_sigdefer's child_init hook runs after its cleanups.
 */
static void before_child_init(apr_pool_t *pchild, server_rec *s)
{
    struct sigaction act = { .sa_handler = on_term };

    apr_pool_cleanup_register(pchild, s, after_teardown, apr_pool_cleanup_null);
    if (options & HANDLER_BEFORE_INIT) {
        sigaction(SIGTERM, &act, NULL);
    }
    report_actions(pchild, s, "before init");
    report_pause(s, PAUSE_BEFORE_INIT);
}

static void after_child_init(apr_pool_t *pchild, server_rec *s)
{
    apr_pool_cleanup_register(pchild, s, before_teardown,
                              apr_pool_cleanup_null);
    if (options & HANDLER_AFTER_INIT) {
        sigdefer_signal(SIGTERM, on_term);
    }
    report_pause(s, PAUSE_AFTER_INIT);
}

/* --- configuration ----------------------------------------------------- */

static const char *set_option(cmd_parms *cmd, void *dummy, const char *word)
{
    size_t i;

    for (i = 0; i < sizeof(option_names) / sizeof(option_names[0]); ++i) {
        if (!strcmp(word, option_names[i].name)) {
            options |= option_names[i].bit;
            return NULL;
        }
    }
    return apr_pstrcat(cmd->pool, cmd->cmd->name, ": unknown word ", word,
                       NULL);
}

static int pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    options = 0;
    return OK;
}

/* A configuration that takes its time. */
static int post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                       server_rec *s)
{
    if (ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_CREATE_PRE_CONFIG) {
        report_pause(s, PAUSE_IN_CONFIG);
    }
    return OK;
}

static const command_rec probe_directives[] = {
    AP_INIT_ITERATE("ProbeOptions", set_option, NULL, RSRC_CONF,
                    "what a child does at its start and at its end"),
    { NULL }
};

#ifdef SIGDEFER_SOFT
static void retrieve(void)
{
    sigdefer_attach();
}
#endif

static void register_hooks(apr_pool_t *pool)
{
    static const char *const sigdefer[] = { "mod_sigdefer.c", NULL };

    ap_hook_pre_config(pre_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_post_config(post_config, NULL, NULL, APR_HOOK_MIDDLE);
#ifdef SIGDEFER_SOFT
    ap_hook_optional_fn_retrieve(retrieve, NULL, NULL, APR_HOOK_MIDDLE);
#endif
    ap_hook_child_init(before_child_init, NULL, sigdefer, APR_HOOK_MIDDLE);
    ap_hook_child_init(after_child_init, sigdefer, NULL, APR_HOOK_MIDDLE);
    ap_hook_handler(probe_handler, NULL, NULL, APR_HOOK_MIDDLE);
}

SIGDEFER_DECLARE module AP_MODULE_DECLARE_DATA PROBE_MODULE = {
    STANDARD20_MODULE_STUFF,
    NULL, /* no configuration per directory */
    NULL,
    NULL, /* none per server: see options */
    NULL,
    probe_directives,
    register_hooks,
    AP_MODULE_FLAG_NONE
};
