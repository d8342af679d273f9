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

/* What accept_lock.h promises, short of deaths at every instruction and of
 * many contenders: see test_lock_death.c and test_lock_torture.c.
 */

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#include "accept_lock/test/locks.h"

/* ---- Use and misuse ----------------------------------------------------- */

static void use(subject_t *s)
{
    unsigned how = 99;

    is(accept_lock_holder(s->lock), 0, "%s: nobody holds it", s->label);
    is(accept_lock_acquire(s->lock, &how), APR_SUCCESS, "%s: acquired",
       s->label);
    is(how, 0, "%s: at once, from nobody", s->label);
    is(accept_lock_holder(s->lock), getpid(), "%s: held by this process",
       s->label);
    is(accept_lock_release(s->lock), APR_SUCCESS, "%s: released", s->label);
    is(accept_lock_holder(s->lock), 0, "%s: nobody holds it again", s->label);
    is(accept_lock_try(s->lock, &how), APR_SUCCESS, "%s: try", s->label);
    is(accept_lock_release(s->lock), APR_SUCCESS, "%s: released", s->label);
    ok(accept_lock_provider(s->lock) == s->provider, "%s: its backend",
       s->label);
}

/* The lock is acquired, tried, released. */
static void uses(void)
{
    with_all(use);
}

static void misuse(subject_t *s)
{
    unsigned how;

    is(accept_lock_release(s->lock), EPERM, "%s: released, not held", s->label);
    is(accept_lock_acquire(s->lock, &how), APR_SUCCESS, "%s: but sound",
       s->label);
    is(accept_lock_acquire(s->lock, &how), EDEADLK, "%s: acquired twice",
       s->label);
    is(accept_lock_try(s->lock, &how), EDEADLK, "%s: tried while held",
       s->label);
    is(accept_lock_destroy(s->lock), APR_EBUSY, "%s: destroyed while held",
       s->label);
    is(accept_lock_release(s->lock), APR_SUCCESS, "%s: still sound", s->label);
    is(accept_lock_release(s->lock), EPERM, "%s: released twice", s->label);
}

/* Released by one who does not hold it, acquired twice, destroyed too early:
 * the status says so, and the lock is sound.
 */
static void misuses(void)
{
    with_all(misuse);
}

static void after_destroy(subject_t *s)
{
    accept_lock_t *lock;
    const char *error;
    unsigned how;

    is(accept_lock_create(&lock, &error, s->provider, s->scope, NULL,
                          test_pool()),
       APR_SUCCESS, "%s: another", s->label);
    is(accept_lock_destroy(lock), APR_SUCCESS, "%s: destroyed", s->label);
    is(accept_lock_destroy(lock), APR_EINVAL, "%s: twice", s->label);
    is(accept_lock_acquire(lock, &how), APR_EINVAL, "%s: acquire", s->label);
    is(accept_lock_try(lock, &how), APR_EINVAL, "%s: try", s->label);
    is(accept_lock_release(lock), APR_EINVAL, "%s: release", s->label);
    is(accept_lock_stop(lock), APR_EINVAL, "%s: stop", s->label);
    is(accept_lock_child_init(lock), APR_EINVAL, "%s: child_init", s->label);
    is(accept_lock_child_exit(lock), APR_EINVAL, "%s: child_exit", s->label);
    is(accept_lock_holder(lock), 0, "%s: holder", s->label);
}

/* Whatever is done with a lock that has been destroyed says EINVAL. */
static void destroyed(void)
{
    with_all(after_destroy);
}

/* ---- Fork --------------------------------------------------------------- */

