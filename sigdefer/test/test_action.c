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

/* Registered actions: who they are, and that each is run as the kernel would
 * run it, at once and out of the queue.
 */

#include <sys/time.h>
#include <ucontext.h>

#include "tap.h"

static volatile sig_atomic_t calls;
static volatile sig_atomic_t nested;
static volatile sig_atomic_t deepest;

static void count_call(int signo)
{
    (void)signo;
    ++calls;
}

static void other_handler(int signo)
{
    (void)signo;
    calls += 100;
}

/* Send a signal outside of sections, or inside of one that is then left. */
static void send_through(int signo, int value, int in_section)
{
    if (in_section) {
        SIGDEFER_ENTER();
    }
    send_value(signo, value);
    if (in_section) {
        SIGDEFER_LEAVE();
    }
}

/* ---- Registering -------------------------------------------------------- */

/* What the owner of a signal reads back is what its owner registered. */
static void old_action(void)
{
    const int flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_NODEFER;
    struct sigaction old;

    signal(SIGHUP, other_handler);
    install();
    is(sigdefer_sigaction(SIGUSR1, NULL, &old), 0, "asked for SIGUSR1");
    ok(old.sa_handler == SIG_DFL, "the default at first");
    is(sigdefer_sigaction(SIGHUP, NULL, &old), 0, "asked for SIGHUP");
    ok(old.sa_handler == other_handler, "what was there before the install");
    is(sigdefer_sigaction(SIGRTMIN + 3, NULL, &old), 0,
       "asked for one that is not managed");
    ok(old.sa_handler == SIG_DFL, "the default as well");
    is(handle(SIGUSR1, record, SA_RESTART | SA_ONSTACK | SA_NODEFER,
              SIGDEFER_BIT(SIGHUP) | SIGDEFER_BIT(SIGALRM)),
       0, "registered");
    is(sigdefer_sigaction(SIGUSR1, NULL, &old), 0, "asked again");
    ok(old.sa_sigaction == record, "the handler");
    is(old.sa_flags & (flags | SA_RESETHAND), flags, "its flags");
    ok(set_of(&old.sa_mask) == (SIGDEFER_BIT(SIGHUP) | SIGDEFER_BIT(SIGALRM)),
       "its mask");
    ok(sigdefer_signal(SIGUSR1, count_call)
           == (void (*)(int))(void (*)(void))record,
       "told when it is replaced");
    ok(sigdefer_signal(SIGUSR1, SIG_IGN) == count_call, "and once more");
    ok(sigdefer_signal(SIGUSR1, SIG_DFL) == SIG_IGN, "after ignoring");
}

/* What cannot be deferred is refused, by either call. */
static void refused(void)
{
    const int bad[] = { 0,       -1,     -65,          SIGRTMAX + 1, 65,
                        66,      1000,   SIGRTMIN - 1, SIGKILL,      SIGSTOP,
                        SIGSEGV, SIGBUS, SIGFPE,       SIGILL,       SIGTRAP,
                        SIGSYS,  SIGABRT };
    const struct sigaction action = { .sa_handler = count_call };
    struct sigaction old;
    size_t i;

    install();
    for (i = 0; i < sizeof(bad) / sizeof(*bad); ++i) {
        is(sigdefer_sigaction(bad[i], &action, &old), EINVAL,
           "signal %d refused", bad[i]);
        is(sigdefer_sigaction(bad[i], NULL, NULL), EINVAL,
           "signal %d refused without an action", bad[i]);
        errno = 0;
        ok(sigdefer_signal(bad[i], count_call) == SIG_ERR && errno == EINVAL,
           "signal %d refused by sigdefer_signal()", bad[i]);
        ok(!sigdefer_can_defer(bad[i]), "signal %d cannot be deferred", bad[i]);
    }
    ok(sigdefer_signal(SIGUSR1, SIG_ERR) == SIG_ERR, "SIG_ERR is no handler");
    ok(sigdefer_can_defer(SIGRTMAX) && sigdefer_can_defer(SIGCHLD),
       "others can");
}

