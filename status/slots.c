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

#include <sched.h>
#include <unistd.h>

#include "apr_shm.h"
#include "ap_mpm.h"
#include "http_config.h"
#include "http_log.h"

#include "mpm/accept.h"
#include "status/slots.h"

APLOG_USE_MODULE(sigdefer);

#define SLOTS_KEY "mod_sigdefer_slots"

/* A child of the new generation for each, while the old one still serves. */
#define GENERATIONS 2

/* A parent that is killed while it folds never ends it. */
#define READ_TURNS 1000

#define LINE 64 /* of the cache */

/* Counters are added up as an array of words. */
_Static_assert(sizeof(stats_t) % sizeof(uint64_t) == 0
                   && sizeof(accept_stats_t) % sizeof(uint64_t) == 0,
               "statistics are made of 64-bit counters");

/* No two children write to one line. */
typedef struct {
    _Alignas(LINE) status_child_t child;
} slot_t;

/* In shared memory.  By the parent but for the slots, used and is_full. */
typedef struct {
    atomic_uint folds; /* odd: under way */
    apr_time_t started;
    _Atomic uint64_t restarts;
    _Atomic uint64_t ended;
    atomic_uint taken; /* samples, ever */
    status_sample_t samples[STATUS_SAMPLES];
    status_child_t total; /* of the children that have gone */
    atomic_int used;      /* slots from the first one on that ever had a
                          * child; what is beyond is untouched memory */
    atomic_int is_full;   /* and it has been said */
    slot_t slots[];
} memory_t;

/* Never freed: children of older generations still write to it after a
 * restart.
 */
typedef struct {
    memory_t *memory;
    int count;
} retained_t;

static retained_t *retained;

apr_status_t status_slots_create(server_rec *s)
{
    apr_shm_t *shm;
    apr_status_t rv;
    char *base;
    int count;

    retained = ap_retained_data_get(SLOTS_KEY);
    if (!retained) {
        retained = ap_retained_data_create(SLOTS_KEY, sizeof(*retained));
    }
    if (retained->memory) {
        atomic_fetch_add(&retained->memory->restarts, 1);
        return APR_SUCCESS;
    }
    rv = ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &count);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    count *= GENERATIONS;
    /* it comes zeroed, and takes no memory before it is written to */
    rv = apr_shm_create(&shm, LINE + sizeof(memory_t) + count * sizeof(slot_t),
                        NULL, s->process->pool);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    base = apr_shm_baseaddr_get(shm);
    base += LINE - (uintptr_t)base % LINE;
    retained->memory = (memory_t *)base;
    retained->memory->started = apr_time_now();
    retained->count = count;
    return APR_SUCCESS;
}

static memory_t *memory(void)
{
    return retained ? retained->memory : NULL;
}

/* ---- The child ---------------------------------------------------------- */

static status_child_t *claim(memory_t *all)
{
    int used = atomic_load(&all->used);
    int i;

    for (i = 0; i < retained->count; i++) {
        pid_t none = 0;

        if (!atomic_compare_exchange_strong(&all->slots[i].child.pid, &none,
                                            getpid())
            && none != getpid()) {
            continue; /* with -X it is ours from before a restart */
        }
        while (used <= i
               && !atomic_compare_exchange_weak(&all->used, &used, i + 1)) {
            /* another child has raised it; look again */
        }
        return &all->slots[i].child;
    }
    return NULL;
}

void status_slots_claim(server_rec *s)
{
    memory_t *all = memory();
    status_child_t *slot;
    int generation = 0;

    if (!all) {
        return;
    }
    slot = claim(all);
    if (!slot) {
        if (!atomic_exchange(&all->is_full, 1)) {
            ap_log_error(
                APLOG_MARK, APLOG_WARNING, 0, s,
                "sigdefer: S061: no room for the statistics of all children");
        }
        return;
    }
    ap_mpm_query(AP_MPMQ_GENERATION, &generation);
    atomic_store(&slot->generation, generation);
    atomic_store(&slot->started, apr_time_now());
    stats_place(&slot->engine);
    accept_count(&slot->accept);
}

/* ---- The parent --------------------------------------------------------- */

static void add_words(void *to, const void *from, size_t size)
{
    _Atomic uint64_t *sum = to;
    const _Atomic uint64_t *more = from;
    size_t i;

    for (i = 0; i < size / sizeof(uint64_t); i++) {
        uint64_t word = atomic_load_explicit(&more[i], memory_order_relaxed);

        if (word != 0) {
            accept_stats_add(&sum[i], word);
        }
    }
}