static void fork_while_held(subject_t *s)
{
    unsigned how;
    pid_t pid;

    is(accept_lock_acquire(s->lock, &how), APR_SUCCESS, "%s: held", s->label);
    pid = fork_user(s->lock);
    if (pid == 0) {
        is(accept_lock_try(s->lock, &how), APR_EBUSY, "%s: not in the child",
           s->label);
        is(accept_lock_release(s->lock), EPERM, "%s: nor to be released by it",
           s->label);
        is(accept_lock_destroy(s->lock), EPERM, "%s: nor destroyed", s->label);
        is(accept_lock_holder(s->lock), getppid(), "%s: the holder", s->label);
        is(accept_lock_child_exit(s->lock), APR_SUCCESS, "%s: its exit",
           s->label);
        _exit(0);
    }
    is(end_of(pid), 0, "%s: the child has ended", s->label);
    pid = fork_user(s->lock);
    if (pid == 0) {
        accept_lock_release(s->lock);
        _exit(accept_lock_try(s->lock, &how) == APR_EBUSY ? 0 : 1);
    }
    is(end_of(pid), 0, "%s: and the parent has kept it", s->label);
    is(accept_lock_release(s->lock), APR_SUCCESS, "%s: released", s->label);
    pid = fork_user(s->lock);
    if (pid == 0) {
        is(accept_lock_acquire(s->lock, &how), APR_SUCCESS, "%s: in a child",
           s->label);
        is(accept_lock_holder(s->lock), getpid(), "%s: held by it", s->label);
        is(accept_lock_child_exit(s->lock), APR_SUCCESS, "%s: its exit",
           s->label);
        _exit(0);
    }
    is(end_of(pid), 0, "%s: ended", s->label);
    is(accept_lock_acquire(s->lock, &how), APR_SUCCESS, "%s: again", s->label);
    is(how & ACCEPT_LOCK_RECOVERED, 0, "%s: an exit is no owner death",
       s->label);
    accept_lock_release(s->lock);
}

/* A child does not hold what its parent holds; an orderly exit is no death. */
static void forks(void)
{
    with_all(fork_while_held);
}

/* ---- Deaths ------------------------------------------------------------- */

static void die_with(subject_t *s, int signo)
{
    waiter_t *waiter = shared_memory(sizeof(*waiter));
    volatile int *is_held = shared_memory(sizeof(*is_held));
    unsigned how;
    int64_t died;
    pid_t other;
    pid_t pid = fork_user(s->lock);

    if (pid == 0) {
        accept_lock_acquire(s->lock, &how);
        *is_held = 1;
        if (!signo) {
            _exit(3);
        }
        for (;;) {
            pause();
        }
    }
    await(*is_held);
    if (signo) {
        other = fork_waiter(s->lock, waiter);
        died = now_ms();
        kill_and_reap(pid, signo);
        ok(await(waiter->got == 2) && now_ms() - died < 100,
           "%s: death by %d, acquired within 100 ms", s->label, signo);
        end_of(other);
        ok(waiter->how & ACCEPT_LOCK_RECOVERED, "%s: and told", s->label);
        ok(waiter->how & ACCEPT_LOCK_WAITED, "%s: it has waited", s->label);
    }
    else {
        end_of(pid);
        is(accept_lock_try(s->lock, &how), APR_SUCCESS, "%s: exit", s->label);
        is(how, ACCEPT_LOCK_RECOVERED, "%s: told", s->label);
        accept_lock_release(s->lock);
    }
    is(accept_lock_acquire(s->lock, &how), APR_SUCCESS, "%s: again", s->label);
    is(how, 0, "%s: told once", s->label);
    accept_lock_release(s->lock);
}

static void die(subject_t *s)
{
    die_with(s, SIGKILL);
    die_with(s, SIGSEGV);
    die_with(s, SIGTERM);
    die_with(s, 0);
}

/* Who waits has the lock when the holder dies, and is told; the next is not.
 */
static void deaths(void)
{
    with_all(die);
}

static void die_together(subject_t *s)
{
    waiter_t *waiters = shared_memory(4 * sizeof(*waiters));
    pid_t pids[4];
    pid_t holder;
    unsigned how;
    volatile int *is_held = shared_memory(sizeof(*is_held));
    int i;

    holder = fork_user(s->lock);
    if (holder == 0) {
        accept_lock_acquire(s->lock, &how);
        *is_held = 1;
        for (;;) {
            pause();
        }
    }
    await(*is_held);
    for (i = 0; i < 4; i++) {
        pids[i] = fork_waiter(s->lock, &waiters[i]);
    }
    kill(pids[0], SIGKILL);
    kill(holder, SIGKILL);
    kill(pids[1], SIGKILL);
    end_of(pids[0]);
    end_of(holder);
    end_of(pids[1]);
    ok(await(waiters[2].got == 2 && waiters[3].got == 2),
       "%s: the others have had it", s->label);
    end_of(pids[2]);
    end_of(pids[3]);
    is(!!(waiters[2].how & ACCEPT_LOCK_RECOVERED)
           + !!(waiters[3].how & ACCEPT_LOCK_RECOVERED)
           + !!(waiters[1].how & ACCEPT_LOCK_RECOVERED),
       1, "%s: one has been told", s->label);
}

