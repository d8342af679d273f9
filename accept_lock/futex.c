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

/* Two lock words of our own, in the format of the kernel's robust futexes: the
 * lock, and the front of those who wait for it.
 *
 * Whoever finds the lock taken must have the front before he waits for it, so
 * one does at most; who is not there yet waits for the front.  He gives up both
 * together, the lock first.  Nobody who has the lock waits for the front.
 *   With a single word each release has to wake somebody, also when the one
 * woken last is still on his way, as he may have died: where the lock is held
 * for long, half of all context switches were of such who had been woken in
 * vain.  Here there is nobody else to wake.
 *
 * Each word and a count of turns form one pair, which is always changed as a
 * whole; only the kernel changes the word alone, when its owner dies.
 *
 *     word                 turns
 *     0                    n          free
 *     0                    n | QUEUE  free, somebody may be asleep
 *     thread               n          held
 *     thread | WAITERS     n          held, somebody may be asleep
 *     OWNER_DIED           n          free, its owner has died
 *     OWNER_DIED | WAITERS n          the same, somebody may be asleep
 *
 * Invariants, of each:
 *   1. Whoever sleeps, has slept on a word with WAITERS, and until he is awake
 *      WAITERS or QUEUE is set.  They are taken away in one place, by a
 *      release that has found nobody to wake, if no turn has been taken since:
 *      it compares the turns, since the word may have come back to 0.
 *   2. If it is free and somebody sleeps, somebody is awake who will take it
 *      or wake one: who releases, or who has been woken.  If he dies before,
 *      the kernel does it for him.
 *   3. list_op_pending names the word from before it can become ours until it
 *      is in the list, and from before it leaves the list until it has been
 *      given up and the next one woken.
 * A word of 0 with QUEUE beside it, instead of WAITERS alone, is what lets all
 * kernels since 5.5 do the second: they look for 0.  Two deaths in a row, of
 * the owner and then of the one woken for it, need 6.2; these fixes are in the
 * stable kernels since 2020 and 2023.
 *
 * model/futex.pml has the same steps, of one word; keep them together.  That
 * the front is one of these, too, is needed for its owner's death only.
 *
 * Owner death: at any instruction; the kernel walks libc's list.  The list is
 *   the one that libc has registered for the thread: another one would be the
 *   end of libc's own robust mutexes.
 * Fork: the thread's id is another, libc has emptied its list.  Exec: as a
 *   death.
 * Fairness: first asleep, first woken; whoever comes along may be faster.
 * Signals: every handled one ends the wait, whatever its SA_RESTART.
 * File: none.
 */

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "apr_strings.h"

#include "accept_lock/backend.h"
#include "accept_lock/pause.h"

/* Where libc has the word, seen from the list entry, in its own mutexes; all
 * entries of a list must have it there.  glibc's on 64-bit machines.
 */
#define WORD_OFFSET (-32)

/* The pair: the word in the lower half, where the kernel sees it, the turns
 * in the upper one, and in their lowest bit whether, beside a word of 0,
 * somebody may be asleep.
 */
typedef uint64_t pair_t;

#define WORD(pair) ((uint32_t)(pair))
#define OWNER(pair) ((pair)&FUTEX_TID_MASK)
#define TURNS (~(pair_t)UINT32_MAX)
#define QUEUE ((pair_t)1 << 32)
#define ONE_TURN ((pair_t)2 << 32)

/* A pair in shared memory, with its place in the list of the thread that has
 * it.  The links are addresses in the process that holds it, written by it and
 * by libc in it; to all others they mean nothing.
 */
typedef struct {
    _Atomic pair_t pair;
    void *unused[2];
    void *previous;           /* libc has its own there: before the entry */
    struct robust_list entry; /* the kernel's; the next one */
    char apart[24];           /* a cache line each */
} word_t;

typedef struct {
    word_t lock;
    word_t front;
} shared_t;

/* Of a thread: looked up when it first comes, and after a fork. */
typedef struct {
    pair_t id;
    struct robust_list_head *head;
} thread_t;

static __thread thread_t this_thread;

/* Of this process. */
typedef struct {
    shared_t *shared;
    int looks; /* r/o */

    /* How long to sleep: for ever, or, once it is stopped, not at all.  The
     * kernel reads it when the wait begins, so a handler that comes just
     * before still ends it.
     */
    struct timespec limit;

    /* Of the thread that holds the lock, or held it last: who it is, and what
     * it has last made of the pair, which most often is still there.
     */
    thread_t *thread;
    pair_t left;
    int has_front; /* it has waited, and holds the front, too */
} self_t;

#if defined(SYS_futex) && __SIZEOF_POINTER__ == 8 \
    && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define IS_SUPPORTED 1
_Static_assert((int)offsetof(word_t, pair) - (int)offsetof(word_t, entry)
                   == WORD_OFFSET,
               "the word is where libc has it");
#else
#define IS_SUPPORTED 0
#define SYS_futex (-1)
#endif

