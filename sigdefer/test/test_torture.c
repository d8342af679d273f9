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

/* Torture: a million signals at threads that enter, nest and leave at random.
 *
 * The main thread has all signals blocked and sends; receivers are threads of
 * their own.  A handler does nothing but book what it sees.
 *
 * SIGDEFER_TEST_SIGNALS: how many signals in all, 20,000 or more; 1,000,000 if
 * not set.
 */

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/time.h>

#include "tap.h"

#define RECEIVERS_MAX 8
#define REALTIME 2 /* real-time signals, each with its own values */
#define STANDARD 3 /* SIGUSR1, SIGTERM, SIGUSR2 */

typedef struct {
    int receivers;
    int percent; /* of all signals */
    int jumps;   /* SIGUSR2's handler leaves by siglongjmp() */
    int forks;
} plan_t;

/* One receiver.  Written by its own thread and its handlers, but for sent;
 * read by the sender.
 */
typedef struct {
    pthread_t thread;
    volatile int inside;      /* a section of the loop, not of a handler */
    volatile int runs_inside; /* handlers that ran there: never */
    volatile int out_of_order;
    volatile int handled;        /* real-time signals */
    volatile int next[REALTIME]; /* value expected */
    volatile int sent[STANDARD]; /* by the sender, before it sends */
    volatile int seen[STANDARD]; /* sent, as the last handler found it */
    volatile int may_jump;       /* env is set */
    volatile int jumped;
    volatile int forked;
    volatile int wrong_child;
    int turns;
    unsigned random;
    sigjmp_buf env;
} receiver_t;

static const int standard_signals[STANDARD] = { SIGUSR1, SIGTERM, SIGUSR2 };

static plan_t plan;
static receiver_t receivers[RECEIVERS_MAX];
static __thread receiver_t *self;
static volatile int done;
static volatile int ticks;
static int values[RECEIVERS_MAX][REALTIME]; /* sent */

#define load(word) __atomic_load_n(&(word), __ATOMIC_SEQ_CST)
#define store(word, value) __atomic_store_n(&(word), (value), __ATOMIC_SEQ_CST)
#define add(word, n) __atomic_add_fetch(&(word), (n), __ATOMIC_SEQ_CST)

static long signals_in_all(void)
{
    const char *wanted = getenv("SIGDEFER_TEST_SIGNALS");
    long count = wanted ? strtol(wanted, NULL, 10) : 1000000;

    return count > 20000 ? count : 20000;
}

static unsigned next_random(receiver_t *receiver)
{
    unsigned x = receiver->random;

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return receiver->random = x;
}

/* ---- Handlers ----------------------------------------------------------- */

static void on_realtime(int signo, siginfo_t *info, void *context)
{
    int which = signo - SIGRTMIN;
    int value = info->si_value.sival_int;

    (void)context;
    add(self->runs_inside, self->inside);
    if (value % 16 == 0) {
        SIGDEFER_ENTER(); /* a handler may have sections, too */
    }
    if (value != self->next[which]) {
        add(self->out_of_order, 1);
    }
    self->next[which] = value + 1;
    if (value % 16 == 0) {
        SIGDEFER_LEAVE();
    }
    add(self->handled, 1);
}

static int index_of(int signo)
{
    return signo == SIGUSR1 ? 0 : signo == SIGTERM ? 1 : 2;
}

static void on_standard(int signo)
{
    int which = index_of(signo);

    add(self->runs_inside, self->inside);
    store(self->seen[which], load(self->sent[which]));
}

static void on_jump(int signo)
{
    on_standard(signo);
    if (self->may_jump) {
        add(self->jumped, 1);
        siglongjmp(self->env, 1);
    }
}

static void on_tick(int signo)
{
    (void)signo;
    add(self->runs_inside, self->inside);
    add(ticks, 1);
}

/* Nobody jumps out of another handler, as nobody may in any program: its
 * signal is blocked in theirs.
 */
static void register_handlers(void)
{
    struct sigaction action;
    int i;

    memset(&action, 0, sizeof(action));
    action.sa_flags = SA_RESTART;
    if (plan.jumps) {
        sigaddset(&action.sa_mask, SIGUSR2);
    }
    action.sa_handler = on_tick;
    sigdefer_sigaction(SIGALRM, &action, NULL);
    for (i = 0; i < STANDARD; ++i) {
        action.sa_handler = plan.jumps && standard_signals[i] == SIGUSR2
                                ? on_jump
                                : on_standard;
        sigdefer_sigaction(standard_signals[i], &action, NULL);
    }
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = on_realtime;
    for (i = 0; i < REALTIME; ++i) {
        sigdefer_sigaction(SIGRTMIN + i, &action, NULL);
    }
}