static void on_signal(int signo, void (*handler)(int), int flags);

/* As a child of httpd's does at exit, which may be in a handler. */
static void exit_at_once(int signo)
{
    (void)signo;
    apr_terminate();
    _exit(0);
}

static void exit_waiting(subject_t *s)
{
    waiter_t *waiters = shared_memory(3 * sizeof(*waiters));
    pid_t pids[3];
    unsigned how;
    int i;

    accept_lock_acquire(s->lock, &how);
    on_signal(SIGUSR1, exit_at_once, 0);
    for (i = 0; i < 3; i++) {
        pids[i] = fork_waiter(s->lock, &waiters[i]);
    }
    on_signal(SIGUSR1, SIG_DFL, 0);
    kill(pids[0], SIGUSR1);
    is(end_of(pids[0]), 0, "%s: the first who waits exits", s->label);
    accept_lock_release(s->lock);
    ok(await(waiters[1].got == 2 && waiters[2].got == 2),
       "%s: the others have had it", s->label);
    for (i = 1; i < 3; i++) {
        kill_and_reap(pids[i], SIGKILL);
        is(waiters[i].how & ACCEPT_LOCK_RECOVERED, 0,
           "%s: and are told of no death", s->label);
    }
}

/* Who waits exits in a handler of a signal, all its pools being destroyed. */
static void exits_waiting(void)
{
    with_all(exit_waiting);
}

/* Holder and waiters are killed together: those who are left go on. */
static void deaths_together(void)
{
    with_all(die_together);
}

/* ---- Signals ------------------------------------------------------------ */

static accept_lock_t *to_stop;

static void do_nothing(int signo)
{
    (void)signo;
}

static void stop_it(int signo)
{
    (void)signo;
    accept_lock_stop(to_stop);
}

static void on_signal(int signo, void (*handler)(int), int flags)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signo, &action, NULL);
}

/* A waiter that a handler interrupts: what acquire says, or -1 if it waits on.
 */
static int interrupted(subject_t *s, void (*handler)(int), int flags)
{
    waiter_t *waiter = shared_memory(sizeof(*waiter));
    unsigned how;
    int status;
    pid_t pid;

    to_stop = s->lock;
    on_signal(SIGUSR1, handler, flags);
    accept_lock_acquire(s->lock, &how);
    pid = fork_waiter(s->lock, waiter);
    kill(pid, SIGUSR1);
    status = s->provider->capabilities & ACCEPT_LOCK_INTERRUPTIBLE
                     && await(waiter->got)
                 ? waiter->status
                 : -1;
    accept_lock_release(s->lock);
    if (status == -1) {
        ok(await(waiter->got), "%s: acquired later", s->label);
    }
    end_of(pid);
    return status;
}

static void interrupt(subject_t *s)
{
    const unsigned can = s->provider->capabilities & ACCEPT_LOCK_INTERRUPTIBLE;

    is(interrupted(s, do_nothing, 0), can ? EINTR : -1, "%s: a handler",
       s->label);
    is(interrupted(s, stop_it, SA_RESTART), can ? EINTR : -1,
       "%s: a stop in a handler that restarts", s->label);
}

/* A handled signal ends the wait, if the backend says that it can. */
static void signals(void)
{
    with_all(interrupt);
}

static void stop(subject_t *s)
{
    const unsigned can = s->provider->capabilities & ACCEPT_LOCK_INTERRUPTIBLE;
    unsigned how;
    pid_t pid = fork_user(s->lock);

    if (pid == 0) {
        is(accept_lock_acquire(s->lock, &how), APR_SUCCESS, "%s: held",
           s->label);
        is(accept_lock_stop(s->lock), can ? APR_SUCCESS : APR_ENOTIMPL,
           "%s: stopped", s->label);
        is(accept_lock_release(s->lock), APR_SUCCESS, "%s: still released",
           s->label);
        is(accept_lock_acquire(s->lock, &how), EINTR, "%s: no more", s->label);
        is(accept_lock_try(s->lock, &how), EINTR, "%s: nor by try", s->label);
        _exit(0);
    }
    is(end_of(pid), 0, "%s: ended", s->label);
    is(accept_lock_acquire(s->lock, &how), APR_SUCCESS, "%s: others go on",
       s->label);
    accept_lock_release(s->lock);
}