static apr_status_t futex_know_thread(thread_t *thread)
{
    struct robust_list_head *head = NULL;
    size_t size;

    if (syscall(SYS_get_robust_list, 0, &head, &size) != 0) {
        return errno;
    }
    if (!head || head->futex_offset != WORD_OFFSET) {
        return APR_ENOTIMPL;
    }
    thread->head = head;
    thread->id = (pair_t)syscall(SYS_gettid);
    return APR_SUCCESS;
}

static pair_t word_load(word_t *word)
{
    return atomic_load_explicit(&word->pair, memory_order_relaxed);
}

/* Acquire and release at once: taking must not let the section's accesses out
 * before it, giving up must not let them out behind it.
 */
static int word_change(word_t *word, pair_t *from, pair_t to)
{
    return atomic_compare_exchange_strong_explicit(
        &word->pair, from, to, memory_order_acq_rel, memory_order_relaxed);
}

/* ---- The list ----------------------------------------------------------- */

/* The kernel looks at it when this very thread has died, so it is enough that
 * the compiler keeps the order.
 */
#define in_order() atomic_signal_fence(memory_order_seq_cst)

static void list_pending(thread_t *thread, word_t *word)
{
    in_order();
    *(struct robust_list *volatile *)&thread->head->list_op_pending =
        word ? &word->entry : NULL;
    in_order();
}

/* The entry before which another one has its link back; the last bit says that
 * it is of a mutex with priority inheritance.
 */
static void **list_link_back(struct robust_list *entry)
{
    return (void **)((char *)entry - ((uintptr_t)entry & 1)) - 1;
}

static void list_add(thread_t *thread, word_t *word)
{
    struct robust_list_head *head = thread->head;
    struct robust_list *next = head->list.next;

    word->entry.next = next;
    word->previous = &head->list;
    in_order();
    if (next != &head->list) {
        *list_link_back(next) = &word->entry;
    }
    head->list.next = &word->entry;
}

static void list_remove(thread_t *thread, word_t *word)
{
    struct robust_list *next = word->entry.next;

    if (next != &thread->head->list) {
        *list_link_back(next) = word->previous;
    }
    ((struct robust_list *)word->previous)->next = next;
}

/* ---- A word ------------------------------------------------------------- */

/* What it becomes when the thread takes it. */
static pair_t word_taken(pair_t id, pair_t from)
{
    pair_t waiters = from & QUEUE ? FUTEX_WAITERS : from & FUTEX_WAITERS;

    return (from & TURNS & ~QUEUE) | waiters | id;
}

/* Take it if nobody has it; from is what it may be, and then what it was. */
static int word_take(word_t *word, pair_t id, pair_t *from)
{
    while (!OWNER(*from)) {
        if (word_change(word, from, word_taken(id, *from))) {
            return 1;
        }
    }
    return 0;
}

/* Sleep, if it is still as it was seen.  0: look again. */
static apr_status_t word_sleep(word_t *word, pair_t seen,
                               const struct timespec *limit)
{
    const pair_t marked = seen | FUTEX_WAITERS;

    if (marked != seen && !word_change(word, &seen, marked)) {
        return APR_SUCCESS;
    }
    if (syscall(SYS_futex, &word->pair, FUTEX_WAIT, WORD(marked), limit) == 0
        || errno == EAGAIN) {
        return APR_SUCCESS;
    }
    return errno == ETIMEDOUT ? EINTR : errno;
}

static apr_status_t word_wait(word_t *word, pair_t id, pair_t *from,
                              const struct timespec *limit)
{
    apr_status_t rv;

    while (!word_take(word, id, from)) {
        rv = word_sleep(word, *from, limit);
        if (rv != APR_SUCCESS) {
            return rv;
        }
        *from = word_load(word);
    }
    return APR_SUCCESS;
}

/* Wake one; if nobody sleeps and nobody has had a turn since, say so. */
static void word_wake(word_t *word, pair_t released)
{
    if (syscall(SYS_futex, &word->pair, FUTEX_WAKE, 1) == 0) {
        word_change(word, &released, released & ~QUEUE);
    }
}

/* Give it up; held is what it may be.  Returns what it was left as. */
static pair_t word_release(word_t *word, thread_t *thread, pair_t held)
{
    pair_t released;

    list_pending(thread, word);
    list_remove(thread, word);
    in_order();
    do {
        released = held & TURNS;
        if (held & FUTEX_WAITERS) {
            released = (released + ONE_TURN) | QUEUE;
        }
    } while (!word_change(word, &held, released));
    if (released & QUEUE) {
        word_wake(word, released);
    }
    list_pending(thread, NULL);
    return released;
}

/* ---- The lock ----------------------------------------------------------- */

static int futex_has_waiters(shared_t *shared)
{
    const pair_t front = word_load(&shared->front);

    return WORD(front) || front & QUEUE;
}

/* Take the lock as soon as it is free, while nobody else waits: if it is held
 * for long, somebody is asleep.
 */
