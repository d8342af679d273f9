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

/* A full queue loses nothing, and errno is nobody's but the program's. */

#include <sched.h>

#include "tap.h"

#define MANY 10000

static volatile int next_value[2];
static volatile int handled;
static volatile int out_of_order;
static unsigned char times[2][MANY];

static void in_order(int signo, siginfo_t *info, void *context)
{
    int which = signo - SIGRTMIN;
    int value = info->si_value.sival_int;

    (void)context;
    out_of_order += value != next_value[which];
    next_value[which] = value + 1;
    if (value >= 0 && value < MANY) {
        ++times[which][value];
    }
    ++handled;
}

static int values_not_once(int which)
{
    int wrong = 0;
    int i;

    for (i = 0; i < MANY; ++i) {
        wrong += times[which][i] != 1;
    }
    return wrong;
}

/* All that was sent, of the first real-time signal or of both, has been
 * handled once and in order.
 */
static void expect_in_order(int signals)
{
    int which;

    is(handled, signals * MANY, "all handled");
    is(out_of_order, 0, "in order");
    for (which = 0; which < signals; ++which) {
        is(values_not_once(which), 0, "signal %d: each value once", which + 1);
    }
}

/* Whether the tests of a full queue make sense here. */
static int can_overflow(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_SIGPENDING, &limit);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < 2 * MANY + 1000) {
        skip("RLIMIT_SIGPENDING is too small");
        return 0;
    }
    return 1;
}

/* Send real-time signals, each with the next value; how many were refused. */
static int send_many(void)
{
    int refused = 0;
    int i;

    for (i = 0; i < MANY; ++i) {
        refused += send_value(SIGRTMIN, i) != 0;
    }
    return refused;
}

/* 10,000 real-time signals in one section are handled once each, in order,
 * and standard ones that come to the full queue are not lost.
 */
static void every_value_in_order(void)
{
    const sigdefer_set_t own = SIGDEFER_BIT(SIGHUP);

    if (!can_overflow()) {
        return;
    }
    install();
    handle(SIGRTMIN, in_order, 0, 0);
    handle(SIGTERM, record, 0, 0);
    handle(SIGUSR1, record, 0, 0);
    change_mask(SIG_BLOCK, SIGHUP);
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 1);
    is(send_many(), 0, "all sent");
    send_value(SIGTERM, 2);
    is(handled + seen_count, 0, "none handled inside");
    ok(sigdefer_pending(NULL) > 0, "some are queued");
    ok(current_mask() & SIGDEFER_BIT(SIGTERM), "the kernel keeps the rest");
    SIGDEFER_LEAVE();
    expect_in_order(1);
    is(seen_count, 2, "the standard ones, too");
    ok(current_mask() == own, "the mask is as it was before the section");
    is(stats_now().overflows, 1, "one overflow");
    is(stats_now().lost, 0, "nothing lost");
    is(sigdefer_pending(NULL), 0, "nothing left");
}

/* Where two real-time signals come in turn, the values of each stay in order:
 * when the section is left, both wait in the kernel behind what is queued.
 */
static void two_in_order(void)
{
    int refused = 0;
    int i;

    if (!can_overflow()) {
        return;
    }
    install();
    handle(SIGRTMIN, in_order, 0, 0);
    handle(SIGRTMIN + 1, in_order, 0, 0);
    SIGDEFER_ENTER();
    for (i = 0; i < MANY; ++i) {
        refused += send_value(SIGRTMIN, i) != 0;
        refused += send_value(SIGRTMIN + 1, i) != 0;
    }
    is(refused, 0, "all sent");
    SIGDEFER_LEAVE();
    expect_in_order(2);
}

/* It works again and again, nested, and signals are direct in between. */
static void again(void)
{
    int round;

    if (!can_overflow()) {
        return;
    }
    install();
    handle(SIGRTMIN, in_order, 0, 0);
    for (round = 0; round < 5; ++round) {
        handled = next_value[0] = out_of_order = 0;
        memset(times, 0, sizeof(times));
        SIGDEFER_ENTER();
        SIGDEFER_ENTER();
        is(send_many(), 0, "all sent, round %d", round);
        SIGDEFER_LEAVE();
        is(handled, 0, "none handled at depth 1");
        SIGDEFER_LEAVE();
        expect_in_order(1);
        is(current_mask(), 0, "none blocked");
        send_value(SIGRTMIN, MANY);
        is(handled, MANY + 1, "the next one at once");
    }
}

