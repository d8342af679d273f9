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

#include <sys/mman.h>
#include <time.h>

#include "queue.h"
#include "stats.h"

/* A queue is needed by a thread that was hit inside a section; more threads
 * than this are never hit at the same time, and if they are, the kernel keeps
 * the signals.  Only the pages of claimed queues take memory.
 */
#define POOL_SIZE 256

#define ALL_SIGNALS (~(sigdefer_set_t)0)

static queue_t *pool;      /* r/o after queue_pool_init() */
static atomic_int claimed; /* queues from pool[0] on that ever had an
                            * owner; what is beyond is untouched memory */

#define load(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define store(word, value) \
    atomic_store_explicit(&(word), (value), memory_order_relaxed)

int queue_pool_init(void)
{
    void *memory;

    if (pool) {
        return 0;
    }
    memory = mmap(NULL, POOL_SIZE * sizeof(queue_t), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return ENOMEM;
    }
    pool = memory;
    return 0;
}

void queue_pool_reset(void)
{
    int i;

    for (i = 0; i < load(claimed); i++) {
        store(pool[i].owner, 0);
        store(pool[i].head, load(pool[i].tail));
    }
    store(claimed, 0);
}

/* Take a queue whose owner is the one given, 0 or a thread that has ended. */
static int take(queue_t *queue, int owner, pid_t self)
{
    return atomic_compare_exchange_strong(&queue->owner, &owner, self);
}

queue_t *queue_claim(void)
{
    pid_t self = os_thread_id();
    int known = load(claimed);
    int i;

    for (i = 0; i < POOL_SIZE; i++) {
        if (take(&pool[i], 0, self)) {
            while (known <= i
                   && !atomic_compare_exchange_weak(&claimed, &known, i + 1)) {
                /* another thread has raised it; look again */
            }
            return &pool[i];
        }
    }
    for (i = 0; i < POOL_SIZE; i++) {
        int owner = load(pool[i].owner);

        if (queue_count(&pool[i], NULL) == 0 && !os_thread_lives(owner)
            && take(&pool[i], owner, self)) {
            return &pool[i];
        }
    }
    return NULL;
}

void queue_release(queue_t *queue)
{
    store(queue->owner, 0);
}

uint64_t queue_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* If a signal arrives between the reservation and ready, its handler reserves
 * the next entry and is done before we go on.  If a handler jumps out of our
 * frame there, the entry is never ready, and the pop skips it.
 */
int queue_push(queue_t *queue, const siginfo_t *info, int turn)
{
    unsigned index = load(queue->tail);
    queue_entry_t *entry;

    do {
        if (index - load(queue->head) >= QUEUE_SIZE) {
            return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &queue->tail, &index, index + 1, memory_order_relaxed,
        memory_order_relaxed));
    entry = &queue->entries[index % QUEUE_SIZE];
    entry->info = *info;
    entry->turn = turn;
    entry->arrived = queue_clock();
    atomic_signal_fence(memory_order_release);
    store(entry->ready, index + 1);
    return 1;
}

/* A tick of an interval timer says no more than that one is due. */
static int is_tick(const siginfo_t *info)
{
#ifdef SI_KERNEL
    if (info->si_code == SI_KERNEL) {
        return info->si_signo < SIGRTMIN;
    }
#endif
    return info->si_signo < SIGRTMIN && info->si_code == SI_TIMER;
}

int queue_has_tick(queue_t *queue, const siginfo_t *info)
{
    unsigned i;

    if (!is_tick(info)) {
        return 0;
    }
    for (i = load(queue->head); i != load(queue->tail); i++) {
        const queue_entry_t *entry = &queue->entries[i % QUEUE_SIZE];

        if (load(entry->ready) == i + 1 && is_tick(&entry->info)
            && entry->info.si_signo == info->si_signo) {
            return 1;
        }
    }
    return 0;
}

/* Copy first and take then: a handler that interrupts us outside of a section
 * may empty the queue, and a later one may fill the entry again, but never
 * with the same index.
 */
static int find(queue_t *queue, sigdefer_set_t set, queue_entry_t *copy,
                int take_it)
{
    unsigned i;

    for (i = load(queue->head); i != load(queue->tail); i++) {
        queue_entry_t *entry = &queue->entries[i % QUEUE_SIZE];
        unsigned ready = i + 1;

        if (load(entry->ready) != ready) {
            continue;
        }
        atomic_signal_fence(memory_order_acquire);
        copy->info = entry->info;
        copy->turn = entry->turn;
        copy->arrived = entry->arrived;
        if ((set & SIGDEFER_BIT(copy->info.si_signo))
            && (!take_it
                || atomic_compare_exchange_strong(&entry->ready, &ready, 0))) {
            return 1;
        }
    }
    return 0;
}

int queue_peek(queue_t *queue, sigdefer_set_t set, queue_entry_t *entry)
{
    return find(queue, set, entry, 0);
}

int queue_pop(queue_t *queue, sigdefer_set_t set, queue_entry_t *entry)
{
    int found = find(queue, set, entry, 1);
    unsigned head = load(queue->head);

    while (head != load(queue->tail)
           && load(queue->entries[head % QUEUE_SIZE].ready) != head + 1) {
        if (atomic_compare_exchange_strong(&queue->head, &head, head + 1)) {
            head++;
        }
    }
    return found;
}

unsigned queue_count(queue_t *queue, sigdefer_set_t *set)
{
    unsigned count = 0;
    unsigned i;

    if (set) {
        *set = 0;
    }
    for (i = load(queue->head); i != load(queue->tail); i++) {
        const queue_entry_t *entry = &queue->entries[i % QUEUE_SIZE];

        if (load(entry->ready) == i + 1) {
            count++;
            if (set) {
                *set |= SIGDEFER_BIT(entry->info.si_signo);
            }
        }
    }
    return count;
}

/* A thread may end inside a section; nobody leaves it, then.  That is rare
 * enough to be looked for rather than noticed.
 */
SIGDEFER_HOT void queue_hand_on(void)
{
    int known = load(claimed);
    int i;

    for (i = 0; i < known; i++) {
        queue_t *queue = &pool[i];
        int owner = load(queue->owner);
        queue_entry_t entry;

        if (owner == 0 || queue_count(queue, NULL) == 0
            || os_thread_lives(owner) || !take(queue, owner, os_thread_id())) {
            continue;
        }
        while (queue_peek(queue, ALL_SIGNALS, &entry)
               && os_resend_to_process(&entry.info) == 0) {
            queue_pop(queue, ALL_SIGNALS, &entry);
            stats_count(handed_back);
        }
        store(queue->owner, queue_count(queue, NULL) == 0 ? 0 : owner);
    }
}
