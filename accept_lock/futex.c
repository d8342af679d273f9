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

/* A lock word of our own, in the format of the kernel's robust futexes.
 *
 * The word and a count of turns form one pair, which is always changed as a
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
 * Invariants:
 *   1. Whoever sleeps, has slept on a word with WAITERS, and until he is awake
 *      WAITERS or QUEUE is set.  They are taken away in one place, by a
 *      release that has found nobody to wake, if no turn has been taken since:
 *      it compares the turns, since the word may have come back to 0.
 *   2. If it is free and somebody sleeps, somebody is awake who will take it
 *      or wake one: who releases, or who has been woken.  If he dies before,
 *      the kernel does it for him.
 *   3. list_op_pending names the lock from before the word can become ours
 *      until it is in the list, and from before it leaves the list until the
 *      word has been given up and the next one woken.
 * A word of 0 with QUEUE beside it, instead of WAITERS alone, is what lets all
 * kernels since 5.5 do the second: they look for 0.  Two deaths in a row, of
 * the owner and then of the one woken for it, need 6.2; these fixes are in the
 * stable kernels since 2020 and 2023.
 *
 * model/futex.pml has the same steps; keep them together.
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

/* Before it sleeps, if nobody else does, it looks that often again, after so
 * many pauses, which double each time: some microseconds, less than it costs
 * to sleep and be woken.  A lock that is held for long has somebody asleep.
 * Looking more often slows down the one that has the lock.
 */
#define LOOKS 5
#define FIRST_PAUSE 16

/* In shared memory.  The links are addresses in the process that holds the
 * lock, written by it and by libc in it; to all others they mean nothing.
 */
typedef struct {
    _Atomic pair_t pair;
    void *unused[2];
    void *previous;           /* libc has its own there: before the entry */
    struct robust_list entry; /* the kernel's; the next one */
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
} self_t;

#if defined(SYS_futex) && __SIZEOF_POINTER__ == 8 \
    && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define IS_SUPPORTED 1
