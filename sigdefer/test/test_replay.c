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

/* The replay: order, siginfo, what arrives meanwhile, and ways out of it. */

#include <setjmp.h>

#include "tap.h"

/* The first handlers that were run, and with which value, are as expected. */
static void expect_first(const char *what, int count, const int *signals,
                         const int *values)
{
    int i;

    for (i = 0; i < count; ++i) {
        is(seen[i].signo, signals[i], "%s: signal %d", what, i + 1);
        is(seen[i].value, values[i], "%s: value %d", what, i + 1);
    }
}

/* So are all, and there are no others. */
static void expect_seen(const char *what, int count, const int *signals,
                        const int *values)
{
    is(seen_count, count, "%s: %d handled", what, count);
    expect_first(what, count, signals, values);
}

static void handle_all(void)
{
    const int signals[] = { SIGALRM,      SIGHUP,      SIGINT,  SIGQUIT,
                            SIGTERM,      SIGUSR1,     SIGUSR2, SIGPROF,
                            SIGRTMIN + 1, SIGRTMIN + 2 };
    size_t i;

    install();
    for (i = 0; i < sizeof(signals) / sizeof(*signals); ++i) {
        handle(signals[i], record, 0, 0);
    }
}

/* Signals are handled in the order in which they arrived, whatever their
 * numbers, each with a copy of the siginfo that it came with.
 */
static void order_of_arrival(void)
{
    const int signals[] = { SIGUSR2, SIGTERM,      SIGRTMIN + 1, SIGUSR1,
                            SIGUSR2, SIGRTMIN + 2, SIGHUP,       SIGRTMIN + 1 };
    const int values[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    int i;

    handle_all();
    SIGDEFER_ENTER();
    for (i = 0; i < 8; ++i) {
        send_value(signals[i], values[i]);
    }
    is(seen_count, 0, "none inside");
    SIGDEFER_LEAVE();
    expect_seen("order", 8, signals, values);
    for (i = 0; i < 8; ++i) {
        is(seen[i].pid, getpid(), "sender %d", i + 1);
        is(seen[i].code, SI_QUEUE, "code %d", i + 1);
        is(seen[i].depth, 0, "depth %d", i + 1);
    }
    is(current_mask(), 0, "no signal is blocked afterwards");
}

/* Send a signal from a child; returns the child's id. */
static pid_t send_from_child(int signo, int value)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid == 0) {
        sigqueue(parent, signo, (union sigval){ .sival_int = value });
        _exit(0);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        continue;
    }
    return pid;
}

/* The siginfo names the process that sent the signal. */
static void other_sender(void)
{
    pid_t first;
    pid_t second;

    handle_all();
    SIGDEFER_ENTER();
    first = send_from_child(SIGUSR2, 8);
    second = send_from_child(SIGUSR1, 9);
    SIGDEFER_LEAVE();
    expect_seen("by a child", 2, (int[]){ SIGUSR2, SIGUSR1 }, (int[]){ 8, 9 });
    is(seen[0].pid, first, "sender of the first");
    is(seen[1].pid, second, "sender of the second");
}

static void record_and_send(int signo, siginfo_t *info, void *context)
{
    record(signo, info, context);
    if (seen_count == 1) {
        send_value(SIGUSR2, 99);
        send_value(SIGUSR1, 100);
    }
}

/* What arrives during the replay comes after what was queued before it. */
static void arrival_during_replay(void)
{
    handle_all();
    handle(SIGUSR1, record_and_send, 0, 0);
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 1);
    send_value(SIGTERM, 2);
    send_value(SIGHUP, 3);
    SIGDEFER_LEAVE();
    is(seen_count, 5, "five handled");
    expect_first("queued", 3, (int[]){ SIGUSR1, SIGTERM, SIGHUP },
                 (int[]){ 1, 2, 3 });
    is(seen[3].value + seen[4].value, 199, "the arrivals last");
}

#define MANY 20000

static char *lowest;
static char *highest;

static void note_stack(void)
{
    char *here = __builtin_frame_address(0);

    lowest = !lowest || here < lowest ? here : lowest;
    highest = here > highest ? here : highest;
}

static void raise_again(int signo)
{
    ++seen_count;
    note_stack();
    if (seen_count < MANY) {
        raise(signo);
    }
}

static void raise_again_in_section(int signo)
{
    ++seen_count;
    note_stack();
    SIGDEFER_ENTER();
    if (seen_count < MANY) {
        raise(signo);
    }
    SIGDEFER_LEAVE();
}

