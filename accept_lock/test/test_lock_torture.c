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

/* Many contend, and a killer shoots holders and waiters: nobody is let in
 * while another is inside, nobody sleeps while the lock is free, and what a
 * dead holder has left is told once.
 *
 * ACCEPT_LOCK_TEST_OPERATIONS and ACCEPT_LOCK_TEST_KILLS are the least that is
 * done with each backend in each scope.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "accept_lock/test/locks.h"

#define WORKERS 8
#define THREADS 3 /* of a worker, in the scope of threads */

/* Some of the time the lock is held for longer, so that holders are hit. */
#define LONG_EVERY 64
#define LONG_TURNS 2000

/* Who is inside: a worker's slot and its incarnation; 0: nobody. */
typedef uint64_t mark_t;

#define MARK(slot, incarnation) ((mark_t)(incarnation) << 8 | ((slot) + 1))

typedef struct {
    /* Guarded by the lock.  A holder that dies may leave them unequal, by one.
     */
    volatile mark_t inside;
    volatile int64_t first;
    volatile int64_t second;
    volatile int64_t recovered;

    /* By the killer: the incarnations that are shot, before they are. */
    volatile mark_t shot[WORKERS];

    /* What must not happen, counted where it is seen. */
    atomic_int double_holds;
    atomic_int torn;
    atomic_int untold; /* a holder's death that nobody was told of */
    atomic_int errors;

    volatile int is_over;
    atomic_int longest_wait_ms;
    atomic_int done[WORKERS]; /* for the log: its turns */
} arena_t;

static arena_t *arena;

typedef struct {
    subject_t *subject;
    mark_t mark;
    int slot;
} worker_t;

static int64_t from_environment(const char *name, int64_t otherwise)
{
    const char *value = getenv(name);

    return value ? strtoll(value, NULL, 10) : otherwise;
}

/* What is found inside must be nobody, or somebody dead of whom we are told. */
static void look_around(unsigned how)
{
    const mark_t found = arena->inside;

    if (found) {
        if (arena->shot[(found & 0xff) - 1] != found) {
            atomic_fetch_add(&arena->double_holds, 1);
        }
        if (!(how & ACCEPT_LOCK_RECOVERED)) {
            atomic_fetch_add(&arena->untold, 1);
        }
        arena->second = arena->first;
    }
    else if (arena->first != arena->second) {
        atomic_fetch_add(&arena->torn, 1);
    }
    if (how & ACCEPT_LOCK_RECOVERED) {
        arena->recovered++;
    }
}

static void stay(const worker_t *worker)
{
    volatile int turn;

    arena->inside = worker->mark;
    arena->first++;
    if (arena->first % LONG_EVERY == 0) {
        for (turn = 0; turn < LONG_TURNS; turn++) {
            continue;
        }
    }
    if (arena->inside != worker->mark) {
        atomic_fetch_add(&arena->double_holds, 1);
    }
    arena->second++;
    arena->inside = 0;
}

static void note_wait(int64_t waited)
{
    if (waited > atomic_load(&arena->longest_wait_ms)) {
        atomic_store(&arena->longest_wait_ms, (int)waited);
    }
}

static void *work(void *arg)
{
    worker_t *worker = arg;
    accept_lock_t *lock = worker->subject->lock;

    while (!arena->is_over) {
        const int64_t from = now_ms();
        unsigned how;

        if (accept_lock_acquire(lock, &how) != APR_SUCCESS) {
            atomic_fetch_add(&arena->errors, 1);
            break;
        }
        note_wait(now_ms() - from);
        look_around(how);
        stay(worker);
        atomic_fetch_add(&arena->done[worker->slot], 1);
        if (accept_lock_release(lock) != APR_SUCCESS) {
            atomic_fetch_add(&arena->errors, 1);
            break;
        }
    }
    return NULL;
}