/* A process that is stopped gets the lock no more; others do. */
static void stops(void)
{
    with_all(stop);
}

static void acquire_once(accept_lock_t *lock)
{
    unsigned how;

    if (accept_lock_acquire(lock, &how) != EINTR) {
        _exit(1);
    }
    _exit(0);
}

/* Whether acquire, before which so many instructions a handler stops the lock,
 * says EINTR; *end is set to where the steps have led.
 */
static int stopped_after(subject_t *s, int steps, step_e *end)
{
    pid_t pid = fork_stepped(s->lock, acquire_once);
    int status;

    *end = step_on(pid, steps);
    if (*end == STEP_ASLEEP) {
        kill(pid, SIGUSR1);
        waitpid(pid, &status, 0);
        if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP) {
            /* the step has ended, too */
            ptrace(PTRACE_CONT, pid, NULL, NULL);
            waitpid(pid, &status, 0);
        }
    }
    ptrace(PTRACE_CONT, pid, NULL, SIGUSR1);
    if (!await(state_of(pid) == 'Z')) {
        kill(pid, SIGKILL);
    }
    status = end_of(pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void stop_everywhere(subject_t *s)
{
    step_e end = STEP_STOPPED;
    int wrong = 0;
    int steps;
    unsigned how;

    if (!(s->provider->capabilities & ACCEPT_LOCK_INTERRUPTIBLE)
        || s->scope != ACCEPT_LOCK_PROCESSES) {
        return;
    }
    to_stop = s->lock;
    on_signal(SIGUSR1, stop_it, SA_RESTART);
    accept_lock_acquire(s->lock, &how);
    for (steps = 0; end == STEP_STOPPED && wrong < 3; steps++) {
        if (!stopped_after(s, steps, &end)) {
            diag("%s: not after %d", s->label, steps);
            wrong++;
        }
    }
    ok(wrong == 0 && end == STEP_ASLEEP && steps > 10,
       "%s: stopped before each of %d instructions", s->label, steps);
    accept_lock_release(s->lock);
}

/* There is no instruction in acquire before which a stop is missed. */
static void no_window(void)
{
    if (!may_trace()) {
        skip("needs ptrace(), and no sanitizer");
        return;
    }
    with_all(stop_everywhere);
}

/* ---- Threads ------------------------------------------------------------ */

#define THREADS 6

static struct {
    accept_lock_t *lock;
    int count;          /* guarded by the lock */
    int order[THREADS]; /* who has had it, guarded by the lock */
    int had;
    atomic_int running;
    atomic_int interrupted;
} team;

static void *count_up(void *arg)
{
    unsigned how;
    int i;

    (void)arg;
    for (i = 0; i < 20000; i++) {
        if (accept_lock_acquire(team.lock, &how) != APR_SUCCESS) {
            break;
        }
        team.count++;
        accept_lock_release(team.lock);
    }
    return NULL;
}

static void *wait_in_line(void *arg)
{
    unsigned how;
    int rv;

    atomic_fetch_add(&team.running, 1);
    rv = accept_lock_acquire(team.lock, &how);
    if (rv == APR_SUCCESS) {
        team.order[team.had++] = *(const int *)arg;
        accept_lock_release(team.lock);
    }
    else if (rv == EINTR) {
        atomic_fetch_add(&team.interrupted, 1);
    }
    return NULL;
}

/* Whether all threads of this process but this one are asleep. */
static int all_asleep(int threads)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int asleep = 0;

    /* cppcheck-suppress readdirCalled; no other thread reads it */
    while (tasks && (entry = readdir(tasks)) != NULL) {
        pid_t id = (pid_t)strtol(entry->d_name, NULL, 10);

        asleep += id > 0 && id != getpid() && state_of(id) == 'S';
    }
    if (tasks) {
        closedir(tasks);
    }
    return asleep == threads;
}

static void start_line(subject_t *s, pthread_t *threads)
{
    static const int places[THREADS] = { 0, 1, 2, 3, 4, 5 };
    int i;

    memset(&team, 0, sizeof(team));
    team.lock = s->lock;
    for (i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, wait_in_line, (void *)&places[i]);
        await(atomic_load(&team.running) == i + 1 && all_asleep(i + 1));
    }
}