static void raise_many(void (*handler)(int))
{
    const struct sigaction action = { .sa_handler = handler };

    install();
    sigdefer_sigaction(SIGUSR2, &action, NULL);
    SIGDEFER_ENTER();
    raise(SIGUSR2);
    SIGDEFER_LEAVE();
    is(seen_count, MANY, "%d calls", MANY);
    if (!ok(highest - lowest <= 4096, "within 4 KiB of stack")) {
        diag("%ld bytes", (long)(highest - lowest));
    }
}

/* A handler that raises its own signal again and again is called in a loop:
 * the stack does not grow.
 */
static void delivery_is_a_loop(void)
{
    raise_many(raise_again);
}

/* A section of the handler's own does not begin a second loop. */
static void loop_with_section(void)
{
    raise_many(raise_again_in_section);
}

static volatile sig_atomic_t seen_within;

static void section_within(int signo, siginfo_t *info, void *context)
{
    sig_atomic_t before;

    record(signo, info, context);
    SIGDEFER_ENTER();
    before = seen_count;
    send_value(SIGUSR2, 50);
    seen_within = seen_count - before;
    is(sigdefer_depth(), 1, "one section within the handler");
    SIGDEFER_LEAVE();
    is(sigdefer_depth(), 0, "none after it");
}

/* A section within a handler defers as any other, during the replay and
 * outside of it.
 */
static void section_in_handler(void)
{
    handle_all();
    handle(SIGUSR1, section_within, 0, 0);
    send_value(SIGUSR1, 1);
    is(seen_within, 0, "deferred within the direct handler");
    expect_seen("direct", 2, (int[]){ SIGUSR1, SIGUSR2 }, (int[]){ 1, 50 });
    seen_count = 0;
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 2);
    send_value(SIGTERM, 3);
    SIGDEFER_LEAVE();
    is(seen_within, 0, "deferred within the replayed handler");
    expect_seen("replayed", 3, (int[]){ SIGUSR1, SIGTERM, SIGUSR2 },
                (int[]){ 2, 3, 50 });
    is(sigdefer_pending(NULL), 0, "nothing is left");
}

/* While more is queued, handlers run with all managed signals blocked; the
 * last one with its true mask.
 */
static void masks_of_replay(void)
{
    const sigdefer_set_t last = SIGDEFER_BIT(SIGUSR2) | SIGDEFER_BIT(SIGTERM);

    handle_all();
    handle(SIGUSR2, record, 0, SIGDEFER_BIT(SIGTERM));
    SIGDEFER_ENTER();
    raise(SIGUSR1);
    raise(SIGHUP);
    raise(SIGUSR2);
    SIGDEFER_LEAVE();
    is(seen_count, 3, "three handled");
    ok(seen[0].mask == sigdefer_managed(), "mask of the first");
    ok(seen[1].mask == sigdefer_managed(), "mask of the second");
    ok(seen[2].mask == last, "mask of the last");
    is(current_mask(), 0, "mask afterwards");
}

static sigjmp_buf env;

static void record_and_jump(int signo, siginfo_t *info, void *context)
{
    record(signo, info, context);
    siglongjmp(env, 1);
}

/* A handler that jumps out of the replay leaves the rest queued; the mark, or
 * the next leave, or the next signal, sees to it.
 */
static void jump_out_of_replay(void)
{
    const int signals[] = { SIGUSR1, SIGUSR2, SIGTERM, SIGHUP };
    const int values[] = { 1, 2, 3, 4 };
    const char *const ways[] = { "mark", "leave", "signal", "close" };
    const int count[] = { 3, 3, 4, 3 };
    sigdefer_mark_t mark;
    unsigned unpaired;
    volatile int way;

    handle_all();
    handle(SIGUSR1, record_and_jump, 0, 0);
    mark = sigdefer_mark();
    for (way = 0; way < 4; ++way) {
        seen_count = 0;
        if (sigsetjmp(env, 1) == 0) {
            SIGDEFER_ENTER();
            send_value(SIGUSR1, 1);
            send_value(SIGUSR2, 2);
            send_value(SIGTERM, 3);
            SIGDEFER_LEAVE();
            ok(0, "the handler has jumped");
        }
        is(current_mask(), 0, "the jump has brought the mask back");
        is(sigdefer_depth(), 0, "no section is open");
        switch (way) {
        case 0:
            sigdefer_restore(mark);
            break;
        case 1:
            SIGDEFER_ENTER();
            SIGDEFER_LEAVE();
            break;
        case 2:
            send_value(SIGHUP, 4);
            break;
        default:
            sigdefer_close_sections(&unpaired);
            break;
        }
        expect_seen(ways[way], count[way], signals, values);
        is(sigdefer_pending(NULL), 0, "%s: nothing is left", ways[way]);
        is(current_mask(), 0, "%s: no signal is blocked", ways[way]);
    }
}

