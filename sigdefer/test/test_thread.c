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

/* Threads: each has its own sections, and no signal depends on a thread that
 * is inside one, or has ended there.
 */

#include <pthread.h>

#include "tap.h"

#define VALUES 1100

/* By value: how often the signal was handled, and by which thread last. */
static int handled[VALUES];
static pid_t handled_by[VALUES];

/* The values, for threads to be given one. */
static int values[VALUES];

static volatile int stage;

static void note(int signo, siginfo_t *info, void *context)
{
    int value = info->si_value.sival_int;

    (void)signo;
    (void)context;
    if (value >= 0 && value < VALUES) {
        __atomic_store_n(&handled_by[value], gettid(), __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&handled[value], 1, __ATOMIC_SEQ_CST);
    }
}

static int times(int value)
{
    return __atomic_load_n(&handled[value], __ATOMIC_SEQ_CST);
}

static pid_t thread_of(int value)
{
    return __atomic_load_n(&handled_by[value], __ATOMIC_SEQ_CST);
}

static void reach(int next)
{
    __atomic_store_n(&stage, next, __ATOMIC_SEQ_CST);
}

static int reached(int which)
{
    return __atomic_load_n(&stage, __ATOMIC_SEQ_CST) >= which;
}

static int send_to(pthread_t thread, int signo, int value)
{
    return pthread_sigqueue(thread, signo,
                            (union sigval){ .sival_int = value });
}

static pthread_t start(void *(*body)(void *), void *data)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, body, data) != 0) {
        ok(0, "thread");
        exit(1);
    }
    return thread;
}

/* Runs a body in a thread, to its end. */
static void run_thread(void *(*body)(void *), void *data)
{
    pthread_join(start(body, data), NULL);
}

static void start_engine(void)
{
    int i;

    for (i = 0; i < VALUES; ++i) {
        values[i] = i;
    }
    install();
    handle(SIGUSR1, note, 0, 0);
    handle(SIGTERM, note, 0, 0);
    handle(SIGRTMIN, note, 0, 0);
}

/* ---- Depth -------------------------------------------------------------- */

static void *sit_inside(void *data)
{
    pid_t *self = data;

    *self = gettid();
    SIGDEFER_ENTER();
    SIGDEFER_ENTER();
    reach(1);
    await(sigdefer_pending(NULL) == 1);
    reach(2);
    await(reached(3));
    SIGDEFER_LEAVE();
    SIGDEFER_LEAVE();
    return NULL;
}

/* A signal waits only for the thread that receives it: one in a section does
 * not delay those of another.
 */
static void depth_is_per_thread(void)
{
    pthread_t thread;
    pid_t inside = 0;

    start_engine();
    thread = start(sit_inside, &inside);
    ok(await(reached(1)), "a thread is inside");
    is(sigdefer_depth(), 0, "this one is not");
    send_to(thread, SIGUSR1, 1);
    ok(await(reached(2)), "a signal waits for it");
    is(sigdefer_pending(NULL), 0, "none waits for this one");
    send_to(pthread_self(), SIGUSR1, 2);
    ok(at_once(times(2) == 1), "another is handled here at once");
    is(thread_of(2), gettid(), "by this thread");
    is(times(1), 0, "the first one still waits");
    reach(3);
    pthread_join(thread, NULL);
    is(times(1), 1, "it is handled when its thread leaves");
    is(thread_of(1), inside, "by that thread");
}

static void *sit_outside(void *data)
{
    *(pid_t *)data = gettid();
    reach(1);
    await(reached(2));
    return NULL;
}

/* A thread that knows nothing of sections gets its signals at once. */
static void stranger(void)
{
    pthread_t thread;
    pid_t self = 0;

    start_engine();
    thread = start(sit_outside, &self);
    ok(await(reached(1)), "a thread runs");
    SIGDEFER_ENTER();
    send_to(thread, SIGUSR1, 1);
    ok(await(times(1) == 1), "its signal is handled");
    is(thread_of(1), self, "by that thread");
    SIGDEFER_LEAVE();
    reach(2);
    pthread_join(thread, NULL);
}

/* A signal for the process that only a plain thread has open reaches its
 * handler there.
 */
static void open_in_one_thread(void)
{
    pthread_t thread;
    pid_t self = 0;

    start_engine();
    thread = start(sit_outside, &self);
    ok(await(reached(1)), "a thread runs");
    change_mask(SIG_BLOCK, SIGTERM);
    send_value(SIGTERM, 1);
    ok(await(times(1) == 1), "the signal is handled");
    is(thread_of(1), self, "by that thread");
    reach(2);
    pthread_join(thread, NULL);
}

/* ---- Many threads ------------------------------------------------------- */

static pthread_barrier_t barrier;

static void *defer_one(void *data)
{
    int value = *(const int *)data;

    SIGDEFER_ENTER();
    send_to(pthread_self(), SIGRTMIN, value);
    at_once(sigdefer_pending(NULL) == 1);
    pthread_barrier_wait(&barrier);
    if (times(value) != 0) {
        ok(0, "thread %d: handled inside", value);
    }
    pthread_barrier_wait(&barrier);
    SIGDEFER_LEAVE();
    if (!await(times(value) == 1) || thread_of(value) != gettid()) {
        ok(0, "thread %d: handled once, there", value);
    }
    return NULL;
}

