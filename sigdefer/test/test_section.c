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

/* Sections: depth, nesting, what waits, and how one is left. */

#include <pthread.h>
#include <setjmp.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#define SIGDEFER_ZEND_NAMES
#include "tap.h"

/* Depth counts what has been entered and not left. */
static void depth_counts(void)
{
    install();
    is(sigdefer_depth(), 0, "no section at first");
    SIGDEFER_ENTER();
    is(sigdefer_depth(), 1, "one section");
    sigdefer_enter();
    is(sigdefer_depth(), 2, "two sections");
    SIGDEFER_LEAVE();
    is(sigdefer_depth(), 1, "back to one");
    sigdefer_leave();
    is(sigdefer_depth(), 0, "back to none");
}

/* A signal outside of sections is handled before its sending returns. */
static void direct(void)
{
    install();
    handle(SIGUSR1, record, 0, 0);
    send_value(SIGUSR1, 5);
    is(seen_count, 1, "handled at once");
    is(seen[0].value, 5, "with its value");
    is(stats_now().direct, 1, "counted as direct");
    is(stats_now().deferred, 0, "not as deferred");
}

/* A signal inside nested sections waits for the outermost to be left. */
static void nesting(void)
{
    install();
    handle(SIGUSR1, record, 0, 0);
    SIGDEFER_ENTER();
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 5);
    is(seen_count, 0, "not handled at depth 2");
    SIGDEFER_LEAVE();
    is(seen_count, 0, "not handled at depth 1");
    SIGDEFER_ENTER();
    SIGDEFER_LEAVE();
    is(seen_count, 0, "not handled by a section inside");
    SIGDEFER_LEAVE();
    is(seen_count, 1, "handled when the outermost is left");
    is(seen[0].depth, 0, "outside of sections");
    is(seen[0].value, 5, "with its value");
    is(stats_now().deferred, 1, "counted as deferred");
    is(stats_now().replayed, 1, "counted as replayed");
    is(stats_now().direct, 0, "not counted as direct");
}

/* The query names what waits, and counts each entry. */
static void pending(void)
{
    sigset_t set;

    install();
    handle(SIGUSR1, record, 0, 0);
    handle(SIGUSR2, record, 0, 0);
    handle(SIGRTMIN, record, 0, 0);
    sigfillset(&set);
    is(sigdefer_pending(&set), 0, "nothing waits outside");
    is(set_of(&set), 0, "and the set is empty");
    SIGDEFER_ENTER();
    is(sigdefer_pending(NULL), 0, "nothing waits at first");
    send_value(SIGUSR2, 1);
    send_value(SIGRTMIN, 2);
    send_value(SIGRTMIN, 3);
    is(sigdefer_pending(&set), 3, "three wait");
    ok(set_of(&set) == (SIGDEFER_BIT(SIGUSR2) | SIGDEFER_BIT(SIGRTMIN)),
       "the two that they are");
    is(sigdefer_pending(NULL), 3, "asking without a set");
    SIGDEFER_LEAVE();
    is(sigdefer_pending(&set), 0, "nothing waits afterwards");
    is(seen_count, 3, "all three are handled");
}

/* A leave without an enter changes nothing but its counter. */
static void unpaired_leave(void)
{
    install();
    handle(SIGUSR2, record, 0, 0);
    SIGDEFER_LEAVE();
    SIGDEFER_LEAVE();
    is(sigdefer_depth(), 0, "depth is not negative");
    is(stats_now().unpaired_leaves, 2, "both are counted");
    SIGDEFER_ENTER();
    raise(SIGUSR2);
    is(seen_count, 0, "the next section defers");
    SIGDEFER_LEAVE();
    is(seen_count, 1, "and its leave handles");
    ap_unblock_alarms();
    is(stats_now().unpaired_leaves, 3, "a call without a section, too");
}