/* The last of the queue may jump, too, and jumps may come one after the
 * other.
 */
static void every_handler_jumps(void)
{
    sigdefer_mark_t mark;
    volatile int jumps = 0;

    handle_all();
    handle(SIGUSR1, record_and_jump, 0, 0);
    handle(SIGUSR2, record_and_jump, 0, 0);
    mark = sigdefer_mark();
    if (sigsetjmp(env, 1) == 0) {
        SIGDEFER_ENTER();
        send_value(SIGUSR1, 1);
        send_value(SIGUSR2, 2);
        send_value(SIGUSR1, 3);
        send_value(SIGTERM, 4);
        send_value(SIGUSR2, 5);
        SIGDEFER_LEAVE();
    }
    else {
        ++jumps;
    }
    sigdefer_restore(mark);
    is(jumps, 4, "four jumps");
    expect_seen("jumps", 5,
                (int[]){ SIGUSR1, SIGUSR2, SIGUSR1, SIGTERM, SIGUSR2 },
                (int[]){ 1, 2, 3, 4, 5 });
    send_value(SIGTERM, 6);
    is(seen_count, 6, "signals are handled at once afterwards");
    SIGDEFER_ENTER();
    send_value(SIGTERM, 7);
    is(seen_count, 6, "and deferred in a section");
    SIGDEFER_LEAVE();
    is(seen_count, 7, "and handled after it");
    is(current_mask(), 0, "no signal is blocked");
}

/* A signal that arrives outside while others wait, and starts their replay,
 * is not lost when one of theirs jumps.
 */
static void jump_over_arrival(void)
{
    sigdefer_mark_t mark;
    volatile int jumps = 0;

    handle_all();
    handle(SIGUSR1, record_and_jump, 0, 0);
    mark = sigdefer_mark();
    if (sigsetjmp(env, 1) == 0) {
        SIGDEFER_ENTER();
        send_value(SIGUSR1, 1);
        send_value(SIGUSR1, 2);
        send_value(SIGTERM, 3);
        SIGDEFER_LEAVE();
    }
    else if (++jumps == 1) {
        send_value(SIGHUP, 4);
    }
    sigdefer_restore(mark);
    is(jumps, 2, "two jumps");
    expect_seen("arrival", 4, (int[]){ SIGUSR1, SIGUSR1, SIGTERM, SIGHUP },
                (int[]){ 1, 2, 3, 4 });
}

/* A handler that jumps out into a section leaves the rest to that section. */
static void jump_into_section(void)
{
    sigdefer_mark_t mark;

    handle_all();
    handle(SIGUSR1, record_and_jump, 0, 0);
    SIGDEFER_ENTER();
    mark = sigdefer_mark();
    if (sigsetjmp(env, 1) == 0) {
        send_value(SIGUSR1, 1);
        send_value(SIGTERM, 2);
        SIGDEFER_LEAVE();
    }
    sigdefer_restore(mark);
    is(sigdefer_depth(), 1, "back inside");
    is(seen_count, 1, "the rest waits");
    send_value(SIGHUP, 3);
    is(seen_count, 1, "a new signal waits, too");
    SIGDEFER_LEAVE();
    expect_seen("section", 3, (int[]){ SIGUSR1, SIGTERM, SIGHUP },
                (int[]){ 1, 2, 3 });
}

/* A section in which two signals arrive, one of which is then blocked. */
static void block_in_section(void)
{
    handle_all();
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 1);
    send_value(SIGUSR2, 2);
    change_mask(SIG_BLOCK, SIGUSR1);
    SIGDEFER_LEAVE();
    expect_seen("open", 1, (int[]){ SIGUSR2 }, (int[]){ 2 });
    ok(current_mask() == SIGDEFER_BIT(SIGUSR1), "the other is still blocked");
    SIGDEFER_ENTER();
    SIGDEFER_LEAVE();
    is(seen_count, 1, "and not run by another section");
}