/* Hundreds of threads may be in sections with signals waiting. */
static void many_at_once(void)
{
    const int threads = emulated() ? 100 : 300;
    pthread_t thread[300];
    int wrong = 0;
    int i;

    start_engine();
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (i = 0; i < threads; ++i) {
        thread[i] = start(defer_one, &values[i]);
    }
    for (i = 0; i < threads; ++i) {
        pthread_join(thread[i], NULL);
        wrong += times(i) != 1;
    }
    is(wrong, 0, "each of %d threads has handled its signal once", threads);
    is(stats_now().lost, 0, "none is lost");
}

/* Threads may come and go, in any number. */
static void many_in_turn(void)
{
    const int threads = 1000;
    int wrong = 0;
    int i;

    start_engine();
    pthread_barrier_init(&barrier, NULL, 1);
    for (i = 0; i < threads; ++i) {
        run_thread(defer_one, &values[i]);
        wrong += times(i) != 1;
    }
    is(wrong, 0, "each of %d threads has handled its signal once", threads);
    is(stats_now().deferred, threads, "all were deferred");
}

/* ---- Threads that end inside -------------------------------------------- */

static void *end_inside(void *data)
{
    int value = *(const int *)data;

    SIGDEFER_ENTER();
    send_to(pthread_self(), SIGUSR1, value);
    send_to(pthread_self(), SIGRTMIN, value + 1);
    if (!at_once(sigdefer_pending(NULL) == 2)) {
        ok(0, "both wait");
    }
    return NULL;
}

static void *check(void *data)
{
    (void)data;
    sigdefer_check(sigdefer_managed(), NULL);
    return NULL;
}

/* The kernel may still know a thread that has just been joined; whoever waits
 * for what it has left checks again.
 */
static int check_here(void)
{
    check(NULL);
    return 1;
}

static int check_elsewhere(void)
{
    run_thread(check, NULL);
    return 1;
}

/* What a thread that ended inside a section has left goes to the process at
 * the next check, whichever thread makes it.
 */
static void handed_on_by_check(void)
{
    start_engine();
    run_thread(end_inside, &values[1]);
    is(times(1) + times(2), 0, "not handled when the thread ends");
    ok(await(check_here() && times(1) == 1 && times(2) == 1),
       "handled after a check");
    run_thread(end_inside, &values[3]);
    ok(await(check_elsewhere() && times(3) == 1 && times(4) == 1),
       "handled after another thread's check");
    is(stats_now().handed_back, 4, "counted");
    is(stats_now().lost, 0, "none is lost");
}

static void *kill_inside(void *data)
{
    (void)data;
    SIGDEFER_ENTER();
    pthread_kill(pthread_self(), SIGUSR1);
    at_once(sigdefer_pending(NULL) == 1);
    return NULL;
}

static void count_plain(int signo)
{
    (void)signo;
    __atomic_add_fetch(&handled[0], 1, __ATOMIC_SEQ_CST);
}

/* So do signals that were sent without a value, by kill(). */
static void plain_handed_on(void)
{
    start_engine();
    sigdefer_signal(SIGUSR1, count_plain);
    run_thread(kill_inside, NULL);
    ok(await(check_here() && times(0) == 1), "handled after a check");
    run_thread(kill_inside, NULL);
    ok(await(check_elsewhere() && times(0) == 2),
       "handled after another thread's check");
}

/* Without a check, the next signal that waits for a section takes along what
 * was left.
 */
static int later_signal(void)
{
    SIGDEFER_ENTER();
    send_to(pthread_self(), SIGUSR1, 3);
    at_once(sigdefer_pending(NULL) == 1);
    SIGDEFER_LEAVE();
    return times(3) > 0;
}

static void handed_on_by_signal(void)
{
    start_engine();
    run_thread(end_inside, &values[1]);
    ok(await(later_signal() && times(1) == 1 && times(2) == 1),
       "a later signal is handled, and those of the dead");
}

/* A thread that takes over the kernel's id or our memory of a dead one begins
 * outside of sections, with nothing waiting.
 */
static void *begin(void *data)
{
    (void)data;
    if (sigdefer_depth() != 0 || sigdefer_pending(NULL) != 0) {
        ok(0, "a new thread begins outside");
    }
    send_to(pthread_self(), SIGUSR1, 3);
    if (!at_once(times(3) == 1)) {
        ok(0, "its signals are handled at once");
    }
    return NULL;
}

static void new_thread_begins_outside(void)
{
    start_engine();
    run_thread(end_inside, &values[1]);
    run_thread(begin, NULL);
    is(times(3), 1, "a new thread begins outside");
}

static const tap_test_t tests[] = {
    TAP_TEST(depth_is_per_thread),
    TAP_TEST(stranger),
    TAP_TEST(open_in_one_thread),
    TAP_TEST(many_at_once),
    TAP_TEST(many_in_turn),
    TAP_TEST(handed_on_by_check),
    TAP_TEST(plain_handed_on),
    TAP_TEST(handed_on_by_signal),
    TAP_TEST(new_thread_begins_outside),
};

TAP_MAIN(tests)