/* An ignored signal stays ignored in the kernel, until it gets a handler. */
static void ignored(void)
{
    const sigdefer_set_t bit = SIGDEFER_BIT(SIGUSR2);

    signal(SIGUSR2, SIG_IGN);
    install();
    ok(proc_set("SigIgn") & bit, "ignored after the install");
    ok(!(proc_set("SigCgt") & bit), "not caught");
    raise(SIGUSR2);
    sigdefer_signal(SIGUSR2, count_call);
    ok(!(proc_set("SigIgn") & bit), "not ignored with a handler");
    ok(proc_set("SigCgt") & bit, "but caught");
    raise(SIGUSR2);
    is(calls, 1, "and handled");
    sigdefer_signal(SIGUSR2, SIG_IGN);
    ok(proc_set("SigIgn") & bit, "ignored again");
    send_through(SIGUSR2, 0, 1);
    is(calls, 1, "and not handled");
    sigdefer_uninstall();
    ok(proc_set("SigIgn") & bit, "ignored after the uninstall");
}

/* ---- Running ------------------------------------------------------------ */

/* Plain and siginfo handlers get what the kernel would give them. */
static void kinds_of_handlers(void)
{
    int in_section;

    install();
    for (in_section = 0; in_section <= 1; ++in_section) {
        seen_count = 0;
        calls = 0;
        handle(SIGUSR1, record, 0, 0);
        sigdefer_signal(SIGUSR2, count_call);
        send_through(SIGUSR1, 42, in_section);
        is(seen_count, 1, "siginfo handler called, section %d", in_section);
        is(seen[0].signo, SIGUSR1, "with the signal");
        is(seen[0].code, SI_QUEUE, "with its code");
        is(seen[0].value, 42, "with its value");
        is(seen[0].pid, getpid(), "with its sender");
        send_through(SIGUSR2, 0, in_section);
        is(calls, 1, "plain handler called");
    }
}

/* A handler runs with its own signal, its sa_mask and the context's mask
 * blocked, and nothing else; afterwards the mask is what it was.
 */
static void mask(void)
{
    const sigdefer_set_t expected = SIGDEFER_BIT(SIGUSR1)
                                    | SIGDEFER_BIT(SIGUSR2)
                                    | SIGDEFER_BIT(SIGHUP);
    int in_section;

    install();
    handle(SIGUSR1, record, 0, SIGDEFER_BIT(SIGUSR2));
    change_mask(SIG_BLOCK, SIGHUP);
    for (in_section = 0; in_section <= 1; ++in_section) {
        seen_count = 0;
        send_through(SIGUSR1, 0, in_section);
        ok(seen[0].mask == expected, "mask of the handler, section %d",
           in_section);
        ok(current_mask() == SIGDEFER_BIT(SIGHUP), "mask afterwards");
    }
}

static void raise_usr2(int signo)
{
    (void)signo;
    raise(SIGUSR2);
    nested = calls;
}

/* A signal of the handler's sa_mask waits until the handler has returned. */
static void mask_holds(void)
{
    struct sigaction action = { .sa_handler = raise_usr2 };
    int in_section;

    install();
    sigaddset(&action.sa_mask, SIGUSR2);
    sigdefer_sigaction(SIGUSR1, &action, NULL);
    sigdefer_signal(SIGUSR2, count_call);
    for (in_section = 0; in_section <= 1; ++in_section) {
        calls = 0;
        send_through(SIGUSR1, 0, in_section);
        is(nested, 0, "not run within the handler, section %d", in_section);
        is(calls, 1, "but after it");
    }
}

static void raise_self(int signo)
{
    ++calls;
    ++nested;
    deepest = nested > deepest ? nested : deepest;
    if (calls < 3) {
        raise(signo);
    }
    --nested;
}

/* With SA_NODEFER a handler can be interrupted by its own signal, without it
 * cannot.
 */
static void nodefer(void)
{
    struct sigaction action = { .sa_handler = raise_self };
    int in_section;
    int i;

    install();
    for (i = 0; i <= 1; ++i) {
        action.sa_flags = i ? SA_NODEFER : 0;
        sigdefer_sigaction(SIGUSR1, &action, NULL);
        for (in_section = 0; in_section <= 1; ++in_section) {
            calls = deepest = 0;
            send_through(SIGUSR1, 0, in_section);
            is(calls, 3, "called three times, section %d", in_section);
            is(deepest, i ? 3 : 1,
               i ? "within each other" : "one after the other");
        }
    }
}

static struct sigaction found_inside;

static void look_inside(int signo)
{
    ++calls;
    sigdefer_sigaction(signo, NULL, &found_inside);
}

