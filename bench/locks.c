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

/* locks list
 * locks [-s] [-m MS] KIND BY MECHANISM CONTENDERS OPERATIONS
 *
 * The contenders lock, increment a counter and unlock, until it has reached
 * OPERATIONS, or for MS.  One line of JSON says how long it took, and what each
 * had of it.  With -m they have been at it for MS before: some locks are fast
 * until all have come to wait for them.
 *
 *   operations       how often the counter has been incremented
 *   seconds          from when all contenders have been started, or are warm,
 *                    to the last turn; with -s, from before the first one is
 *                    started until the last one has ended
 *   share_min, _max  turns of a contender, of the mean
 *   longest_wait_ms  the longest that a contender was without a turn
 *
 * Without a turn is: from its last one to the next, others having been in
 * between.  The clock is read at such turns, and at one of CLOCK_TURNS in a
 * row, so a wait can be taken for longer than it was, by the time of that many
 * turns; at each turn the clock would cost as much as the lock.
 */

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "bench/contest.h"

#define CLOCK_TURNS 64
#define TICK_US 10000

/* On a cache line of its own. */
typedef struct {
    long turns;
    int64_t longest;
    char unused[48];
} contender_t;

/* The counter is guarded by the lock that is tried, and by nothing else. */
typedef struct {
    volatile long counter;
    char unused[56];
    volatile long limit;
    volatile int is_warm;
    long first;    /* what the counter was when that was first seen, */
    int64_t began; /* and when that was; 0: not yet */
    int64_t finished;
    contender_t contenders[];
} shared_t;

static shared_t *shared;
static int64_t most_ns; /* 0: no limit */

/* This contender has just seen that they are warm; it has the lock. */
static void forget_warm_up(int64_t now)
{
    if (!shared->began) {
        shared->began = now;
        shared->first = shared->counter;
    }
}

static void contend(int index)
{
    contender_t *self = &shared->contenders[index];
    int64_t last = contest_now();
    int64_t now, longest = 0;
    long turns = 0;
    long mine = -1; /* what the counter was after the last turn */
    long counter;
    int is_warm = 0;

    for (;;) {
        contest.lock.acquire(contest.lock.self);
        counter = shared->counter;
        if (!is_warm && shared->is_warm) {
            is_warm = 1;
            turns = 0;
            longest = 0;
            forget_warm_up(contest_now());
        }
        if (counter >= shared->limit) {
            break;
        }
        shared->counter = counter + 1;
        contest.lock.release(contest.lock.self);
        turns++;
        if (counter != mine || turns % CLOCK_TURNS == 0) {
            now = contest_now();
            if (counter != mine && now - last > longest) {
                longest = now - last;
            }
            last = now;
        }
        mine = counter + 1;
    }
    now = contest_now();
    if (!shared->finished) {
        shared->finished = now;
    }
    contest.lock.release(contest.lock.self);
    self->turns = turns;
    self->longest = now - last > longest ? now - last : longest;
}

/* In the main thread, which only waits for the others.  Many contenders take
 * a while to start, so the clock decides, not the timer.
 */
static void look_at_clock(int number)
{
    const int64_t began = contest_began();
    const int64_t passed = began ? contest_now() - began : 0;

    (void)number;
    if (passed >= 2 * most_ns) {
        shared->limit = 0;
    }
    else if (passed >= most_ns) {
        shared->is_warm = 1;
    }
}

static void stop_in_time(void)
{
    const struct itimerval time = { .it_value = { 0, TICK_US },
                                    .it_interval = { 0, TICK_US } };
    const struct sigaction action = { .sa_handler = look_at_clock };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &time, NULL);
}

static void print_result(double seconds)
{
    const contender_t *each = shared->contenders;
    const long operations = shared->counter - shared->first;
    const double mean = (double)operations / contest.contenders;
    long sum = 0, least = each[0].turns, most = 0;
    int64_t longest = 0;
    int i;

    for (i = 0; i < contest.contenders; i++) {
        sum += each[i].turns;
        least = each[i].turns < least ? each[i].turns : least;
        most = each[i].turns > most ? each[i].turns : most;
        longest = each[i].longest > longest ? each[i].longest : longest;
    }
    if (sum != operations) {
        fprintf(stderr, "%ld turns, but %ld increments: no lock\n", sum,
                operations);
        exit(EXIT_FAILURE);
    }
    printf("{\"operations\":%ld,\"seconds\":%.6f,\"share_min\":%.3f,"
           "\"share_max\":%.3f,\"longest_wait_ms\":%.3f}\n",
           sum, seconds, (double)least / mean, (double)most / mean,
           (double)longest / 1e6);
}

static int usage(void)
{
    fprintf(stderr, "usage: locks list\n"
                    "       locks [-s] [-m MS] KIND BY MECHANISM CONTENDERS"
                    " OPERATIONS\n");
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    int letter, is_whole = 0;
    int64_t began, ended;

    while ((letter = getopt(argc, argv, "sm:")) != -1) {
        if (letter == 's') {
            is_whole = 1;
        }
        else if (letter == 'm') {
            most_ns = atol(optarg) * 1000000;
        }
        else {
            return usage();
        }
    }
    argv += optind;
    argc -= optind;
    if (argc == 1 && strcmp(argv[0], "list") == 0) {
        contest_list();
        return EXIT_SUCCESS;
    }
    contest.contenders = argc == 5 ? atoi(argv[3]) : 0;
    if (contest.contenders < 1 || atol(argv[4]) < 1
        || !contest_choose(argv[0], argv[1], argv[2])) {
        return usage();
    }
    shared = contest_memory(sizeof(*shared)
                            + (size_t)contest.contenders * sizeof(contender_t));
    shared->limit = atol(argv[4]);
    contest.has_barrier = !is_whole;
    contest.body = contend;
    if (most_ns > 0) {
        stop_in_time();
    }
    contest_run();
    ended = is_whole ? contest_now() : shared->finished;
    began = shared->began ? shared->began : contest_began();
    print_result((double)(ended - began) / 1e9);
    return EXIT_SUCCESS;
}
