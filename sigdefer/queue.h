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

/**
 * @file sigdefer/queue.h
 * @brief The signals that wait for a thread to leave its section.
 *
 * A queue belongs to one thread.  Handlers of that thread push, and may
 * interrupt each other in the middle of a push; pops happen outside of
 * sections only, so that no pop ever meets a push half done.  Queues come
 * from a mapping made beforehand and are claimed without a lock.
 */

#ifndef SIGDEFER_QUEUE_H
#define SIGDEFER_QUEUE_H

#include <stdatomic.h>

#include "os.h"

/* From HIGH on the kernel is asked to keep what comes.  What is above is for
 * handlers that interrupt each other: each blocks its own signal, so that no
 * more than 64 can be in a push at once.
 */
#define QUEUE_SIZE 128
#define QUEUE_HIGH 64

typedef struct {
    atomic_uint ready; /* 1 + the index pushed, when all is filled in;
                        * 0 when it has been taken out */
    siginfo_t info;
    int turn;         /* an action_turn_e: whose it is */
    uint64_t arrived; /* ns, CLOCK_MONOTONIC */
} queue_entry_t;

/* head and tail count up for ever, entry i is entries[i % QUEUE_SIZE].  Only
 * the owner's handlers and the owner write; atomic for the sake of handlers
 * that interrupt handlers, so every order is relaxed.
 */
typedef struct {
    atomic_int owner; /* thread id, 0: free */
    atomic_uint head; /* next to pop */
    atomic_uint tail; /* next to push */
    queue_entry_t entries[QUEUE_SIZE];
} queue_t;

/**
 * Map the queues of this process.
 * @return 0 or ENOMEM
 */
int queue_pool_init(void);

/**
 * Forget everything that was queued: for the child of a fork.  AS-safe.
 */
void queue_pool_reset(void);

/**
 * Claim a queue for the calling thread; it keeps it until it ends.  AS-safe.
 * @return NULL if all are taken by living threads
 */
queue_t *queue_claim(void);

/**
 * Give back a queue into which nothing has been pushed.  AS-safe.
 */
void queue_release(queue_t *queue);

/**
 * Put a copy of a siginfo at the end.  AS-safe.
 * @return 0: full
 */
int queue_push(queue_t *queue, const siginfo_t *info, int turn);

/**
 * Whether a timer tick of this signal is queued already.  AS-safe.
 */
int queue_has_tick(queue_t *queue, const siginfo_t *info);

/**
 * Copy the first entry of a signal in the set, or copy it and take it out.
 * Outside of sections only.
 * @return 0: there is none
 */
int queue_peek(queue_t *queue, sigdefer_set_t set, queue_entry_t *entry);
int queue_pop(queue_t *queue, sigdefer_set_t set, queue_entry_t *entry);

/**
 * How many are queued; which, if set is not NULL.  AS-safe.
 */
unsigned queue_count(queue_t *queue, sigdefer_set_t *set);

/**
 * Give what ended threads left queued back to the process.
 */
void queue_hand_on(void);

uint64_t queue_clock(void);

#endif /* SIGDEFER_QUEUE_H */