/* A jump back to a mark at depth 0 closes what it skips, and handles. */
static void mark_outside(void)
{
    sigdefer_mark_t mark;
    sigjmp_buf env;

    install();
    handle(SIGUSR1, record, 0, 0);
    mark = sigdefer_mark();
    if (sigsetjmp(env, 1) == 0) {
        SIGDEFER_ENTER();
        SIGDEFER_ENTER();
        send_value(SIGUSR1, 3);
        siglongjmp(env, 1);
    }
    is(sigdefer_depth(), 2, "the jump alone leaves the depth");
    is(seen_count, 0, "and handles nothing");
    sigdefer_restore(mark);
    is(sigdefer_depth(), 0, "the mark brings the depth back");
    is(seen_count, 1, "what waited is handled");
}

/* A jump back to a mark inside a section stays inside that section. */
static void mark_inside(void)
{
    sigdefer_mark_t mark;
    sigjmp_buf env;

    install();
    handle(SIGUSR1, record, 0, 0);
    SIGDEFER_ENTER();
    mark = sigdefer_mark();
    if (sigsetjmp(env, 1) == 0) {
        SIGDEFER_ENTER();
        send_value(SIGUSR1, 3);
        siglongjmp(env, 1);
    }
    sigdefer_restore(mark);
    is(sigdefer_depth(), 1, "depth of the mark");
    is(seen_count, 0, "what waits goes on waiting");
    SIGDEFER_LEAVE();
    is(seen_count, 1, "and is handled when the section is left");
}

/* Apache 1.3's calls are the same sections, and mix with the macros. */
static void ap_calls(void)
{
    install();
    handle(SIGUSR1, record, 0, 0);
    ap_block_alarms();
    is(sigdefer_depth(), 1, "ap_block_alarms() enters");
    SIGDEFER_ENTER();
    ap_block_alarms();
    is(sigdefer_depth(), 3, "and nests with the macros");
    raise(SIGUSR1);
    SIGDEFER_LEAVE();
    ap_unblock_alarms();
    is(seen_count, 0, "deferred");
    ap_unblock_alarms();
    is(sigdefer_depth(), 0, "ap_unblock_alarms() leaves");
    is(seen_count, 1, "and handles");
}

/* The Zend Engine's names are the same sections. */
static void zend_names(void)
{
    install();
    handle(SIGUSR1, record, 0, 0);
    HANDLE_BLOCK_INTERRUPTIONS();
    raise(SIGUSR1);
    is(sigdefer_depth(), 1, "entered");
    is(seen_count, 0, "deferred");
    HANDLE_UNBLOCK_INTERRUPTIONS();
    is(sigdefer_depth(), 0, "left");
    is(seen_count, 1, "handled");
}

/* Sections left open at the end of a request are closed and reported. */
static void close_sections(void)
{
    unsigned unpaired;

    install();
    handle(SIGUSR1, record, 0, 0);
    is(sigdefer_close_sections(&unpaired), 0, "none is open");
    is(unpaired, 0, "none was left without an enter");
    is(stats_now().open_sections, 0, "none is counted");
    SIGDEFER_ENTER();
    SIGDEFER_ENTER();
    raise(SIGUSR1);
    is(sigdefer_close_sections(&unpaired), 2, "two were open");
    is(sigdefer_depth(), 0, "and are closed");
    is(seen_count, 1, "what waited is handled");
    is(stats_now().open_sections, 2, "both are counted");
    SIGDEFER_LEAVE();
    sigdefer_close_sections(&unpaired);
    is(unpaired, 1, "a leave without an enter is told of");
    sigdefer_close_sections(&unpaired);
    is(unpaired, 0, "once");
}

/* The longest deferral is at least as long as a section that a signal sat
 * through.
 */
static void longest(void)
{
    const struct timespec nap = { 0, 30000000 };

    install();
    handle(SIGUSR1, record, 0, 0);
    SIGDEFER_ENTER();
    raise(SIGUSR1);
    nanosleep(&nap, NULL);
    SIGDEFER_LEAVE();
    ok(stats_now().longest_ns >= 30000000, "30 ms or more");
    ok(stats_now().longest_ns < 20000000000, "and no nonsense");
}

/* Installing is refused where it makes no sense, and can be repeated after
 * an uninstall; the state tells.
 */
