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
 * @file sigdefer/stats.h
 * @brief The counters of the process.  All but stats_place() is AS-safe.
 */

#ifndef SIGDEFER_STATS_H
#define SIGDEFER_STATS_H

#include <stdatomic.h>

#include "engine.h"

#define STATS_SIGNALS 64 /* as a sigdefer_set_t has */

/* Of one signal.  One that is given back to the kernel is received again. */
typedef struct {
    _Atomic uint64_t received;
    _Atomic uint64_t deferred; /* queued inside a section */
    _Atomic uint64_t held;     /* dealt with by the guard */
    _Atomic uint64_t run;      /* its action has been called */
} stats_signal_t;

/* Written anywhere, read by sigdefer_stats() and by the host, maybe in another
 * process.  Nothing depends on their order to each other, so all accesses are
 * relaxed.
 */
typedef struct {
    _Atomic uint64_t direct;
    _Atomic uint64_t deferred;
    _Atomic uint64_t replayed;
    _Atomic uint64_t merged;
    _Atomic uint64_t ignored;
    _Atomic uint64_t handed_back;
    _Atomic uint64_t overflows;
    _Atomic uint64_t lost;
    _Atomic uint64_t unpaired_leaves;
    _Atomic uint64_t open_sections;
    _Atomic uint64_t adopted;
    _Atomic uint64_t reaped;
    _Atomic uint64_t longest_ns;    /* of a deferral */
    _Atomic uint64_t total_ns;      /* of all deferrals */
    _Atomic uint64_t queue_highest; /* most that were queued in a thread */
    stats_signal_t signals[STATS_SIGNALS]; /* signal n is [n - 1] */
} stats_t;

/* Changed before there are threads, and in the child of a fork. */
extern stats_t *stats;

/**
 * Count there from now on.
 * @param where lasts as long as the process; counted on as it is
 *
 * Not MT-safe, not AS-safe.  A forked child counts for itself.
 */
void stats_place(stats_t *where);

/**
 * In the child of a fork: go on from the parent's figures, but not in what may
 * be shared with the parent.
 */
void stats_restart_in_child(void);

#define stats_add(counter, n) \
    ((void)atomic_fetch_add_explicit(&stats->counter, (n), \
                                     memory_order_relaxed))
#define stats_count(counter) stats_add(counter, 1)
#define stats_count_signal(signo, counter) \
    stats_count(signals[(signo)-1].counter)
#define stats_read(counter) \
    atomic_load_explicit(&stats->counter, memory_order_relaxed)

static inline void stats_raise(_Atomic uint64_t *highest, uint64_t value)
{
    uint64_t before = atomic_load_explicit(highest, memory_order_relaxed);

    while (value > before
           && !atomic_compare_exchange_weak(highest, &before, value)) {
        /* another thread has raised it; look again */
    }
}

#endif /* SIGDEFER_STATS_H */
