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

#include "apr_shm.h"
#include "ap_mpm.h"
#include "http_log.h"

#include "hold/hold.h"

APLOG_USE_MODULE(sigdefer);

#define BOARD_KEY "mod_sigdefer_board"

/* Made once and never freed: children of older generations still write to it
 * after a restart.
 */
typedef struct {
    hold_notice_t *notices;
    int slots;
} board_t;

static board_t *board;

apr_status_t hold_board_create(server_rec *s)
{
    apr_shm_t *shm;
    apr_status_t rv;
    int slots;

    board = ap_retained_data_get(BOARD_KEY);
    if (!board) {
        board = ap_retained_data_create(BOARD_KEY, sizeof(*board));
    }
    if (board->notices) {
        return APR_SUCCESS;
    }
    rv = ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &slots);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    rv = apr_shm_create(&shm, slots * sizeof(hold_notice_t), NULL,
                        s->process->pool);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    board->notices = apr_shm_baseaddr_get(shm);
    memset(board->notices, 0, slots * sizeof(hold_notice_t));
    board->slots = slots;
    return APR_SUCCESS;
}

hold_notice_t *hold_board_notice(int slot)
{
    if (!board || !board->notices || slot < 0 || slot >= board->slots) {
        return NULL;
    }
    return &board->notices[slot];
}

static void report(server_rec *s, hold_notice_t *notice)
{
    if (notice->depth > 0) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                     "sigdefer: hold time of %d s is over, child %" APR_PID_T_FMT
                     " is inside a critical section (depth %d) and goes on",
                     notice->hold_seconds, notice->pid, notice->depth);
    }
    else if (notice->method[0]) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                     "sigdefer: hold time of %d s is over, child %" APR_PID_T_FMT
                     " ends \"%s %s\" after %d s",
                     notice->hold_seconds, notice->pid, notice->method,
                     notice->path, notice->age_seconds);
    }
    else {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                     "sigdefer: hold time of %d s is over, child %" APR_PID_T_FMT
                     " ends a connection without a request",
                     notice->hold_seconds, notice->pid);
    }
    notice->pid = 0;
}

void hold_board_report(server_rec *s, int slot)
{
    int i;

    for (i = 0; board && board->notices && i < board->slots; i++) {
        if ((slot == -1 || slot == i) && board->notices[i].pid != 0) {
            report(s, &board->notices[i]);
        }
    }
}