static void install_states(void)
{
    const sigdefer_set_t set = SIGDEFER_BIT(SIGALRM) | SIGDEFER_BIT(SIGHUP)
                               | SIGDEFER_BIT(SIGINT) | SIGDEFER_BIT(SIGQUIT)
                               | SIGDEFER_BIT(SIGTERM) | SIGDEFER_BIT(SIGUSR1)
                               | SIGDEFER_BIT(SIGUSR2) | SIGDEFER_BIT(SIGPROF);

    ok(sigdefer_default_set() == set, "the default signals are the eight");
    is(sigdefer_state(), SIGDEFER_OFF, "off at first");
    is(sigdefer_install(set | SIGDEFER_BIT(SIGSEGV)), EINVAL, "not SIGSEGV");
    is(sigdefer_install(SIGDEFER_BIT(SIGKILL)), EINVAL, "not SIGKILL");
    is(sigdefer_state(), SIGDEFER_OFF, "still off");
    is(sigdefer_managed(), 0, "nothing is managed");
    install();
    is(sigdefer_state(), SIGDEFER_ON, "on");
    ok(sigdefer_managed() == set, "the default signals are managed");
    is(sigdefer_install(set), EALREADY, "not twice");
    sigdefer_uninstall();
    is(sigdefer_state(), SIGDEFER_OFF, "off again");
    sigdefer_uninstall();
    is(sigdefer_install(SIGDEFER_BIT(SIGRTMAX)), 0, "installed once more");
    ok(sigdefer_managed() & SIGDEFER_BIT(SIGRTMAX), "the last signal, too");
    sigdefer_check(~(sigdefer_set_t)0, NULL);
    handle(SIGRTMAX, record, 0, 0);
    SIGDEFER_ENTER();
    send_value(SIGRTMAX, 9);
    is(seen_count, 0, "which is deferred");
    SIGDEFER_LEAVE();
    is(seen_count, 1, "and handled");
}

/* Without the engine sections count, and signals are the kernel's. */
static void without_engine(void)
{
    is(handle(SIGUSR1, record, 0, 0), 0, "registered before the install");
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 1);
    is(seen_count, 1, "not deferred");
    is(sigdefer_pending(NULL), 0, "nothing waits");
    SIGDEFER_LEAVE();
    is(sigdefer_depth(), 0, "counted all the same");
    is(sigdefer_install(SIGDEFER_BIT(SIGTERM)), 0, "installed for another");
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 2);
    is(seen_count, 1, "what was registered before is deferred now");
    SIGDEFER_LEAVE();
    is(seen_count, 2, "and handled");
}

/* ---- Every instruction -------------------------------------------------- */

/* A process that is traced goes through one section, in which some signals
 * arrive.  It stops itself at two of these places; between them the tracer
 * sends more, before one instruction or system call.
 */
typedef enum {
    OUTSIDE,
    ENTERED,
    ARRIVED,
    LEFT
} place_e;

typedef struct {
    const char *what;
    place_e from;
    place_e to;
    int signo;    /* what arrives in the section */
    int arrivals; /* how many */
    int request;  /* PTRACE_SINGLESTEP or PTRACE_SYSCALL */
    int stride;   /* in steps; for the sake of time, since each process is
                   * stepped from the start */
    int extra;    /* what the tracer sends */
    int burst;    /* how many */
} stretch_t;

/* Shared by tracer and tracee. */
typedef struct {
    int sent; /* by the tracer */
    int inside;
    int runs; /* of the handler */
    int runs_inside;
    int next; /* value of the real-time signal */
    int out_of_order;
    int right; /* the tracee's verdict */
} passage_t;

static passage_t *passage;

static void count_run(int signo)
{
    (void)signo;
    /* one handler may interrupt the other in the middle of an addition */
    __atomic_add_fetch(&passage->runs, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&passage->runs_inside, passage->inside,
                       __ATOMIC_RELAXED);
}

static void count_in_order(int signo, siginfo_t *info, void *context)
{
    (void)context;
    passage->out_of_order += info->si_value.sival_int != passage->next++;
    count_run(signo);
}