/* SA_RESETHAND: the default is registered again when the handler starts. */
static void resethand(void)
{
    const struct sigaction action = { .sa_handler = look_inside,
                                      .sa_flags = (int)SA_RESETHAND };
    struct sigaction old;
    int in_section;

    install();
    for (in_section = 0; in_section <= 1; ++in_section) {
        calls = 0;
        sigdefer_sigaction(SIGUSR1, &action, NULL);
        send_through(SIGUSR1, 0, in_section);
        is(calls, 1, "called, section %d", in_section);
        ok(found_inside.sa_handler == SIG_DFL, "the default within");
        sigdefer_sigaction(SIGUSR1, NULL, &old);
        ok(old.sa_handler == SIG_DFL, "and afterwards");
    }
}

static void resethand_twice(void)
{
    const struct sigaction action = { .sa_handler = count_call,
                                      .sa_flags = (int)SA_RESETHAND };

    sigdefer_sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    raise(SIGUSR1);
}

/* SA_RESETHAND: the second signal ends the process. */
static void resethand_ends(void)
{
    int status;

    install();
    status = status_of(resethand_twice);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1,
       "ended by the second SIGUSR1");
}

static int pipe_ends[2];

static void write_third(int signo)
{
    (void)signo;
    if (++calls == 3 && write(pipe_ends[1], "x", 1) != 1) {
        abort();
    }
}

/* A read() is restarted with SA_RESTART only. */
static void restart(void)
{
    const struct itimerval ticks = { { 0, 5000 }, { 0, 5000 } };
    const struct itimerval none = { { 0, 0 }, { 0, 0 } };
    struct sigaction action = { .sa_handler = write_third };
    char byte = 0;
    ssize_t got;

    install();
    if (!ok(pipe(pipe_ends) == 0, "pipe")) {
        return;
    }
    action.sa_flags = SA_RESTART;
    sigdefer_sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &ticks, NULL);
    got = read(pipe_ends[0], &byte, 1);
    setitimer(ITIMER_REAL, &none, NULL);
    ok(got == 1 && byte == 'x', "read() went on over the ticks");
    action.sa_flags = 0;
    calls = 10;
    sigdefer_sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &ticks, NULL);
    got = read(pipe_ends[0], &byte, 1);
    is(errno, EINTR, "errno is EINTR");
    setitimer(ITIMER_REAL, &none, NULL);
    is(got, -1, "read() was interrupted");
}

/* SA_ONSTACK, and only SA_ONSTACK, brings the alternate stack; the kernel's
 * copy of the action keeps both flags.
 */
static void onstack(void)
{
    const size_t size = 65536;
    struct sigaction in_kernel;
    stack_t stack;
    int in_section;

    install();
    memset(&stack, 0, sizeof(stack));
    stack.ss_size = size;
    stack.ss_sp = malloc(size);
    is(sigaltstack(&stack, NULL), 0, "alternate stack");
    for (in_section = 0; in_section <= 1; ++in_section) {
        seen_count = 0;
        handle(SIGUSR1, record, SA_ONSTACK | SA_RESTART, 0);
        handle(SIGUSR2, record, 0, 0);
        send_through(SIGUSR1, 0, in_section);
        send_through(SIGUSR2, 0, in_section);
        ok(seen[0].stack > (char *)stack.ss_sp
               && seen[0].stack < (char *)stack.ss_sp + size,
           "on the alternate stack, section %d", in_section);
        ok(seen[1].stack < (char *)stack.ss_sp
               || seen[1].stack > (char *)stack.ss_sp + size,
           "on the ordinary stack");
    }
    sigaction(SIGUSR1, NULL, &in_kernel);
    is(in_kernel.sa_flags & (SA_ONSTACK | SA_RESTART), SA_ONSTACK | SA_RESTART,
       "the kernel has both flags");
    sigaction(SIGUSR2, NULL, &in_kernel);
    is(in_kernel.sa_flags & (SA_ONSTACK | SA_RESTART), 0,
       "and where neither was asked for, none");
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    free(stack.ss_sp);
}

static void block_hup_outside(int signo, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;

    (void)signo;
    (void)info;
    sigaddset(&interrupted->uc_sigmask, SIGHUP);
}

/* A handler is given the context that it has interrupted, not a copy. */
static void true_context(void)
{
    int in_section;

    install();
    handle(SIGUSR1, block_hup_outside, 0, 0);
    for (in_section = 0; in_section <= 1; ++in_section) {
        change_mask(SIG_UNBLOCK, SIGHUP);
        send_through(SIGUSR1, 0, in_section);
        ok(current_mask() == SIGDEFER_BIT(SIGHUP),
           "a change of its mask lasts, section %d", in_section);
    }
}

/* ---- The default action ------------------------------------------------- */

static int default_signo;
static int default_in_section;