static pid_t start_worker(subject_t *s, int slot, int incarnation)
{
    worker_t worker = { s, MARK(slot, incarnation), slot };
    pthread_t threads[THREADS];
    pid_t pid = fork_user(s->lock);
    int i;

    if (pid != 0) {
        return pid;
    }
    if (s->scope == ACCEPT_LOCK_PROCESSES) {
        work(&worker);
    }
    else {
        for (i = 0; i < THREADS; i++) {
            pthread_create(&threads[i], NULL, work, &worker);
        }
        for (i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    accept_lock_child_exit(s->lock);
    _exit(0);
}

/* Wait until somebody has had the lock since; whether that was in time. */
static int goes_on(int64_t since, int64_t *waited)
{
    const int64_t from = now_ms();

    await(arena->first != since || arena->is_over);
    *waited = now_ms() - from;
    return arena->first != since;
}

typedef struct {
    int64_t operations;
    int64_t kills;
    int64_t holders; /* shot inside */
    int64_t slowest; /* until somebody had it, after a holder's death */
    int stalls;      /* nobody had it within a second */
} result_t;

/* Stop one, so that it can be seen where it is; whether it is inside. */
static int is_stopped_inside(pid_t pid, mark_t mark)
{
    kill(pid, SIGSTOP);
    await(state_of(pid) == 'T');
    return arena->inside == mark;
}

/* Choose one, who is inside if it can be had; he is stopped. */
static int choose(const pid_t *pids, const int *incarnations, int is_holder)
{
    int tries = 200;

    for (;;) {
        const mark_t inside = arena->inside;
        const int slot = is_holder && inside ? (int)(inside & 0xff) - 1
                                             : (int)(random() % WORKERS);

        if (is_stopped_inside(pids[slot], MARK(slot, incarnations[slot]))
            || !is_holder || --tries == 0) {
            return slot;
        }
        kill(pids[slot], SIGCONT);
    }
}

/* Shoot one, a holder every other time, and replace it. */
static void shoot(subject_t *s, pid_t *pids, int *incarnations,
                  result_t *result)
{
    const int slot = choose(pids, incarnations, result->kills % 2 != 0);
    const int signo = result->kills % 3 ? SIGKILL : SIGSEGV;
    const int64_t since = arena->first;
    int64_t waited;

    arena->shot[slot] = MARK(slot, incarnations[slot]);
    /* Any other than KILL lets him go on first, and he may leave. */
    result->holders += signo == SIGKILL && arena->inside == arena->shot[slot];
    kill(pids[slot], signo);
    kill(pids[slot], SIGCONT);
    end_of(pids[slot]);
    if (!goes_on(since, &waited) || waited > 1000) {
        result->stalls++;
    }
    if (waited > result->slowest) {
        result->slowest = waited;
    }
    result->kills++;
    pids[slot] = start_worker(s, slot, ++incarnations[slot]);
}

static void run(subject_t *s, result_t *result)
{
    const int64_t operations = from_environment("ACCEPT_LOCK_TEST_OPERATIONS",
                                                100000);
    const int64_t kills = from_environment("ACCEPT_LOCK_TEST_KILLS", 60);
    int incarnations[WORKERS] = { 0 };
    pid_t pids[WORKERS];
    int i;

    for (i = 0; i < WORKERS; i++) {
        pids[i] = start_worker(s, i, 0);
    }
    while ((arena->first < operations || result->kills < kills)
           && result->stalls < 3) {
        /* not all kills at once, nor after all operations */
        await(arena->first >= operations
              || arena->first * kills >= operations * result->kills);
        if (result->kills < kills) {
            shoot(s, pids, incarnations, result);
        }
    }
    arena->is_over = 1;
    for (i = 0; i < WORKERS; i++) {
        if (!await(state_of(pids[i]) == 'Z')) {
            result->stalls++;
            kill(pids[i], SIGKILL);
        }
        end_of(pids[i]);
    }
    result->operations = arena->first;
}

static void torture(subject_t *s)
{
    result_t result = { 0 };

    memset(arena, 0, sizeof(*arena));
    run(s, &result);
    is(atomic_load(&arena->double_holds), 0, "%s: never two inside", s->label);
    is(atomic_load(&arena->torn), 0, "%s: nothing torn", s->label);
    is(atomic_load(&arena->untold), 0, "%s: told of each that died inside",
       s->label);
    is(atomic_load(&arena->errors), 0, "%s: no error", s->label);
    is(result.stalls, 0, "%s: nobody slept while it was free", s->label);
    ok(result.slowest < 100, "%s: goes on within 100 ms after a death",
       s->label);
    ok(arena->recovered >= result.holders && arena->recovered <= result.kills,
       "%s: told once for each", s->label);
    diag("%s: %lld operations, %lld kills, %lld of them inside, told %lld "
         "times, slowest %lld ms, longest wait %d ms",
         s->label, (long long)result.operations, (long long)result.kills,
         (long long)result.holders, (long long)arena->recovered,
         (long long)result.slowest, atomic_load(&arena->longest_wait_ms));
}

static void one_backend(int index)
{
    const accept_lock_provider_t *provider = accept_lock_builtin(index);

    arena = shared_memory(sizeof(*arena));
    with_lock(provider, ACCEPT_LOCK_PROCESSES, torture);
    with_lock(provider, ACCEPT_LOCK_THREADS, torture);
}

static void first_backend(void)
{
    one_backend(0);
}

static void second_backend(void)
{
    one_backend(1);
}

static void third_backend(void)
{
    one_backend(2);
}

static const tap_test_t tests[] = {
    TAP_TEST(first_backend),
    TAP_TEST(second_backend),
    TAP_TEST(third_backend),
};

TAP_MAIN(tests)
