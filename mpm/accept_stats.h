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
 * @file mpm/accept_stats.h
 * @brief What a child counts of its accept lock.
 *
 * One thread of a child takes the lock, and it alone writes: a store of what it
 * has loaded and raised does, without a locked instruction.  Others read at any
 * moment; nothing depends on the order.
 *
 *     uint64_t begun = accept_stats_clock();
 *     ... take the lock ...
 *     accept_stats_acquired(here, begun, waited, recovered);
 *     ... accept ...
 *     accept_stats_released(here);                    before it is released
 */

#ifndef SIGDEFER_MPM_ACCEPT_STATS_H
#define SIGDEFER_MPM_ACCEPT_STATS_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* Times in powers of two: bucket 0 has what took less than 1024 ns, bucket n
 * less than 1024 << n, the last one all the rest, 17 s and more.
 */
#define ACCEPT_STATS_BUCKETS 25
#define ACCEPT_STATS_FIRST 10

typedef struct {
    _Atomic uint64_t buckets[ACCEPT_STATS_BUCKETS];
    _Atomic uint64_t total_ns;
} accept_times_t;

typedef struct {
    _Atomic uint64_t acquired;
    _Atomic uint64_t contended; /* of these, with a wait */
    _Atomic uint64_t recovered; /* of these, after the death of the holder */
    accept_times_t wait;        /* of the contended ones */
    accept_times_t hold;
    _Atomic uint64_t since; /* holds it: accept_stats_clock() then; else 0 */
} accept_stats_t;

/** Nanoseconds, CLOCK_MONOTONIC.  AS-safe. */
static inline uint64_t accept_stats_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void accept_stats_add(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, now + n, memory_order_relaxed);
}

static inline void accept_stats_time(accept_times_t *times, uint64_t ns)
{
    int bucket = 0;

    while (bucket < ACCEPT_STATS_BUCKETS - 1
           && ns >> (ACCEPT_STATS_FIRST + bucket) != 0) {
        bucket++;
    }
    accept_stats_add(&times->buckets[bucket], 1);
    accept_stats_add(&times->total_ns, ns);
}

/**
 * The lock has been taken.
 * @param begun accept_stats_clock() before
 * @param waited whether it was not free: ACCEPT_LOCK_WAITED
 * @param recovered whether its holder had died: ACCEPT_LOCK_RECOVERED
 */
static inline void accept_stats_acquired(accept_stats_t *here, uint64_t begun,
                                         unsigned waited, unsigned recovered)
{
    uint64_t now = accept_stats_clock();

    accept_stats_add(&here->acquired, 1);
    if (waited) {
        accept_stats_add(&here->contended, 1);
        accept_stats_time(&here->wait, now - begun);
    }
    if (recovered) {
        accept_stats_add(&here->recovered, 1);
    }
    atomic_store_explicit(&here->since, now, memory_order_relaxed);
}

/** It is about to be released: later, another one might hold it as well. */
static inline void accept_stats_released(accept_stats_t *here)
{
    uint64_t since = atomic_load_explicit(&here->since, memory_order_relaxed);

    accept_stats_time(&here->hold, accept_stats_clock() - since);
    atomic_store_explicit(&here->since, 0, memory_order_relaxed);
}

#endif /* SIGDEFER_MPM_ACCEPT_STATS_H */
