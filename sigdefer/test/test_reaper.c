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

/* Reaping: all that have ended, nobody's status unasked, errno kept. */

#include "tap.h"

#define CHILDREN 20

/* Start children that end at once. */
static void start_children(pid_t *pids)
{
    int i;

    fflush(stdout);
    for (i = 0; i < CHILDREN; ++i) {
        pids[i] = fork();
        if (pids[i] == 0) {
            _exit(i);
        }
    }
}

/* Whether a child has ended and nobody has taken its status. */
static int is_zombie(pid_t pid)
{
    siginfo_t info = { .si_pid = 0 };

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0
           && info.si_pid == pid;
}

static int zombies(const pid_t *pids)
{
    int count = 0;
    int i;

    for (i = 0; i < CHILDREN; ++i) {
        count += is_zombie(pids[i]);
    }
    return count;
}

/* Called for, the reaper takes all children that have ended and no others,
 * and keeps errno.
 */
static void when_called(void)
{
    pid_t pids[CHILDREN];
    pid_t living;
    int ends[2];

    install();
    errno = 71;
    is(sigdefer_reap(), 0, "nobody to reap");
    is(errno, 71, "errno is kept");
    if (!ok(pipe(ends) == 0, "pipe")) {
        return;
    }
    living = fork();
    if (living == 0) {
        char byte;

        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    start_children(pids);
    ok(await(zombies(pids) == CHILDREN), "%d children end", CHILDREN);
    errno = 71;
    is(sigdefer_reap(), CHILDREN, "all are reaped");
    is(errno, 71, "errno is kept");
    is(zombies(pids), 0, "none is left");
    is(stats_now().reaped, CHILDREN, "counted");
    is(kill(living, 0), 0, "the living one is not");
    close(ends[1]);
    ok(await(is_zombie(living)), "until it ends");
    is(sigdefer_reap(), 1, "then it is");
}

/* Without the reaper each status is left to who waits for it. */
static void off(void)
{
    int status = 0;
    pid_t pid;

    install();
    pid = fork();
    if (pid == 0) {
        _exit(42);
    }
    ok(await(is_zombie(pid)), "a child ends");
    SIGDEFER_ENTER();
    raise(SIGCHLD);
    SIGDEFER_LEAVE();
    is(waitpid(pid, &status, 0), pid, "it can be waited for");
    is(WEXITSTATUS(status), 42, "with its status");
}

static void chained(int signo, siginfo_t *info, void *context)
{
    (void)context;
    seen_count += signo == SIGCHLD && info->si_signo == SIGCHLD;
}

/* In its handler the reaper takes all for one signal, and calls on the
 * handler that was there.
 */
static void on_signal(void)
{
    pid_t pids[CHILDREN];

    install();
    handle(SIGCHLD, chained, 0, 0);
    is(sigdefer_reap_on_signal(), 0, "reaper installed");
    change_mask(SIG_BLOCK, SIGCHLD);
    start_children(pids);
    ok(await(zombies(pids) == CHILDREN), "%d children end", CHILDREN);
    is(stats_now().reaped, 0, "none is reaped before the signal");
    change_mask(SIG_UNBLOCK, SIGCHLD);
    is(stats_now().reaped, CHILDREN, "all are reaped by one signal");
    is(zombies(pids), 0, "none is left");
    is(seen_count, 1, "the handler that was there is called");
}

static void chained_plain(int signo)
{
    seen_count += signo == SIGCHLD;
}

/* A plain handler that was there before the engine is called, too, and a
 * child that was ended before the reaper came is reaped with the next.
 */
static void on_signal_plain(void)
{
    pid_t pids[CHILDREN];

    signal(SIGCHLD, chained_plain);
    change_mask(SIG_BLOCK, SIGCHLD);
    install();
    start_children(pids);
    ok(await(zombies(pids) == CHILDREN), "%d children end", CHILDREN);
    is(sigdefer_reap_on_signal(), 0, "reaper installed");
    change_mask(SIG_UNBLOCK, SIGCHLD);
    is(stats_now().reaped, CHILDREN, "all are reaped");
    is(seen_count, 1, "the handler that was there is called");
}

/* Inside a section nothing is reaped; when it is left, all are. */
static void in_section(void)
{
    pid_t pids[CHILDREN];

    install();
    is(sigdefer_reap_on_signal(), 0, "reaper installed");
    SIGDEFER_ENTER();
    start_children(pids);
    ok(await(zombies(pids) == CHILDREN), "%d children end", CHILDREN);
    ok(sigdefer_pending(NULL) > 0, "their signal waits");
    is(stats_now().reaped, 0, "none is reaped");
    SIGDEFER_LEAVE();
    is(stats_now().reaped, CHILDREN, "all are reaped when it is left");
}

/* Installed twice, the reaper does not call itself. */
static void twice(void)
{
    install();
    handle(SIGCHLD, chained, 0, 0);
    is(sigdefer_reap_on_signal(), 0, "reaper installed");
    is(sigdefer_reap_on_signal(), 0, "and again");
    raise(SIGCHLD);
    is(seen_count, 1, "the handler that was there is called once");
}

static const tap_test_t tests[] = {
    TAP_TEST(when_called),     TAP_TEST(off),        TAP_TEST(on_signal),
    TAP_TEST(on_signal_plain), TAP_TEST(in_section), TAP_TEST(twice),
};

TAP_MAIN(tests)
