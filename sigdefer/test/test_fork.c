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

/* Children: what they take along of a section, and what they must not. */

#include <spawn.h>

#include "tap.h"

static void start_engine(void)
{
    install();
    handle(SIGUSR1, record, 0, 0);
    handle(SIGUSR2, record, 0, 0);
    handle(SIGRTMIN, record, 0, 0);
}

static int exit_status(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ---- fork --------------------------------------------------------------- */

/* The child of a fork inside a section: inside, but nothing waits. */
static void in_forked_child(void)
{
    is(sigdefer_depth(), 2, "child: in both sections");
    is(sigdefer_pending(NULL), 0, "child: nothing waits");
    SIGDEFER_LEAVE();
    SIGDEFER_LEAVE();
    is(seen_count, 0, "child: its parent's signals are not its own");
    is(current_mask(), 0, "child: no signal is blocked");
    send_value(SIGUSR1, 5);
    is(seen_count, 1, "child: its own are handled at once outside");
    SIGDEFER_ENTER();
    send_value(SIGUSR2, 6);
    is(seen_count, 1, "child: deferred inside");
    SIGDEFER_LEAVE();
    is(seen_count, 2, "child: and handled");
    is(seen[1].value, 6, "child: with its value");
    sigdefer_check(sigdefer_managed(), NULL);
    is(seen_count, 2, "child: a check invents none");
}

/* A fork inside a section leaves the child in the section with an empty
 * queue, and its parent's queue as it was.
 */
static void fork_inside(void)
{
    start_engine();
    SIGDEFER_ENTER();
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 1);
    send_value(SIGRTMIN, 2);
    is(status_of(in_forked_child), 0, "the child has ended");
    is(sigdefer_pending(NULL), 2, "two wait in the parent");
    is(sigdefer_depth(), 2, "which is still inside");
    send_value(SIGRTMIN, 3);
    SIGDEFER_LEAVE();
    SIGDEFER_LEAVE();
    is(seen_count, 3, "three handled");
    is(seen[0].value, 1, "the first");
    is(seen[1].value, 2, "the second");
    is(seen[2].value, 3, "the third");
}

/* Children of children do as children do. */
static void fork_deeper(void)
{
    is(sigdefer_depth(), 1, "child: inside");
    send_value(SIGUSR1, 2);
    is(sigdefer_pending(NULL), 1, "child: one waits");
    fflush(stdout);
    if (fork() == 0) {
        SIGDEFER_LEAVE();
        _exit(seen_count);
    }
    SIGDEFER_LEAVE();
    is(seen_count, 1, "child: handled");
    is(seen[0].value, 2, "child: its own");
    is(exit_status(-1), 0, "child: its child has handled none");
}

static void fork_again(void)
{
    start_engine();
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 1);
    is(status_of(fork_deeper), 0, "the child has ended");
    SIGDEFER_LEAVE();
    is(seen_count, 1, "the parent has handled its own");
}

static pid_t forked_in_handler;

static void fork_in_handler(int signo, siginfo_t *info, void *context)
{
    record(signo, info, context);
    forked_in_handler = fork();
}

/* A fork by a handler during the replay: the child has nothing left to
 * replay, and its signals work; the parent goes on with its queue.
 */
static void fork_during_replay(void)
{
    start_engine();
    handle(SIGUSR1, fork_in_handler, 0, 0);
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 1);
    send_value(SIGUSR2, 2);
    send_value(SIGRTMIN, 3);
    fflush(stdout);
    SIGDEFER_LEAVE();
    if (forked_in_handler == 0) {
        if (seen_count != 1 || current_mask() != 0) {
            _exit(10 + (int)seen_count);
        }
        send_value(SIGUSR2, 4);
        SIGDEFER_ENTER();
        send_value(SIGUSR2, 5);
        SIGDEFER_LEAVE();
        _exit((int)seen_count);
    }
    is(seen_count, 3, "the parent has handled three");
    is(exit_status(forked_in_handler), 3, "the child its first and two more");
}

/* ---- vfork -------------------------------------------------------------- */

/* A signal that hits a vfork child is not left to its parent, whose memory it
 * shares.
 */
