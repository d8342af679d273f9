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

/* handover [-h HOLD] [-w WORK] KIND BY MECHANISM CONTENDERS COUNT
 *
 * What accept does with a lock: it is held for long, HOLD microseconds, and
 * handed over to one of those that wait for it; who has had it is busy with
 * something else, for WORK microseconds, and comes back.  One line of JSON,
 * when the lock has been handed over COUNT times.
 *
 *   handovers    turns after those of another contender
 *   median_us, p99_us
 *                from before the release until the next one, who waited for it
 *                then, has the lock
 *   waited       how many of these there were
 *   switches     context switches of all contenders, for each handover
 */

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/contest.h"

typedef struct {
    long switches;
    char unused[56];
} contender_t;

/* Guarded by the lock, but for each one's own. */
typedef struct {
    int last; /* who had it */
    int64_t released;
    long handovers;
    long waited;
    int64_t *latencies;
    contender_t *contenders;
} shared_t;

static shared_t *shared;

static long count;
static int64_t hold_ns = 20000;
static int64_t work_ns = 10000;

static void be_busy(int64_t until)
{
    while (contest_now() < until) {
    }
}

static long switches_so_far(void)
{
    struct rusage used;

    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw + used.ru_nivcsw;
}

/* The lock has been acquired, by one who has wanted it since then. */
static void note_turn(int index, int64_t since, int64_t now)
{
    if (shared->released && shared->last != index) {
        shared->handovers++;
        if (since < shared->released) {
            shared->latencies[shared->waited++] = now - shared->released;
        }
    }
    shared->last = index;
}

static void contend(int index)
{
    const long before = switches_so_far();
    int64_t since, now;
    int is_over;

    do {
        since = contest_now();
        contest.lock.acquire(contest.lock.self);
        now = contest_now();
        is_over = shared->handovers >= count;
        if (!is_over) {
            note_turn(index, since, now);
            be_busy(now + hold_ns);
        }
        shared->released = contest_now();
        contest.lock.release(contest.lock.self);
        if (!is_over) {
            be_busy(contest_now() + work_ns);
        }
    } while (!is_over);
    shared->contenders[index].switches = switches_so_far() - before;
}

static int compare(const void *one, const void *other)
{
    const int64_t *a = one, *b = other;

    return (*a > *b) - (*a < *b);
}

static double latency_us(double part)
{
    const long i = (long)((double)(shared->waited - 1) * part);

    return shared->waited ? (double)shared->latencies[i] / 1e3 : 0;
}

static void print_result(void)
{
    long switches = 0;
    int i;

    for (i = 0; i < contest.contenders; i++) {
        switches += shared->contenders[i].switches;
    }
    qsort(shared->latencies, (size_t)shared->waited, sizeof(int64_t), compare);
    printf("{\"handovers\":%ld,\"waited\":%ld,\"median_us\":%.2f,"
           "\"p99_us\":%.2f,\"switches\":%.3f}\n",
           shared->handovers, shared->waited, latency_us(0.5), latency_us(0.99),
           (double)switches / (double)shared->handovers);
}

static int usage(void)
{
    fprintf(stderr, "usage: handover [-h HOLD] [-w WORK] KIND BY MECHANISM"
                    " CONTENDERS COUNT\n");
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    int letter;

    while ((letter = getopt(argc, argv, "h:w:")) != -1) {
        if (letter == 'h') {
            hold_ns = atol(optarg) * 1000;
        }
        else if (letter == 'w') {
            work_ns = atol(optarg) * 1000;
        }
        else {
            return usage();
        }
    }
    argv += optind;
    argc -= optind;
    contest.contenders = argc == 5 ? atoi(argv[3]) : 0;
    count = argc == 5 ? atol(argv[4]) : 0;
    if (contest.contenders < 2 || count < 1
        || !contest_choose(argv[0], argv[1], argv[2])) {
        return usage();
    }
    shared = contest_memory(sizeof(*shared));
    shared->latencies = contest_memory((size_t)count * sizeof(int64_t));
    shared->contenders = contest_memory((size_t)contest.contenders
                                        * sizeof(contender_t));
    contest.has_barrier = 1;
    contest.body = contend;
    contest_run();
    print_result();
    return EXIT_SUCCESS;
}
