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

#include <pthread.h>
#include <string.h>

#include "section.h"
#include "stats.h"

__thread sigdefer_section_t sigdefer_section
    __attribute__((tls_model("initial-exec"), visibility("default")));

__thread thread_t section_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

static stats_t own_stats; /* until there is another place */
stats_t *stats = &own_stats;

/* Leaves without an enter, of any thread, that no call has told of yet. */
static atomic_uint untold;

int section_depth(void)
{
    return *(volatile int *)&sigdefer_section.depth;
}

int section_is_pending(void)
{
    return *(volatile int *)&sigdefer_section.pending;
}

void section_set_pending(int pending)
{
    *(volatile int *)&sigdefer_section.pending = pending;
}

ptrdiff_t sigdefer_section_offset(void)
{
    return (char *)&sigdefer_section - sigdefer_thread_pointer();
}

void section_restart_in_child(void)
{
    stats_restart_in_child();
    queue_pool_reset();
    section_thread.queue = NULL;
    section_thread.ringing = 0;
    section_thread.replaying = 0;
    section_set_pending(0);
    if (section_thread.blocked) {
        sigset_t blocked;

        sigemptyset(&blocked);
        os_set_add(&blocked, section_thread.blocked);
        section_thread.blocked = 0;
        pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
    }
}

void sigdefer_leave_slow(void)
{
    if (section_depth() < 0) {
        sigdefer_section.depth = 0;
        stats_count(unpaired_leaves);
        atomic_fetch_add(&untold, 1);
    }
    if (section_depth() == 0 && section_is_pending()) {
        section_replay();
    }
}

void sigdefer_restore(sigdefer_mark_t mark)
{
    sigdefer_section.depth = mark.depth;
    section_thread.ringing = 0;
    SIGDEFER_BARRIER();
    sigdefer_leave_slow();
}

/* The counters may be on a page that nothing else of a request touches. */
SIGDEFER_HOT static unsigned untold_unpaired_leaves(void)
{
    return atomic_load_explicit(&untold, memory_order_relaxed) == 0
               ? 0
               : atomic_exchange(&untold, 0);
}

SIGDEFER_HOT int sigdefer_close_sections(unsigned *unpaired)
{
    sigdefer_mark_t outside = { 0 };
    int depth = section_depth();

    *unpaired = untold_unpaired_leaves();
    if (depth > 0) {
        stats_add(open_sections, (uint64_t)depth);
    }
    section_thread.running = 0;
    if (depth > 0 || section_is_pending()) {
        sigdefer_restore(outside);
    }
    return depth;
}

int sigdefer_pending(sigset_t *set)
{
    sigdefer_set_t queued = 0;
    unsigned count = 0;

    if (section_thread.queue) {
        count = queue_count(section_thread.queue, &queued);
    }
    if (set) {
        sigemptyset(set);
        os_set_add(set, queued);
    }
    return (int)count;
}

void stats_place(stats_t *where)
{
    stats = where;
}

void stats_restart_in_child(void)
{
    if (stats != &own_stats) {
        memcpy(&own_stats, stats, sizeof(own_stats));
        stats = &own_stats;
    }
}

void sigdefer_stats(sigdefer_stats_t *out)
{
#define READ(counter) out->counter = stats_read(counter)
    READ(direct);
    READ(deferred);
    READ(replayed);
    READ(merged);
    READ(ignored);
    READ(handed_back);
    READ(overflows);
    READ(lost);
    READ(unpaired_leaves);
    READ(open_sections);
    READ(adopted);
    READ(reaped);
    READ(longest_ns);
#undef READ
}

void ap_block_alarms(void)
{
    sigdefer_enter();
}

void ap_unblock_alarms(void)
{
    sigdefer_leave();
}