static void stop_at(const stretch_t *stretch, place_e place)
{
    if (place == stretch->from || place == stretch->to) {
        raise(SIGSTOP);
    }
}

static void send_own(int signo, int value)
{
    pthread_sigqueue(pthread_self(), signo,
                     (union sigval){ .sival_int = value });
}

static void pass_through(const stretch_t *stretch)
{
    sigdefer_set_t mask;
    int waiting;
    int merged;
    int i;

    stop_at(stretch, OUTSIDE);
    SIGDEFER_ENTER();
    passage->inside = 1;
    stop_at(stretch, ENTERED);
    for (i = 0; i < stretch->arrivals; ++i) {
        send_own(stretch->signo, i);
    }
    stop_at(stretch, ARRIVED);
    passage->inside = 0;
    SIGDEFER_LEAVE();
    stop_at(stretch, LEFT);
    mask = current_mask();
    waiting = sigdefer_pending(NULL);
    /* a standard signal may merge with one of its own that is on its way */
    merged = stretch->extra == SIGUSR2
             && passage->runs == stretch->arrivals + passage->sent - 1;
    passage->right = passage->runs + merged == stretch->arrivals + passage->sent
                     && passage->runs_inside == 0 && passage->out_of_order == 0
                     && waiting == 0 && mask == 0 && sigdefer_depth() == 0;
    if (!passage->right) {
        diag("%d of %d handled, %d inside, %d out of order; %d waiting, mask "
             "%llx, depth %d",
             passage->runs, stretch->arrivals + passage->sent,
             passage->runs_inside, passage->out_of_order, waiting,
             (unsigned long long)mask, sigdefer_depth());
    }
}

/* The signal that stops the tracee, or 0 when it has ended. */
static int stop_of(pid_t pid)
{
    int status;

    return waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)
               ? WSTOPSIG(status)
               : 0;
}

/* Let the tracee go on, with a signal or none, until the next one. */
static int go_on(pid_t pid, int request, int signo)
{
    void *data = (void *)(intptr_t)signo; /* NOLINT(performance-*) */

    return ptrace(request, pid, NULL, data) == 0 ? stop_of(pid) : 0;
}

/* Let the tracee run, with its signals, until it stops itself or ends. */
static void run_to_stop(pid_t pid, int signo)
{
    do {
        signo = go_on(pid, PTRACE_CONT, signo);
    } while (signo && signo != SIGSTOP);
}

/* Let the tracee go some steps, with its signals.
 * Returns what to go on with: a signal that is on its way, or 0; SIGSTOP if
 * the tracee has stopped itself before.
 */
static int step_over(pid_t pid, int request, int steps)
{
    int signo = 0;

    while (steps-- > 0 && signo != SIGSTOP) {
        signo = go_on(pid, request, signo);
        signo = signo == SIGTRAP ? 0 : signo;
    }
    return signo;
}

/* To the thread, as its own signals are sent: so they keep their order, and
 * can meet one that it sends itself.
 */
static void send_extra(pid_t pid, int signo, int value)
{
    siginfo_t info;

    memset(&info, 0, sizeof(info));
    info.si_signo = signo;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = value;
    syscall(SYS_rt_tgsigqueueinfo, pid, pid, signo, &info);
}

/* One passage, with the tracer's signals after so many steps.  Returns
 * whether the stretch has as many.
 */
static int interrupt_after(const stretch_t *stretch, int steps)
{
    int signo;
    pid_t pid;

    memset(passage, 0, sizeof(*passage));
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        pass_through(stretch);
        _exit(0);
    }
    signo = stop_of(pid);
    if (signo != SIGSTOP) {
        run_to_stop(pid, signo);
    }
    signo = step_over(pid, stretch->request, steps);
    if (signo != SIGSTOP) {
        while (passage->sent < stretch->burst) {
            send_extra(pid, stretch->extra, stretch->arrivals + passage->sent);
            ++passage->sent;
        }
        run_to_stop(pid, signo);
    }
    run_to_stop(pid, 0);
    return passage->sent;
}