static void meet_default(void)
{
    send_through(default_signo, 0, default_in_section);
}

/* The parent sees the end by the very signal, whether it came inside a
 * section or outside, registered as the default or left at it.
 */
static void default_ends(void)
{
    const int signals[] = { SIGALRM, SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                            SIGUSR1, SIGUSR2, SIGPROF, SIGRTMIN };
    size_t i;

    install();
    sigdefer_signal(SIGUSR1, count_call);
    sigdefer_signal(SIGUSR1, SIG_DFL);
    sigdefer_signal(SIGRTMIN, SIG_DFL);
    for (default_in_section = 0; default_in_section <= 1;
         ++default_in_section) {
        for (i = 0; i < sizeof(signals) / sizeof(*signals); ++i) {
            int status;

            default_signo = signals[i];
            status = status_of(meet_default);
            ok(WIFSIGNALED(status) && WTERMSIG(status) == signals[i],
               "ended by signal %d, section %d", signals[i],
               default_in_section);
        }
    }
}

static void die_in_section(void)
{
    SIGDEFER_ENTER();
    raise(SIGTERM);
    _exit(sigdefer_pending(NULL) == 1 ? 7 : 8);
}

/* Inside of a section the default waits, too. */
static void default_waits(void)
{
    int status;

    install();
    status = status_of(die_in_section);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 7,
       "alive in the section, with the signal waiting");
}

/* Signals whose default is to do nothing do nothing. */
static void default_is_nothing(void)
{
    const int signals[] = { SIGCHLD, SIGWINCH, SIGURG, SIGCONT };
    size_t i;
    int in_section;

    install();
    for (i = 0; i < sizeof(signals) / sizeof(*signals); ++i) {
        is(sigdefer_signal(signals[i], SIG_DFL) == SIG_ERR, 0, "managed");
        for (in_section = 0; in_section <= 1; ++in_section) {
            send_through(signals[i], 0, in_section);
            is(sigdefer_depth(), 0, "signal %d passed by, section %d",
               signals[i], in_section);
        }
    }
}

/* A signal whose default is to stop stops, and is still managed when the
 * process goes on.
 */
static void default_stops(void)
{
    int in_section;
    int status;
    pid_t pid;

    install();
    sigdefer_signal(SIGTSTP, SIG_DFL);
    for (in_section = 0; in_section <= 1; ++in_section) {
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
            send_through(SIGTSTP, 0, in_section);
            handle(SIGTSTP, record, 0, 0);
            SIGDEFER_ENTER();
            raise(SIGTSTP);
            _exit(seen_count == 0 && sigdefer_pending(NULL) == 1 ? 7 : 8);
        }
        waitpid(pid, &status, WUNTRACED);
        ok(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTSTP,
           "stopped by SIGTSTP, section %d", in_section);
        kill(pid, SIGCONT);
        waitpid(pid, &status, 0);
        ok(WIFEXITED(status) && WEXITSTATUS(status) == 7, "and went on");
    }
}

/* ---- Read at delivery --------------------------------------------------- */

/* A signal whose handler is taken away while it waits is dropped; one whose
 * handler is replaced goes to the new one, with the siginfo it came with.
 */
static void read_at_delivery(void)
{
    install();
    sigdefer_signal(SIGUSR2, count_call);
    SIGDEFER_ENTER();
    send_value(SIGUSR2, 7);
    sigdefer_signal(SIGUSR2, SIG_IGN);
    SIGDEFER_LEAVE();
    is(calls, 0, "not handled once ignored");
    is(stats_now().ignored, 1, "but counted");
    sigdefer_signal(SIGUSR2, count_call);
    SIGDEFER_ENTER();
    send_value(SIGUSR2, 7);
    handle(SIGUSR2, record, 0, 0);
    SIGDEFER_LEAVE();
    is(calls, 0, "the old handler is not called");
    is(seen_count, 1, "the new one is, once");
    is(seen[0].value, 7, "with the value");
    is(seen[0].pid, getpid(), "and the sender");
}

static void become_default(void)
{
    sigdefer_signal(SIGUSR2, count_call);
    SIGDEFER_ENTER();
    raise(SIGUSR2);
    sigdefer_signal(SIGUSR2, SIG_DFL);
    SIGDEFER_LEAVE();
}

/* A signal that is at its default when it is due ends the process. */
static void default_at_delivery(void)
{
    int status;

    install();
    status = status_of(become_default);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2, "ended by SIGUSR2");
}