static void vfork_inside(void)
{
    int after_child;
    pid_t pid;

    start_engine();
    SIGDEFER_ENTER();
    send_value(SIGUSR2, 1);
    pid = vfork(); /* NOLINT(*.vfork) */
    if (pid == 0) {
        kill(getpid(), SIGUSR1); /* NOLINT(*.Vfork) */
        _exit(3);
    }
    is(exit_status(pid), 3, "the child has ended");
    is(sigdefer_pending(NULL), 1, "only the parent's own signal waits");
    after_child = (int)seen_count;
    SIGDEFER_LEAVE();
    is(seen_count, after_child + 1, "and only that is handled");
    is(seen[seen_count - 1].signo, SIGUSR2, "when it leaves");
    is(current_mask(), 0, "no signal is blocked");
}

/* The default action ends a vfork child, and leaves the parent managed. */
static void vfork_default(void)
{
    int status = 0;
    pid_t pid;

    start_engine();
    SIGDEFER_ENTER();
    pid = vfork(); /* NOLINT(*.vfork) */
    if (pid == 0) {
        kill(getpid(), SIGTERM); /* NOLINT(*.Vfork) */
        _exit(3);
    }
    waitpid(pid, &status, 0);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM,
       "the child was ended by SIGTERM");
    is(sigdefer_pending(NULL), 0, "nothing waits in the parent");
    raise(SIGTERM);
    is(sigdefer_pending(NULL), 1, "whose own SIGTERM does wait");
    sigdefer_signal(SIGTERM, SIG_IGN);
    SIGDEFER_LEAVE();
}

/* ---- exec --------------------------------------------------------------- */

static char *const program[] = { (char *)"grep", (char *)"-E",
                                 (char *)"^Sig(Blk|Ign)",
                                 (char *)"/proc/self/status", NULL };

static pid_t by_fork(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        execvp(program[0], program);
        _exit(127);
    }
    return pid;
}

static pid_t by_vfork(void)
{
    pid_t pid = vfork(); /* NOLINT(*.vfork) */

    if (pid == 0) {
        execvp(program[0], program);
        _exit(127);
    }
    return pid;
}

static pid_t by_spawn(void)
{
    pid_t pid = -1;

    posix_spawnp(&pid, program[0], NULL, NULL, program, environ);
    return pid;
}

/* What a program started in one of these ways prints of its signals. */
static void signals_of_program(pid_t (*start)(void), char *text, size_t size)
{
    int ends[2];
    int out = dup(STDOUT_FILENO);
    ssize_t got;
    size_t length = 0;
    pid_t pid;

    fflush(stdout);
    if (out < 0 || pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) {
        exit(1);
    }
    close(ends[1]);
    pid = start();
    dup2(out, STDOUT_FILENO);
    close(out);
    while (length < size - 1
           && (got = read(ends[0], text + length, size - 1 - length)) > 0) {
        length += (size_t)got;
    }
    text[length] = '\0';
    close(ends[0]);
    is(exit_status(pid), 0, "the program has ended");
}

/* A program sees the same blocked and ignored signals as without the engine,
 * started outside of sections or inside, with signals waiting or not.
 */
static void programs(void)
{
    pid_t (*const ways[])(void) = { by_fork, by_vfork, by_spawn };
    const char *const names[] = { "fork", "vfork", "posix_spawn" };
    char before[3][256];
    char after[256];
    int section;
    int i;

    signal(SIGUSR2, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    change_mask(SIG_BLOCK, SIGWINCH);
    for (i = 0; i < 3; ++i) {
        signals_of_program(ways[i], before[i], sizeof(before[i]));
        ok(strlen(before[i]) > 40, "%s says something", names[i]);
    }
    install();
    handle(SIGUSR1, record, 0, 0);
    for (section = 0; section <= 2; ++section) {
        for (i = 0; i < 3; ++i) {
            signals_of_program(ways[i], after, sizeof(after));
            if (!ok(strcmp(before[i], after) == 0, "the same by %s at depth %d",
                    names[i], section)) {
                diag("before: %s", before[i]);
                diag("after: %s", after);
            }
        }
        SIGDEFER_ENTER();
        raise(SIGUSR1);
    }
}

static const tap_test_t tests[] = {
    TAP_TEST(fork_inside),        TAP_TEST(fork_again),
    TAP_TEST(fork_during_replay), TAP_TEST(vfork_inside),
    TAP_TEST(vfork_default),      TAP_TEST(programs),
};

TAP_MAIN_EXACT(tests)