_Static_assert((int)offsetof(shared_t, pair) - (int)offsetof(shared_t, entry)
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

static pair_t futex_load(shared_t *shared)
{
    return atomic_load_explicit(&shared->pair, memory_order_relaxed);
}

/* Acquire and release at once: taking must not let the section's accesses out
 * before it, giving up must not let them out behind it.
 */
static int futex_change(shared_t *shared, pair_t *from, pair_t to)
{
    return atomic_compare_exchange_strong_explicit(
        &shared->pair, from, to, memory_order_acq_rel, memory_order_relaxed);
}

/* ---- The list ----------------------------------------------------------- */

/* The kernel looks at it when this very thread has died, so it is enough that
 * the compiler keeps the order.
 */
#define in_order() atomic_signal_fence(memory_order_seq_cst)

static void futex_pending(thread_t *thread, struct robust_list *entry)
{
    in_order();
    *(struct robust_list *volatile *)&thread->head->list_op_pending = entry;
    in_order();
}

/* The entry before which another one has its link back; the last bit says that
 * it is of a mutex with priority inheritance.
 */
static void **futex_link_back(struct robust_list *entry)
{
    return (void **)((char *)entry - ((uintptr_t)entry & 1)) - 1;
}

static void futex_link(thread_t *thread, shared_t *shared)
{
    struct robust_list_head *head = thread->head;
    struct robust_list *next = head->list.next;

    shared->entry.next = next;
    shared->previous = &head->list;
    in_order();
    if (next != &head->list) {
        *futex_link_back(next) = &shared->entry;
    }
    head->list.next = &shared->entry;
}

static void futex_unlink(thread_t *thread, shared_t *shared)
{
    struct robust_list *next = shared->entry.next;

    if (next != &thread->head->list) {
        *futex_link_back(next) = shared->previous;
    }
    ((struct robust_list *)shared->previous)->next = next;
}

/* ---- The lock ----------------------------------------------------------- */

/* Take it if nobody has it; from is what it may be, and then what it was. */
static int futex_take(self_t *lock, thread_t *thread, pair_t *from)
{
    while (!OWNER(*from)) {
        pair_t waiters = *from & QUEUE ? FUTEX_WAITERS : *from & FUTEX_WAITERS;
        pair_t taken = (*from & TURNS & ~QUEUE) | waiters | thread->id;

        if (futex_change(lock->shared, from, taken)) {
            lock->left = taken;
            return 1;
        }
    }
    return 0;
}

static void futex_pause(int times)
{
    while (times-- > 0) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

/* The same, for as long as it may soon be free. */
static int futex_spin(self_t *lock, thread_t *thread, pair_t *from)
{
    int i;

    for (i = 0; i < lock->looks && !(*from & FUTEX_WAITERS); i++) {
        futex_pause(FIRST_PAUSE << i);
        *from = futex_load(lock->shared);
        if (futex_take(lock, thread, from)) {
            return 1;
        }
    }
    return 0;
}

/* Sleep, if it is still as it was seen.  0: look again. */
static apr_status_t futex_sleep(self_t *lock, pair_t seen)
{
    const pair_t marked = seen | FUTEX_WAITERS;

    if (marked != seen && !futex_change(lock->shared, &seen, marked)) {
        return APR_SUCCESS;
    }
    if (syscall(SYS_futex, &lock->shared->pair, FUTEX_WAIT, WORD(marked),
                &lock->limit)
            == 0
        || errno == EAGAIN) {
        return APR_SUCCESS;
    }
    return errno == ETIMEDOUT ? EINTR : errno;
}

static apr_status_t futex_wait(self_t *lock, thread_t *thread, pair_t *from)
{
    apr_status_t rv;

    if (futex_spin(lock, thread, from)) {
        return APR_SUCCESS;
    }
    do {
        rv = futex_sleep(lock, *from);
        if (rv != APR_SUCCESS) {
            return rv;
        }
        *from = futex_load(lock->shared);
    } while (!futex_take(lock, thread, from));
    return APR_SUCCESS;
}

/* As a call, once: else the compiler looks for it at each use. */
static __attribute__((noinline)) thread_t *futex_thread(void)
{
    return &this_thread;
}

static apr_status_t futex_get(self_t *lock, int may_wait, unsigned *how)
{
    thread_t *thread = futex_thread();
    shared_t *shared = lock->shared;
    pair_t from = lock->left;
    apr_status_t rv = APR_SUCCESS;

    if (!thread->id && (rv = futex_know_thread(thread)) != APR_SUCCESS) {
        return rv;
    }
    futex_pending(thread, &shared->entry);
    if (!futex_take(lock, thread, &from)) {
        *how |= ACCEPT_LOCK_WAITED;
        rv = may_wait ? futex_wait(lock, thread, &from) : APR_EBUSY;
    }
    if (rv == APR_SUCCESS) {
        if (from & FUTEX_OWNER_DIED) {
            *how |= ACCEPT_LOCK_RECOVERED;
        }
        lock->thread = thread;
        futex_link(thread, shared);
    }
    futex_pending(thread, NULL);
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

/* Wake one; if nobody sleeps and nobody has had a turn since, say so. */
static void futex_wake(shared_t *shared, pair_t released)
{
    if (syscall(SYS_futex, &shared->pair, FUTEX_WAKE, 1) == 0) {
        futex_change(shared, &released, released & ~QUEUE);
    }
}

static apr_status_t futex_release(void *self)
{
    self_t *lock = self;
    thread_t *thread = lock->thread;
    shared_t *shared = lock->shared;
    pair_t held = lock->left;
    pair_t released;

    futex_pending(thread, &shared->entry);
    futex_unlink(thread, shared);
    in_order();
    do {
        released = held & TURNS;
        if (held & FUTEX_WAITERS) {
            released = (released + ONE_TURN) | QUEUE;
        }
    } while (!futex_change(shared, &held, released));
    lock->left = released;
    if (released & QUEUE) {
        futex_wake(shared, released);
    }
    futex_pending(thread, NULL);
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
    made->looks = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? LOOKS : 0;
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
    return (pid_t)OWNER(futex_load(((self_t *)self)->shared));
}

static void futex_stop(void *self)
{
    *(volatile time_t *)&((self_t *)self)->limit.tv_sec = 0;
}

const accept_lock_provider_t accept_lock_futex = {
    .name = "futex",
    .description = "a lock word of its own, recovered by the kernel",
    .capabilities = ACCEPT_LOCK_ROBUST | ACCEPT_LOCK_INTERRUPTIBLE,
    .create = futex_create,
    .child_init = futex_child_init,
    .acquire = futex_acquire,
    .try_acquire = futex_try_acquire,
    .release = futex_release,
    .holder = futex_holder,
    .stop = futex_stop,
};