static void join(pthread_t *threads)
{
    int i;

    for (i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void thread_scope(subject_t *s)
{
    pthread_t threads[THREADS];
    unsigned how;
    int in_order = 1;
    pid_t pid;
    int i;

    if (s->scope != ACCEPT_LOCK_THREADS) {
        return;
    }
    team.lock = s->lock;
    team.count = 0;
    for (i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, count_up, NULL);
    }
    join(threads);
    is(team.count, THREADS * 20000, "%s: one at a time", s->label);

    accept_lock_acquire(s->lock, &how);
    start_line(s, threads);
    is(accept_lock_try(s->lock, &how), EDEADLK, "%s: twice", s->label);
    accept_lock_release(s->lock);
    join(threads);
    for (i = 0; i < THREADS; i++) {
        in_order = in_order && team.order[i] == THREADS - 1 - i;
    }
    ok(in_order && team.had == THREADS, "%s: last come, first woken", s->label);

    fflush(stdout);
    pid = fork_user(s->lock);
    if (pid == 0) {
        accept_lock_acquire(s->lock, &how);
        start_line(s, threads);
        accept_lock_stop(s->lock);
        join(threads);
        is(atomic_load(&team.interrupted), THREADS, "%s: a stop wakes all",
           s->label);
        accept_lock_release(s->lock);
        _exit(0);
    }
    is(end_of(pid), 0, "%s: ended", s->label);
}

/* Threads of a process: one at a time, woken last come first, all by a stop.
 */
static void threads_in_front(void)
{
    with_all(thread_scope);
}

static atomic_int refused_turns;

static void *take_turns(void *arg)
{
    const struct timespec moment = { 0, 500000 };
    accept_lock_t *lock = arg;
    unsigned how;
    int i;

    for (i = 0; i < 50; i++) {
        if (accept_lock_acquire(lock, &how) == APR_SUCCESS) {
            nanosleep(&moment, NULL);
            accept_lock_release(lock);
        }
        else {
            atomic_fetch_add(&refused_turns, 1);
        }
    }
    return NULL;
}

/* Threads of this process take turns, half of them with either lock; how many
 * turns fail.
 */
static int use_both(accept_lock_t *one, accept_lock_t *other)
{
    pthread_t threads[THREADS];
    int i;

    atomic_store(&refused_turns, 0);
    for (i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, take_turns, i % 2 ? one : other);
    }
    join(threads);
    return atomic_load(&refused_turns);
}

static void cross(subject_t *s)
{
    accept_lock_t *other;
    const char *error;
    pid_t pid;

    if (s->scope != ACCEPT_LOCK_THREADS
        || !ok(accept_lock_create(&other, &error, s->provider, s->scope, NULL,
                                  test_pool())
                   == APR_SUCCESS,
               "%s: a second one", s->label)) {
        return;
    }
    pid = fork_user(s->lock);
    if (pid == 0) {
        _exit(accept_lock_child_init(other) == APR_SUCCESS
                      && use_both(s->lock, other) == 0
                  ? 0
                  : 1);
    }
    is(use_both(s->lock, other), 0, "%s: no turn is refused", s->label);
    is(end_of(pid), 0, "%s: nor in the other process", s->label);
    accept_lock_destroy(other);
}

/* Two processes whose threads use two locks, none of them both at once: that
 * is no deadlock, though the kernel, which sees processes, takes it for one.
 */
static void two_locks(void)
{
    with_all(cross);
}

/* ---- What cannot be created, and what is left --------------------------- */

static void refused(const char *name, const char *argument, int status,
                    const char *text)
{
    const char *error = NULL;
    accept_lock_t *lock;
    apr_status_t rv;

    rv = accept_lock_create(&lock, &error, accept_lock_find(name),
                            ACCEPT_LOCK_PROCESSES, argument, test_pool());
    is(rv, status, "%s:%s: refused", name, argument);
    ok(lock == NULL, "no lock");
    ok(error && strstr(error, text), "and the text says %s", text);
    diag("%s", error ? error : "(none)");
}