static void interrupt_everywhere(const stretch_t *stretch)
{
    int steps = 0;
    int wrong = 0;

    while (interrupt_after(stretch, steps) && wrong < 10) {
        if (!passage->right) {
            diag("so before step %d", steps);
            ++wrong;
        }
        steps += stretch->stride;
    }
    /* the last passage has had no extra signal */
    ok(wrong == 0 && passage->right && steps > 5,
       "%s: handled once and outside, before one of %d steps", stretch->what,
       steps);
}

static int may_trace(void)
{
    pid_t pid;
    int status;

#ifdef __SANITIZE_ADDRESS__
    return 0; /* too many instructions to step over */
#endif
    pid = fork();
    if (pid == 0) {
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void interrupt_all(const stretch_t *stretches, size_t count)
{
    size_t i;

    if (!may_trace()) {
        skip("needs ptrace(), and no sanitizer");
        return;
    }
    passage = shared_memory(sizeof(*passage));
    install();
    sigdefer_signal(SIGUSR1, count_run);
    sigdefer_signal(SIGUSR2, count_run);
    handle(SIGRTMIN, count_in_order, 0, 0);
    /* so that nothing has to be linked on the way */
    SIGDEFER_ENTER();
    send_own(SIGUSR2, 0);
    SIGDEFER_LEAVE();
    for (i = 0; i < count; ++i) {
        interrupt_everywhere(&stretches[i]);
    }
}

/* A signal that arrives between two instructions of a section, of another's
 * arrival in it, of its leave and of the replay is handled once, and outside.
 */
static void every_instruction(void)
{
    const int step = PTRACE_SINGLESTEP;
    const stretch_t stretches[] = {
        { "a section", OUTSIDE, LEFT, SIGUSR2, 0, step, 1, SIGUSR1, 1 },
        { "the first arrival", ENTERED, ARRIVED, SIGUSR2, 1, step, 1, SIGUSR1,
          1 },
        { "the replay of one", ARRIVED, LEFT, SIGUSR2, 1, step, 3, SIGUSR1, 1 },
        { "the replay of two", ARRIVED, LEFT, SIGUSR2, 2, step, 7, SIGUSR1, 1 },
    };

    interrupt_all(stretches, sizeof(stretches) / sizeof(*stretches));
}

/* As many signals as fill the queue may arrive at any system call of the
 * leave and the replay, of the number that is just being replayed or of
 * another: when the section has been left, all have been handled, in order,
 * and nothing else has.
 */
static void every_system_call(void)
{
    const int step = PTRACE_SYSCALL;
    const int burst = 300;
    const int rt = SIGRTMIN;
    const stretch_t stretches[] = {
        { "a burst", ARRIVED, LEFT, rt, 1, step, 1, rt, burst },
        { "a burst upon two", ARRIVED, LEFT, rt, 2, step, 1, rt, burst },
        { "a burst upon many", ARRIVED, LEFT, rt, 63, step, 9, rt, burst },
        { "a burst upon a full queue", ARRIVED, LEFT, rt, 200, step, 29, rt,
          burst },
        { "another upon two", ARRIVED, LEFT, rt, 2, step, 1, SIGUSR1, 1 },
        { "the same upon one", ARRIVED, LEFT, SIGUSR2, 1, step, 1, SIGUSR2, 1 },
        { "the same upon two", ARRIVED, LEFT, SIGUSR2, 2, step, 1, SIGUSR2, 1 },
    };

    interrupt_all(stretches, sizeof(stretches) / sizeof(*stretches));
}

static const tap_test_t tests[] = {
    TAP_TEST(depth_counts),      TAP_TEST(direct),
    TAP_TEST(nesting),           TAP_TEST(pending),
    TAP_TEST(unpaired_leave),    TAP_TEST(mark_outside),
    TAP_TEST(mark_inside),       TAP_TEST(ap_calls),
    TAP_TEST(zend_names),        TAP_TEST(close_sections),
    TAP_TEST(longest),           TAP_TEST(install_states),
    TAP_TEST(without_engine),    TAP_TEST(every_instruction),
    TAP_TEST(every_system_call),
};

TAP_MAIN_EXACT(tests)