/* A program that opens its mask in the middle of it has the order of arrival
 * disturbed, but each signal is still handled once.
 */
static void mask_opened(void)
{
    sigset_t none;

    if (!can_overflow()) {
        return;
    }
    install();
    handle(SIGRTMIN, in_order, 0, 0);
    SIGDEFER_ENTER();
    is(send_many(), 0, "all sent");
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    is(handled, 0, "none handled inside");
    SIGDEFER_LEAVE();
    ok(await(handled == MANY), "all handled");
    is(values_not_once(0), 0, "each value once");
    is(stats_now().lost, 0, "nothing lost");
    is(current_mask(), 0, "none blocked");
}

/* The child of a fork in a full section gets the mask of its program back. */
static void fork_when_full(void)
{
    int status;
    pid_t pid;

    if (!can_overflow()) {
        return;
    }
    install();
    handle(SIGRTMIN, in_order, 0, 0);
    SIGDEFER_ENTER();
    is(send_many(), 0, "all sent");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        SIGDEFER_LEAVE();
        _exit(handled == 0 && current_mask() == 0 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    is(status, 0, "the child has handled and blocked none");
    SIGDEFER_LEAVE();
    /* in the parent, all */
    expect_in_order(1);
}

/* ---- errno -------------------------------------------------------------- */

static void spoil_errno(int signo)
{
    (void)signo;
    ++handled;
    errno = EIO;
}

/* Send a signal again and again, until the flag is set. */
static void pester(pid_t pid, int signo, const volatile int *stop)
{
    while (!*stop && kill(pid, signo) == 0) {
        continue;
    }
    _exit(0);
}

static int pestered_enough(void)
{
    return handled >= 500 && stats_now().reaped >= 10;
}

/* 20,000 times errno stays 71 while signals come without a pause, children
 * end and are reaped, and the handler spoils it.
 */
static void errno_is_kept(void)
{
    volatile int *stop = shared_memory(sizeof(*stop));
    const pid_t self = getpid();
    int different = 0;
    int turn;
    int i;

    install();
    sigdefer_signal(SIGUSR2, spoil_errno);
    is(sigdefer_reap_on_signal(), 0, "reaping");
    fflush(stdout);
    if (fork() == 0) {
        pester(self, SIGUSR2, stop);
    }
    for (turn = 0; turn < 20000 || (!pestered_enough() && turn < 10000000);
         ++turn) {
        if (turn % 20 == 0) {
            sched_yield(); /* both may share one processor */
        }
        if (turn < 20000 && turn % 1000 == 0 && fork() == 0) {
            _exit(0);
        }
        errno = 71;
        for (i = 0; i < 10; ++i) {
            SIGDEFER_ENTER();
            SIGDEFER_BARRIER();
            SIGDEFER_LEAVE();
        }
        different += errno != 71;
    }
    *stop = 1;
    is(different, 0, "errno was 71 each time");
    ok(turn >= 20000 && pestered_enough(), "of %d; %d signals, %d reaped", turn,
       handled, (int)stats_now().reaped);
}

/* A reaper that finds no child does not show in errno: a wait that SIGCHLD
 * cuts short says EINTR.
 */
static void errno_of_wait(void)
{
    const struct timespec long_time = { 20, 0 };
    volatile int *stop = shared_memory(sizeof(*stop));
    const pid_t self = getpid();
    int rv;

    install();
    is(sigdefer_reap_on_signal(), 0, "reaping");
    fflush(stdout);
    /* a grandchild: this process has no child to find */
    if (fork() == 0) {
        if (fork() == 0) {
            pester(self, SIGCHLD, stop);
        }
        _exit(0);
    }
    ok(await(stats_now().reaped == 1), "the child has been reaped");
    errno = 0;
    rv = nanosleep(&long_time, NULL);
    is(errno, EINTR, "EINTR, not ECHILD");
    is(rv, -1, "from a sleep that was cut short");
    *stop = 1;
}

static const tap_test_t tests[] = {
    TAP_TEST(every_value_in_order),
    TAP_TEST(two_in_order),
    TAP_TEST(again),
    TAP_TEST(mask_opened),
    TAP_TEST(fork_when_full),
    TAP_TEST(errno_is_kept),
    TAP_TEST(errno_of_wait),
};

TAP_MAIN_EXACT(tests)