/* What is wrong with an argument is said, with the path. */
static void arguments(void)
{
    char folder[] = "/tmp/accept_lock_test.XXXXXX";
    const char *error;

    refused("fcntl", "/nowhere/at/all", ENOENT, "/nowhere/at/all: ");
    refused("fcntl", "/dev/null", ENOTDIR, "/dev/null: ");
    refused("futex", "/tmp", APR_EINVAL, "futex takes no argument: /tmp");
    refused("pthread", "/tmp", APR_EINVAL, "pthread takes no argument: /tmp");
    if (!mkdtemp(folder)) {
        skip("no folder for temporary files");
        return;
    }
    is(accept_lock_probe(&error, accept_lock_find("fcntl"), folder,
                         test_pool()),
       APR_SUCCESS, "a folder that is fit");
    is(rmdir(folder), 0, "nothing has been left in it");
    refused("fcntl", "/proc", ENOENT, "/proc: ");
    ok(accept_lock_find("posixsem") == NULL, "no such backend");
}

/* How many descriptors, mappings, files and shared segments there are. */
static int count_all(void)
{
    static const char *const folders[] = { "/proc/self/fd", "/dev/shm" };
    static const char *const files[] = { "/proc/self/maps", "/proc/sysvipc/shm",
                                         "/proc/sysvipc/sem" };
    char line[512];
    int count = 0;
    size_t i;

    for (i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        DIR *folder = opendir(folders[i]);

        /* cppcheck-suppress readdirCalled; no other thread reads it */
        while (folder && readdir(folder)) {
            count++;
        }
        if (folder) {
            closedir(folder);
        }
    }
    for (i = 0; i < sizeof(files) / sizeof(*files); i++) {
        FILE *file = fopen(files[i], "r");

        while (file && fgets(line, sizeof(line), file)) {
            count += !strstr(line, "[heap]");
        }
        if (file) {
            fclose(file);
        }
    }
    return count;
}

/* Destroy leaves nothing. */
static void nothing_left(void)
{
    const accept_lock_provider_t *provider;
    const char *error;
    int before;
    int i;
    int turn;

    for (i = 0; (provider = accept_lock_builtin(i)) != NULL; i++) {
        accept_lock_probe(&error, provider, NULL, test_pool());
        before = count_all();
        for (turn = 0; turn < 50; turn++) {
            accept_lock_probe(&error, provider, NULL, test_pool());
        }
        ok(count_all() <= before + 1, "%s: nothing after 50 locks",
           provider->name);
    }
}

/* Neither does a whole tree of processes that is killed. */
static void nothing_after_kill(void)
{
    const accept_lock_provider_t *provider;
    char folder[] = "/tmp/accept_lock_test.XXXXXX";
    volatile int *held = shared_memory(sizeof(*held));
    int before;
    int i;

    if (!mkdtemp(folder)) {
        skip("no folder for temporary files");
        return;
    }
    for (i = 0; (provider = accept_lock_builtin(i)) != NULL; i++) {
        pid_t parent;

        test_pool();
        before = count_all();
        *held = 0;
        fflush(stdout);
        parent = fork();
        if (parent == 0) {
            const unsigned needs_file = provider->capabilities
                                        & ACCEPT_LOCK_NEEDS_FILE;
            accept_lock_t *lock;
            const char *error;
            unsigned how;

            accept_lock_create(&lock, &error, provider, ACCEPT_LOCK_PROCESSES,
                               needs_file ? folder : NULL, test_pool());
            if (fork_user(lock) == 0) {
                accept_lock_acquire(lock, &how);
                *held = 1;
                pause();
            }
            pause();
        }
        ok(await(*held), "%s: held", provider->name);
        kill_and_reap(parent, SIGKILL);
        is(count_all(), before, "%s: nothing left", provider->name);
    }
    is(rmdir(folder), 0, "no file left");
}

static const tap_test_t tests[] = {
    TAP_TEST(uses),
    TAP_TEST(misuses),
    TAP_TEST(destroyed),
    TAP_TEST(forks),
    TAP_TEST(deaths),
    TAP_TEST(exits_waiting),
    TAP_TEST(deaths_together),
    TAP_TEST(signals),
    TAP_TEST(stops),
    TAP_TEST(no_window),
    TAP_TEST(threads_in_front),
    TAP_TEST(two_locks),
    TAP_TEST(arguments),
    TAP_TEST(nothing_left),
    TAP_TEST(nothing_after_kill),
};

TAP_MAIN(tests)