static int futex_spin(self_t *lock, thread_t *thread, pair_t *from)
{
    shared_t *shared = lock->shared;
    int i;

    for (i = 0; i < lock->looks && !futex_has_waiters(shared); i++) {
        accept_lock_pause(i);
        *from = word_load(&shared->lock);
        if (word_take(&shared->lock, thread->id, from)) {
            return 1;
        }
    }
    return 0;
}

/* Wait for the front, and there for the lock; from is what it was then. */
static apr_status_t futex_wait(self_t *lock, thread_t *thread, pair_t *from)
{
    shared_t *shared = lock->shared;
    word_t *front = &shared->front;
    pair_t seen = word_load(front);
    apr_status_t rv;

    list_pending(thread, front);
    rv = word_wait(front, thread->id, &seen, &lock->limit);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    list_add(thread, front);
    list_pending(thread, &shared->lock);
    *from = word_load(&shared->lock);
    rv = word_wait(&shared->lock, thread->id, from, &lock->limit);
    if (rv != APR_SUCCESS) {
        word_release(front, thread, word_load(front));
    }
    return rv;
}

/* As a call, once: else the compiler looks for it at each use. */
static __attribute__((noinline)) thread_t *futex_thread(void)
{
    return &this_thread;
}

static apr_status_t futex_get(self_t *lock, int may_wait, unsigned *how)
{
    thread_t *thread = futex_thread();
    word_t *word = &lock->shared->lock;
    pair_t from = lock->left;
    int has_front = 0;
    apr_status_t rv = APR_SUCCESS;

    if (!thread->id && (rv = futex_know_thread(thread)) != APR_SUCCESS) {
        return rv;
    }
    list_pending(thread, word);
    if (!word_take(word, thread->id, &from)) {
        *how |= ACCEPT_LOCK_WAITED;
        if (!may_wait) {
            rv = APR_EBUSY;
        }
        else if (!futex_spin(lock, thread, &from)) {
            rv = futex_wait(lock, thread, &from);
            has_front = rv == APR_SUCCESS;
        }
    }
    if (rv == APR_SUCCESS) {
        if (from & FUTEX_OWNER_DIED) {
            *how |= ACCEPT_LOCK_RECOVERED;
        }
        lock->thread = thread;
        lock->left = word_taken(thread->id, from);
        lock->has_front = has_front;
        list_add(thread, word);
    }
    list_pending(thread, NULL);
    return rv;
}

static apr_status_t futex_acquire(void *self, unsigned *how)
{
    return futex_get(self, 1, how);
}

static apr_status_t futex_try_acquire(void *self, unsigned *how)
{
    return futex_get(self, 0, how);
}

static apr_status_t futex_release(void *self)
{
    self_t *lock = self;
    thread_t *thread = lock->thread;
    word_t *front = &lock->shared->front;
    const int has_front = lock->has_front;

    lock->left = word_release(&lock->shared->lock, thread, lock->left);
    if (has_front) {
        word_release(front, thread, word_load(front));
    }
    return APR_SUCCESS;
}

/* ---- The rest ----------------------------------------------------------- */

static void futex_no_stop(self_t *lock)
{
    lock->limit.tv_sec = INT_MAX;
    lock->limit.tv_nsec = 0;
}

static apr_status_t futex_create(void **self, const char **error,
                                 const char *argument, apr_pool_t *pool)
{
    self_t *made = apr_pcalloc(pool, sizeof(*made));
    void *memory;
    apr_status_t rv;

    rv = accept_lock_no_argument(error, "futex", argument, pool);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    rv = IS_SUPPORTED ? futex_know_thread(&this_thread) : APR_ENOTIMPL;
    if (rv != APR_SUCCESS) {
        return accept_lock_failed(error, rv, "libc's list of robust mutexes",
                                  pool);
    }
    rv = accept_lock_memory(&memory, error, sizeof(shared_t), pool);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    made->shared = memory;
    made->looks = accept_lock_looks();
    futex_no_stop(made);
    *self = made;
    return APR_SUCCESS;
}

static apr_status_t futex_child_init(void *self)
{
    futex_no_stop(self);
    return futex_know_thread(&this_thread);
}

static pid_t futex_holder(void *self)
{
    return (pid_t)OWNER(word_load(&((self_t *)self)->shared->lock));
}

static void futex_stop(void *self)
{
    *(volatile time_t *)&((self_t *)self)->limit.tv_sec = 0;
}

const accept_lock_provider_t accept_lock_futex = {
    .name = "futex",
    .description = "lock words of its own, recovered by the kernel",
    .capabilities = ACCEPT_LOCK_ROBUST | ACCEPT_LOCK_INTERRUPTIBLE,
    .create = futex_create,
    .child_init = futex_child_init,
    .acquire = futex_acquire,
    .try_acquire = futex_try_acquire,
    .release = futex_release,
    .holder = futex_holder,
    .stop = futex_stop,
};