/* ---- Receivers ---------------------------------------------------------- */

static void work(unsigned amount)
{
    while (amount-- > 0) {
        SIGDEFER_BARRIER();
    }
}

/* There may be fewer processors than threads.  ThreadSanitizer lets signals in
 * where it sees a call that waits.
 */
static void let_others_run(void)
{
    if (emulated()) {
        usleep(1);
    }
    else {
        sched_yield();
    }
}

/* In a section: the child must be in it, with nothing to handle. */
static void fork_and_check(int depth)
{
    int before = self->handled;
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        int right = sigdefer_depth() == depth && sigdefer_pending(NULL) == 0;

        self->inside = 0;
        while (depth-- > 0) {
            SIGDEFER_LEAVE();
        }
        _exit(right && self->handled == before ? 0 : 1);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    self->forked += pid > 0;
    self->wrong_child += status != 0;
}

static void one_turn(void)
{
    int depth = 1 + (int)(next_random(self) % 4);
    int i;

    for (i = 0; i < depth; ++i) {
        SIGDEFER_ENTER();
    }
    self->inside = 1;
    work(next_random(self) % 200);
    if (next_random(self) % 64 == 0) {
        let_others_run();
    }
    if (plan.forks && self->turns % 16 == 0) {
        fork_and_check(depth);
    }
    /* up and down within the outermost */
    while (i > 1 && next_random(self) % 2) {
        SIGDEFER_LEAVE();
        --i;
    }
    work(next_random(self) % 50);
    self->inside = 0;
    while (i-- > 0) {
        SIGDEFER_LEAVE();
    }
    work(next_random(self) % 100);
    if (++self->turns % 512 == 0) {
        let_others_run();
    }
}

static void *receive(void *data)
{
    sigdefer_mark_t mark;
    sigset_t open;

    self = data;
    sigemptyset(&open);
    pthread_sigmask(SIG_SETMASK, &open, NULL);
    mark = sigdefer_mark();
    if (sigsetjmp(self->env, 1) != 0) {
        sigdefer_restore(mark);
    }
    self->may_jump = plan.jumps;
    while (!load(done)) {
        one_turn();
    }
    return NULL;
}

/* ---- The sender --------------------------------------------------------- */

static int handled_by_all(void)
{
    int sum = 0;
    int i;

    for (i = 0; i < plan.receivers; ++i) {
        sum += load(receivers[i].handled);
    }
    return sum;
}

static int sent_to_all(void)
{
    int sum = 0;
    int i;

    for (i = 0; i < plan.receivers; ++i) {
        sum += values[i][0] + values[i][1];
    }
    return sum;
}

/* To the process where there is one receiver only, else to the thread. */
static int send_realtime(receiver_t *receiver, int signo, int value)
{
    const union sigval data = { .sival_int = value };

    if (plan.receivers == 1) {
        return sigqueue(getpid(), signo, data) == 0 ? 0 : errno;
    }
    return pthread_sigqueue(receiver->thread, signo, data);
}

static void send_standard(receiver_t *receiver, int which)
{
    add(receiver->sent[which], 1);
    if (plan.receivers == 1) {
        kill(getpid(), standard_signals[which]);
    }
    else {
        pthread_kill(receiver->thread, standard_signals[which]);
    }
}

/* Nothing is given up: the receivers have to come along.  Returns 0 if they
 * do not.
 */
static int wait_for_progress(void)
{
    int before = handled_by_all();
    int i;

    for (i = 0; i < 1000; ++i) {
        if (handled_by_all() != before || before == sent_to_all()) {
            return 1;
        }
        sched_yield();
    }
    return await(handled_by_all() != before);
}

static int all_seen(const receiver_t *receiver)
{
    int i;

    for (i = 0; i < STANDARD; ++i) {
        if (load(receiver->seen[i]) != load(receiver->sent[i])) {
            return 0;
        }
    }
    return 1;
}

static int settled(void)
{
    int i;

    for (i = 0; i < plan.receivers; ++i) {
        if (!all_seen(&receivers[i])) {
            return 0;
        }
    }
    return handled_by_all() == sent_to_all();
}

static int wait_until_settled(void)
{
    int i;

    for (i = 0; i < 1000 && !settled(); ++i) {
        sched_yield();
    }
    return await(settled());
}

/* How many real-time signals are sent before everything has to be handled:
 * few, so that receivers get on with their turns, or as many as the kernel
 * takes, in stretches.  While there are any, the kernel puts the frames of
 * their handlers on top of those of standard signals, which do not get to run.
 */
