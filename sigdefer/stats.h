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
 * @brief The counters of the process.  Everything here is AS-safe.
 */

#ifndef SIGDEFER_STATS_H
#define SIGDEFER_STATS_H

#include <stdatomic.h>

#include "engine.h"

/* Written anywhere, read by sigdefer_stats().  Nothing depends on their order
 * to each other, so all accesses are relaxed.
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
    _Atomic uint64_t longest_ns;
} stats_t;

extern stats_t stats;

#define stats_add(counter, n) \
    ((void)atomic_fetch_add_explicit(&stats.counter, (n), memory_order_relaxed))
#define stats_count(counter) stats_add(counter, 1)
#define stats_read(counter) \
    atomic_load_explicit(&stats.counter, memory_order_relaxed)

static inline void stats_longest(uint64_t ns)
{
    uint64_t longest = stats_read(longest_ns);

    while (ns > longest
           && !atomic_compare_exchange_weak(&stats.longest_ns, &longest, ns)) {
        /* another thread has raised it; look again */
    }
}

#endif /* SIGDEFER_STATS_H */