/* The blocked one has been run as well by now, once, with its siginfo. */
static void expect_unblocked(void)
{
    expect_seen("unblocked", 2, (int[]){ SIGUSR2, SIGUSR1 }, (int[]){ 2, 1 });
    is(seen[1].pid, getpid(), "its sender");
    is(sigdefer_pending(NULL), 0, "nothing waits");
}

/* A signal that the program blocks after its arrival is not run before it is
 * unblocked; then the next section runs it.
 */
static void blocked_until_section(void)
{
    block_in_section();
    change_mask(SIG_UNBLOCK, SIGUSR1);
    SIGDEFER_ENTER();
    SIGDEFER_LEAVE();
    expect_unblocked();
}

/* If it is blocked when the request ends, the kernel gets it back. */
static void blocked_at_close(void)
{
    unsigned unpaired;

    block_in_section();
    sigdefer_close_sections(&unpaired);
    is(seen_count, 1, "not run at the end of the request");
    is(stats_now().handed_back, 1, "but handed back");
    change_mask(SIG_UNBLOCK, SIGUSR1);
    expect_unblocked();
}

/* It needs neither: it comes when it is unblocked, as from the kernel. */
static void blocked_until_unblocked(void)
{
    block_in_section();
    change_mask(SIG_UNBLOCK, SIGUSR1);
    expect_unblocked();
}

/* Where the kernel has no room for the signal that starts the replay, what is
 * queued is handled all the same, once.
 */
static void no_room_in_kernel(void)
{
    const struct rlimit none = { 0, 0 };

    handle_all();
    SIGDEFER_ENTER();
    send_value(SIGRTMIN + 1, 5);
    send_value(SIGRTMIN + 1, 6);
    send_value(SIGUSR1, 7);
    is(setrlimit(RLIMIT_SIGPENDING, &none), 0, "RLIMIT_SIGPENDING is 0");
    SIGDEFER_LEAVE();
    expect_seen("before", 3, (int[]){ SIGRTMIN + 1, SIGRTMIN + 1, SIGUSR1 },
                (int[]){ 5, 6, 7 });
    SIGDEFER_ENTER();
    raise(SIGUSR2);
    kill(getpid(), SIGRTMIN + 2);
    SIGDEFER_LEAVE();
    is(seen_count, 5, "signals sent under the limit, too");
    is(seen[3].signo, SIGUSR2, "the first of them");
    is(seen[4].signo, SIGRTMIN + 2, "the second of them");
    SIGDEFER_ENTER();
    raise(SIGUSR1);
    change_mask(SIG_BLOCK, SIGUSR1);
    SIGDEFER_LEAVE();
    is(seen_count, 5, "one that was blocked since is not handled");
    change_mask(SIG_UNBLOCK, SIGUSR1);
    SIGDEFER_ENTER();
    SIGDEFER_LEAVE();
    is(seen_count, 6, "before it is unblocked");
    is(stats_now().lost, 0, "nothing is lost");
    is(sigdefer_pending(NULL), 0, "nothing is left");
}

/* The replay also takes place where the leave is in a handler of a signal
 * that is not managed, and where a managed signal is blocked at the time.
 */
static void enter_unmanaged(int signo)
{
    (void)signo;
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 1);
    SIGDEFER_LEAVE();
}

static void leave_in_other_handler(void)
{
    handle_all();
    signal(SIGWINCH, enter_unmanaged);
    change_mask(SIG_BLOCK, SIGUSR2);
    raise(SIGWINCH);
    expect_seen("unmanaged", 1, (int[]){ SIGUSR1 }, (int[]){ 1 });
    ok(current_mask() == SIGDEFER_BIT(SIGUSR2), "mask afterwards");
}

static const tap_test_t tests[] = {
    TAP_TEST(order_of_arrival),      TAP_TEST(other_sender),
    TAP_TEST(arrival_during_replay), TAP_TEST(delivery_is_a_loop),
    TAP_TEST(loop_with_section),     TAP_TEST(section_in_handler),
    TAP_TEST(masks_of_replay),       TAP_TEST(jump_out_of_replay),
    TAP_TEST(every_handler_jumps),   TAP_TEST(jump_over_arrival),
    TAP_TEST(jump_into_section),     TAP_TEST(blocked_until_section),
    TAP_TEST(blocked_at_close),      TAP_TEST(blocked_until_unblocked),
    TAP_TEST(no_room_in_kernel),     TAP_TEST(leave_in_other_handler),
};

TAP_MAIN_EXACT(tests)