static int window(long i)
{
    static const int windows[] = { 16, 64, 1000000, 256 };

    return windows[i / 5000 % 4] * plan.receivers;
}

/* Three real-time signals, then a standard one, for each receiver in turn.
 * Returns how many were sent: all, if the receivers live.
 */
static long send_signals(long count)
{
    long i = 0;

    while (i < count) {
        int number = (int)(i % plan.receivers);
        int round = (int)(i / plan.receivers);
        int which = round % REALTIME;
        receiver_t *receiver = &receivers[number];
        int rv;

        if (round % 4 == 3) {
            send_standard(receiver, round / 4 % STANDARD);
            ++i;
            continue;
        }
        if (sent_to_all() - handled_by_all() >= window(i)
            && !wait_until_settled()) {
            return i;
        }
        rv = send_realtime(receiver, SIGRTMIN + which, values[number][which]);
        if (rv == 0) {
            ++values[number][which];
            ++i;
        }
        else if (rv != EAGAIN || !wait_for_progress()) {
            diag("sending: %s", strerror(rv));
            return i;
        }
    }
    return i;
}

/* ---- The tests ---------------------------------------------------------- */

static void start_receivers(void)
{
    /* the sender meets the limit, and leaves others of this user some room */
    const struct rlimit pending = { 3000, 3000 };
    sigset_t all;
    int i;

    setrlimit(RLIMIT_SIGPENDING, &pending);
    install();
    register_handlers();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    for (i = 0; i < plan.receivers; ++i) {
        receivers[i].random = 2463534242u + (unsigned)i;
        if (pthread_create(&receivers[i].thread, NULL, receive, &receivers[i])
            != 0) {
            ok(0, "thread");
            exit(1);
        }
    }
}

/* With the timer disarmed and all handled, one tick more is handled once. */
static void expect_last_tick(void)
{
    const struct itimerval once = { { 0, 0 }, { 0, 1000 } };
    const struct itimerval none = { { 0, 0 }, { 0, 0 } };
    int before = 0;

    setitimer(ITIMER_REAL, &none, NULL);
    do {
        before = load(ticks);
        nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    } while (load(ticks) != before);
    setitimer(ITIMER_REAL, &once, NULL);
    ok(await(load(ticks) != before), "the last tick is handled");
    is(load(ticks), before + 1, "once");
}

static void expect_receiver(int number)
{
    const receiver_t *receiver = &receivers[number];
    int i;

    for (i = 0; i < REALTIME; ++i) {
        is(receiver->next[i], values[number][i],
           "receiver %d: all values of real-time signal %d", number, i);
    }
    is(receiver->out_of_order, 0, "receiver %d: once each, in order", number);
    is(receiver->runs_inside, 0, "receiver %d: none inside", number);
    is(receiver->wrong_child, 0, "receiver %d: children as they should be",
       number);
    ok(!plan.jumps || receiver->jumped > 0, "receiver %d: %d jumps", number,
       receiver->jumped);
    ok(!plan.forks || receiver->forked > 0, "receiver %d: %d forks", number,
       receiver->forked);
}

/* Wait for what is on its way, end the receivers, and look at their books. */
static void end_receivers(void)
{
    int i;

    ok(await(settled()), "each standard signal handled after its last sending");
    store(done, 1);
    for (i = 0; i < plan.receivers; ++i) {
        pthread_join(receivers[i].thread, NULL);
        expect_receiver(i);
    }
    is(stats_now().lost, 0, "none is lost");
}

static void torture(plan_t how)
{
    const struct itimerval every_ms = { { 0, 1000 }, { 0, 1000 } };
    long count = signals_in_all() * how.percent / 100;
    unsigned long few = (unsigned long)count / 100;
    sigdefer_stats_t stats;

    plan = how;
    start_receivers();
    setitimer(ITIMER_REAL, &every_ms, NULL);
    is(send_signals(count) >= count, 1, "%ld signals sent", count);
    await(handled_by_all() >= sent_to_all());
    is(handled_by_all(), sent_to_all(), "all real-time signals handled");
    expect_last_tick();
    end_receivers();
    stats = stats_now();
    /* of some thousand, all may come in one turn of the receiver */
    ok(count < 10000 || (stats.deferred > few && stats.direct > few),
       "%llu deferred, %llu direct", (unsigned long long)stats.deferred,
       (unsigned long long)stats.direct);
    diag("%d ticks, %llu merged, %llu overflows, %llu handed back", ticks,
         (unsigned long long)stats.merged, (unsigned long long)stats.overflows,
         (unsigned long long)stats.handed_back);
}

