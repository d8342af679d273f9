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

/* Counters: a signal's, the host's memory, and what a fork makes of it. */

/* tap.h first, which has locals of that name */
#include "tap.h"

#include "sigdefer/stats.h"

static stats_signal_t *counts_of(int signo)
{
    return &stats->signals[signo - 1];
}

/* What reaches a signal's handlers is counted for that signal alone. */
static void by_signal(void)
{
    install();
    handle(SIGUSR1, record, 0, 0);
    handle(SIGRTMIN, record, 0, 0);
    send_value(SIGUSR1, 1);
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 2);
    send_value(SIGRTMIN, 3);
    is(counts_of(SIGUSR1)->run, 1, "one has run");
    SIGDEFER_LEAVE();
    is(counts_of(SIGUSR1)->received, 2, "two received");
    is(counts_of(SIGUSR1)->deferred, 1, "one deferred");
    is(counts_of(SIGUSR1)->run, 2, "both have run");
    is(counts_of(SIGRTMIN)->received, 1, "the other one received");
    is(counts_of(SIGRTMIN)->deferred, 1, "deferred");
    is(counts_of(SIGRTMIN)->run, 1, "and run");
    is(counts_of(SIGUSR2)->received, 0, "a third one not at all");
    is(stats->queue_highest, 2, "two were queued");
    ok(stats->total_ns > stats->longest_ns,
       "together they waited longer than one of them");
}

static int deal_with_it(int signo)
{
    return signo == SIGTERM;
}

/* What the guard deals with is held, and its action does not run. */
static void held(void)
{
    install();
    handle(SIGTERM, record, 0, 0);
    sigdefer_guard(SIGDEFER_BIT(SIGTERM), deal_with_it, 0);
    send_value(SIGTERM, 1);
    SIGDEFER_ENTER();
    send_value(SIGTERM, 2);
    SIGDEFER_LEAVE();
    is(counts_of(SIGTERM)->received, 2, "two received");
    is(counts_of(SIGTERM)->held, 2, "both held");
    is(counts_of(SIGTERM)->deferred, 0, "none deferred");
    is(counts_of(SIGTERM)->run, 0, "none has run");
}

/* The host's memory is counted on as it is; the child of a fork goes on from
 * there, in memory of its own.
 */
static void places(void)
{
    stats_t *shared = shared_memory(sizeof(*shared));
    uint64_t *found = shared_memory(sizeof(*found));
    pid_t pid;

    shared->direct = 40;
    stats_place(shared);
    install();
    handle(SIGUSR1, record, 0, 0);
    send_value(SIGUSR1, 1);
    is(shared->direct, 41, "counted there");
    pid = fork();
    if (pid == 0) {
        send_value(SIGUSR1, 2);
        *found = stats_now().direct;
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    is(*found, 42, "a forked child goes on from there");
    is(shared->direct, 41, "but not in the parent's memory");
    is(stats_now().direct, 41, "which is what the parent sees");
}

static const tap_test_t tests[] = {
    TAP_TEST(by_signal),
    TAP_TEST(held),
    TAP_TEST(places),
};

TAP_MAIN(tests)
