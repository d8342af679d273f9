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

#include <time.h>
#include <unistd.h>

#include "apr_shm.h"
#include "ap_mpm.h"
#include "http_log.h"

#include "hold/hold.h"
#include "mpm/retained.h"

APLOG_USE_MODULE(sigdefer);

#define BOARD_KEY "mod_sigdefer_board"

/* A child of the new generation for each, while the old one still serves. */
#define GENERATIONS 2

/* Made once and never freed: children of older generations still write to it
 * after a restart.
 */
typedef struct {
    hold_counts_t *counts; /* by the parent */
    hold_entry_t *entries;
    int count;
} board_t;

static board_t *board;

static struct timespec time_of(uint64_t ms)
{
    struct timespec time;

    time.tv_sec = (time_t)(ms / 1000);
    time.tv_nsec = (long)(ms % 1000) * 1000000;
    return time;
}

void hold_set_timer(timer_t timer, uint64_t first_ms, uint64_t interval_ms)
{
    struct itimerspec when;

    when.it_value = time_of(first_ms);
    when.it_interval = time_of(interval_ms);
    timer_settime(timer, 0, &when, NULL);
}

apr_status_t hold_board_create(server_rec *s)
{
    apr_shm_t *shm;
    apr_status_t rv;
    int count;

    board = retained_data(BOARD_KEY, sizeof(*board));
    if (board->entries) {
        return APR_SUCCESS;
    }
    rv = ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &count);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    count *= GENERATIONS;
    rv = apr_shm_create(&shm,
                        sizeof(hold_counts_t) + count * sizeof(hold_entry_t),
                        NULL, s->process->pool);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    board->counts = apr_shm_baseaddr_get(shm);
    memset(board->counts, 0, apr_shm_size_get(shm));
    board->entries = (hold_entry_t *)(board->counts + 1);
    board->count = count;
    return APR_SUCCESS;
}

hold_entry_t *hold_board_entries(int *count)
{
    *count = board ? board->count : 0;
    return board ? board->entries : NULL;
}

const hold_counts_t *hold_board_counts(void)
{
    return board ? board->counts : NULL;
}

void hold_board_held(hold_entry_t *entry)
{
    uint64_t not_yet = 0;

    atomic_compare_exchange_strong(&entry->held, &not_yet, hold_clock());
}

hold_entry_t *hold_board_find(pid_t pid)
{
    int i;

    for (i = 0; board && i < board->count; i++) {
        if (atomic_load(&board->entries[i].pid) == pid) {
            return &board->entries[i];
        }
    }
    return NULL;
}

hold_entry_t *hold_board_claim(void)
{
    int i;

    for (i = 0; board && i < board->count; i++) {
        pid_t none = 0;

        if (atomic_compare_exchange_strong(&board->entries[i].pid, &none,
                                           getpid())) {
            return &board->entries[i];
        }
    }
    return NULL;
}

static void count_gone(const hold_entry_t *entry)
{
    uint64_t since = atomic_load(&entry->held);
    uint64_t ms = hold_clock() - since;

    if (atomic_load(&entry->killed)) {
        atomic_fetch_add(&board->counts->killed, 1);
    }
    if (since == 0) {
        return;
    }
    atomic_fetch_add(&board->counts->held, 1);
    atomic_fetch_add(&board->counts->total_ms, ms);
    if (ms > atomic_load(&board->counts->longest_ms)) {
        atomic_store(&board->counts->longest_ms, ms);
    }
}

void hold_board_free(server_rec *s, pid_t pid)
{
    hold_entry_t *entry = hold_board_find(pid);

    if (entry) {
        if (atomic_load(&entry->killed)) {
            ap_log_error(APLOG_MARK, APLOG_ERR, 0, s,
                         "sigdefer: S020: child %" APR_PID_T_FMT
                         " did not end at "
                         "its deadline and was killed",
                         pid);
        }
        count_gone(entry);
        atomic_store(&entry->held, 0);
        atomic_store(&entry->state, HOLD_WAITING);
        atomic_store(&entry->asked, 0);
        atomic_store(&entry->deadline, 0);
        atomic_store(&entry->noticed, 0);
        atomic_store(&entry->killed, 0);
        atomic_store(&entry->pid, 0);
    }
}

static void report(server_rec *s, const hold_entry_t *entry, int hold_seconds)
{
    pid_t pid = atomic_load(&entry->pid);
    int i;

    if (entry->depth > 0) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                     "sigdefer: S021: hold time is over, child %" APR_PID_T_FMT
                     " is inside a critical section (depth %d) and goes on",
                     pid, entry->depth);
        return;
    }
    atomic_fetch_add(&board->counts->cut, entry->cut);
    for (i = 0; i < entry->cut && i < HOLD_NAMED; i++) {
        const hold_request_t *request = &entry->requests[i];

        ap_log_error(
            APLOG_MARK, APLOG_WARNING, 0, s,
            "sigdefer: S022: hold time of %d s is over, child %" APR_PID_T_FMT
            " ends \"%s %s\" after %d s",
            hold_seconds, pid, request->method, request->path,
            request->age_seconds);
    }
    if (entry->cut > HOLD_NAMED) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                     "sigdefer: S023: and %d more of child %" APR_PID_T_FMT,
                     entry->cut - HOLD_NAMED, pid);
    }
    if (entry->cut == 0) {
        ap_log_error(
            APLOG_MARK, APLOG_INFO, 0, s,
            "sigdefer: S024: hold time of %d s is over, child %" APR_PID_T_FMT
            " ends without a request",
            hold_seconds, pid);
    }
}

void hold_board_report(server_rec *s, int hold_seconds)
{
    int i;

    for (i = 0; board && i < board->count; i++) {
        if (atomic_load(&board->entries[i].noticed)) {
            report(s, &board->entries[i], hold_seconds);
            atomic_store(&board->entries[i].noticed, 0);
        }
    }
}