/* Signals for a process with one receiver. */
static void one_receiver(void)
{
    torture((plan_t){ .receivers = 1, .percent = 40 });
}

/* Signals for each of eight threads. */
static void eight_receivers(void)
{
    torture((plan_t){ .receivers = 8, .percent = 30 });
}

/* A handler that leaves by siglongjmp() loses no signal but its own frame. */
static void jumping(void)
{
    torture((plan_t){ .receivers = 1, .percent = 15, .jumps = 1 });
}

static void eight_jumping(void)
{
    torture((plan_t){ .receivers = 8, .percent = 5, .jumps = 1 });
}

/* Forks inside of sections, with signals waiting. */
static void forking(void)
{
    torture((plan_t){ .receivers = 1, .percent = 10, .forks = 1 });
}

static volatile int may_leave;
static volatile int is_inside;

static void *sit_inside(void *data)
{
    sigset_t open;

    self = data;
    sigemptyset(&open);
    pthread_sigmask(SIG_SETMASK, &open, NULL);
    while (!load(done)) {
        SIGDEFER_ENTER();
        self->inside = 1;
        store(is_inside, 1);
        while (!load(may_leave)) {
            SIGDEFER_BARRIER();
        }
        self->inside = 0;
        store(is_inside, 0);
        SIGDEFER_LEAVE();
        while (load(may_leave) && !load(done)) {
            SIGDEFER_BARRIER();
        }
    }
    return NULL;
}

/* One section that 10,000 real-time signals come to; where the kernel takes
 * no more of them, its end is brought about by that.
 */
static int overflow(int round)
{
    receiver_t *receiver = &receivers[0];
    int last = (round + 1) * 10000;

    store(may_leave, 0);
    if (!await(load(is_inside))) {
        return 0;
    }
    while (values[0][0] < last) {
        int rv = send_realtime(receiver, SIGRTMIN, values[0][0]);

        if (rv == 0) {
            ++values[0][0];
            if (values[0][0] % 1000 == 0) {
                send_standard(receiver, values[0][0] / 1000 % STANDARD);
            }
            continue;
        }
        store(may_leave, 1);
        if (rv != EAGAIN || !wait_for_progress()) {
            return 0;
        }
    }
    store(may_leave, 1);
    return await(load(receiver->handled) == last);
}

/* Sections to which more signals come than any queue holds. */
static void overflowing(void)
{
    sigset_t all;
    int round;

    plan = (plan_t){ .receivers = 1 };
    install();
    register_handlers();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_create(&receivers[0].thread, NULL, sit_inside, &receivers[0]);
    for (round = 0; round < 5; ++round) {
        ok(overflow(round), "10,000 signals sent and handled");
    }
    end_receivers();
    ok(stats_now().overflows >= 5, "the queue was full");
}

/* ---- Handlers and the allocator ----------------------------------------- */

static void count_one(int signo)
{
    (void)signo;
    add(ticks, 1);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void send_each_ms(pid_t pid)
{
    const struct timespec ms = { 0, 1000000 };

    while (kill(pid, SIGUSR2) == 0) {
        nanosleep(&ms, NULL);
    }
    _exit(0);
}

/* Three seconds of malloc() and free(), in sections and out of them, while
 * signals come each millisecond.
 */
static void allocating(void)
{
    const struct itimerval two_ms = { { 0, 2000 }, { 0, 2000 } };
    const pid_t parent = getpid();
    double end = seconds() + 3;
    unsigned turns = 0;
    pid_t pid;

    install();
    sigdefer_signal(SIGUSR2, count_one);
    sigdefer_signal(SIGALRM, count_one);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        send_each_ms(parent);
    }
    setitimer(ITIMER_REAL, &two_ms, NULL);
    while (seconds() < end) {
        void *volatile memory;

        if (turns % 2) {
            SIGDEFER_ENTER();
        }
        memory = malloc(16 + turns * 37 % 4000);
        free(memory);
        memory = malloc(200000);
        free(memory);
        if (turns % 2) {
            SIGDEFER_LEAVE();
        }
        ++turns;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
    kill(pid, SIGKILL);
    ok(seconds() < end + 2, "ended in time");
    ok(ticks > 300, "%d signals handled in %u turns", ticks, turns);
    ok(stats_now().deferred > 0 && stats_now().direct > 0,
       "some deferred, some not");
}

static const tap_test_t tests[] = {
    TAP_TEST(one_receiver),  TAP_TEST(eight_receivers), TAP_TEST(jumping),
    TAP_TEST(eight_jumping), TAP_TEST(forking),         TAP_TEST(overflowing),
    TAP_TEST(allocating),
};

TAP_MAIN_EXACT(tests)