static void time_limited(void)
{
    const struct itimerval once = { { 0, 0 }, { 0, 2000 } };
    struct sigaction inner = { .sa_handler = other_handler };
    struct sigaction outer;

    sigdefer_sigaction(SIGALRM, &inner, &outer);
    setitimer(ITIMER_REAL, &once, NULL);
    ok(await(sigdefer_pending(NULL) == 1), "the timer has gone off");
    sigdefer_sigaction(SIGALRM, &outer, NULL);
}

/* A timer's signal never reaches a handler whose code has put the old one
 * back.
 */
static void handler_gone(void)
{
    install();
    sigdefer_signal(SIGALRM, count_call);
    SIGDEFER_ENTER();
    time_limited();
    SIGDEFER_LEAVE();
    is(calls, 1, "the outer handler was called, the inner one was not");
}

/* The ticks of a timer that find one waiting merge with it, as they would in
 * the kernel.
 */
static void ticks_merge(void)
{
    const struct itimerval ticks = { { 0, 2000 }, { 0, 2000 } };
    const struct itimerval none = { { 0, 0 }, { 0, 0 } };

    install();
    sigdefer_signal(SIGALRM, count_call);
    SIGDEFER_ENTER();
    setitimer(ITIMER_REAL, &ticks, NULL);
    ok(await(stats_now().merged >= 5), "ticks merge");
    is(sigdefer_pending(NULL), 1, "one waits");
    setitimer(ITIMER_REAL, &none, NULL);
    SIGDEFER_LEAVE();
    is(calls, 1, "and is handled once");
    is(stats_now().deferred, 1, "one was deferred");
    ok(stats_now().longest_ns >= 9000000, "for as long as they came");
}

/* ---- Guards ------------------------------------------------------------- */

static volatile sig_atomic_t guarded;
static int guard_verdict;

static int guard(int signo)
{
    guarded += signo == SIGTERM ? 1 : 100;
    return guard_verdict;
}

/* A guard sees its signals at once, everywhere, and decides whether they go
 * any further; system calls are restarted for them if it says so.
 */
static void guard_first(void)
{
    struct sigaction in_kernel;

    install();
    handle(SIGTERM, record, 0, 0);
    handle(SIGUSR1, record, 0, 0);
    sigdefer_guard(SIGDEFER_BIT(SIGTERM), guard, SA_RESTART);
    sigaction(SIGTERM, NULL, &in_kernel);
    ok(in_kernel.sa_flags & SA_RESTART, "calls are restarted");
    sigdefer_guard(SIGDEFER_BIT(SIGTERM), guard, 0);
    sigaction(SIGTERM, NULL, &in_kernel);
    ok(!(in_kernel.sa_flags & SA_RESTART), "or not");
    guard_verdict = 1;
    SIGDEFER_ENTER();
    raise(SIGTERM);
    is(guarded, 1, "seen inside the section");
    is(sigdefer_pending(NULL), 0, "dealt with, not queued");
    SIGDEFER_LEAVE();
    raise(SIGTERM);
    raise(SIGUSR1);
    is(guarded, 2, "seen outside; others are not");
    is(seen_count, 1, "not handled, others are");
    guard_verdict = 0;
    SIGDEFER_ENTER();
    raise(SIGTERM);
    is(sigdefer_pending(NULL), 1, "not dealt with, queued");
    SIGDEFER_LEAVE();
    is(seen_count, 2, "and handled");
    is(guarded, 3, "the guard has seen it once");
    sigdefer_guard(0, NULL, SA_RESTART);
    raise(SIGTERM);
    is(guarded, 3, "taken away");
    is(seen_count, 3, "the handler is not");
}

static const tap_test_t tests[] = {
    TAP_TEST(old_action),
    TAP_TEST(refused),
    TAP_TEST(ignored),
    TAP_TEST(kinds_of_handlers),
    TAP_TEST(mask),
    TAP_TEST(mask_holds),
    TAP_TEST(nodefer),
    TAP_TEST(resethand),
    TAP_TEST(resethand_ends),
    TAP_TEST(restart),
    TAP_TEST(onstack),
    TAP_TEST(true_context),
    TAP_TEST(default_ends),
    TAP_TEST(default_waits),
    TAP_TEST(default_is_nothing),
    TAP_TEST(default_stops),
    TAP_TEST(read_at_delivery),
    TAP_TEST(default_at_delivery),
    TAP_TEST(handler_gone),
    TAP_TEST(ticks_merge),
    TAP_TEST(guard_first),
};

TAP_MAIN_EXACT(tests)