/* Those that are no sums are put right afterwards. */
static void add(status_child_t *sum, const status_child_t *more)
{
    uint64_t longest = sum->engine.longest_ns;
    uint64_t highest = sum->engine.queue_highest;

    add_words(&sum->engine, &more->engine, sizeof(sum->engine));
    sum->engine.longest_ns = longest;
    sum->engine.queue_highest = highest;
    stats_raise(&sum->engine.longest_ns, more->engine.longest_ns);
    stats_raise(&sum->engine.queue_highest, more->engine.queue_highest);
    add_words(&sum->accept, &more->accept, sizeof(sum->accept));
    sum->accept.since = 0;
}

void status_slots_fold(pid_t pid)
{
    memory_t *all = memory();
    int i;

    for (i = 0; all && i < atomic_load(&all->used); i++) {
        status_child_t *slot = &all->slots[i].child;

        if (atomic_load(&slot->pid) == pid) {
            atomic_fetch_add(&all->folds, 1);
            add(&all->total, slot);
            atomic_fetch_add(&all->ended, 1);
            memset(&slot->engine, 0, sizeof(slot->engine));
            memset(&slot->accept, 0, sizeof(slot->accept));
            atomic_store(&slot->started, 0);
            atomic_store(&slot->pid, 0);
            atomic_fetch_add(&all->folds, 1);
            return;
        }
    }
}

static uint64_t received(const stats_t *stats_of)
{
    uint64_t sum = 0;
    int i;

    for (i = 0; i < STATS_SIGNALS; i++) {
        sum += stats_of->signals[i].received;
    }
    return sum;
}

void status_slots_sample(void)
{
    memory_t *all = memory();
    unsigned taken = all ? atomic_load(&all->taken) : 0;
    apr_time_t now = apr_time_now();
    status_sample_t *sample;
    int i;

    if (!all
        || (taken > 0
            && now - all->samples[(taken - 1) % STATUS_SAMPLES].when
                   < apr_time_from_sec(STATUS_SAMPLE_SECONDS))) {
        return;
    }
    sample = &all->samples[taken % STATUS_SAMPLES];
    sample->received = received(&all->total.engine);
    sample->deferred = all->total.engine.deferred;
    for (i = 0; i < atomic_load(&all->used); i++) {
        const stats_t *engine = &all->slots[i].child.engine;

        sample->received += received(engine);
        sample->deferred += engine->deferred;
    }
    sample->when = now;
    atomic_store(&all->taken, taken + 1);
}

/* ---- Readers ------------------------------------------------------------ */

static void read_once(status_snapshot_t *snapshot, const memory_t *all,
                      int used)
{
    int i;

    snapshot->ended = all->ended;
    snapshot->restarts = all->restarts;
    memset(&snapshot->total, 0, sizeof(snapshot->total));
    add(&snapshot->total, &all->total);
    apr_array_clear(snapshot->children);
    for (i = 0; i < used; i++) {
        const status_child_t *slot = &all->slots[i].child;

        if (atomic_load(&slot->pid) != 0) {
            status_child_t *child = apr_array_push(snapshot->children);

            memset(child, 0, sizeof(*child));
            child->pid = slot->pid;
            child->generation = slot->generation;
            child->started = slot->started;
            add(child, slot);
            child->accept.since = slot->accept.since;
            add(&snapshot->total, child);
        }
    }
}

static void read_samples(status_snapshot_t *snapshot, const memory_t *all)
{
    unsigned taken = atomic_load(&all->taken);
    unsigned i = taken > STATUS_SAMPLES ? taken - STATUS_SAMPLES : 0;

    for (; i < taken; i++) {
        status_sample_t *sample = apr_array_push(snapshot->samples);

        memcpy(sample, &all->samples[i % STATUS_SAMPLES], sizeof(*sample));
    }
}

void status_slots_read(status_snapshot_t *snapshot, apr_pool_t *p)
{
    const memory_t *all = memory();
    unsigned before;
    int used;
    int turn = 0;

    memset(snapshot, 0, sizeof(*snapshot));
    used = all ? atomic_load(&all->used) : 0;
    snapshot->children = apr_array_make(p, used + 1, sizeof(status_child_t));
    snapshot->samples = apr_array_make(p, STATUS_SAMPLES,
                                       sizeof(status_sample_t));
    if (!all) {
        return;
    }
    snapshot->is_there = 1;
    snapshot->started = all->started;
    do {
        while ((before = atomic_load(&all->folds)) % 2 != 0
               && turn++ < READ_TURNS) {
            sched_yield();
        }
        read_once(snapshot, all, used);
        atomic_thread_fence(memory_order_acquire);
    } while (atomic_load(&all->folds) != before && turn++ < READ_TURNS);
    read_samples(snapshot, all);
}
