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

/* What a child of event has accepted is not dropped when it is told to go.
 *
 * A connection waits in a queue for a worker thread, and is counted once the
 * thread has it.  From the moment at which the child is told, a thread that
 * is about to look into the queue ends instead if there are more threads than
 * counted connections.  So all of them can end while connections are queued,
 * and those are reset.
 *
 * Here the child is told once nothing is queued: accepting stops first, and
 * what has been accepted is waited for until it is counted.
 */

#include <stdatomic.h>
#include <time.h>

#include "mpm_common.h"
#include "unixd.h"

#include "hold/hold.h"
#include "mpm/bind.h"
#include "sigdefer/engine.h"

#define LOOK_MS 1
#define PATIENCE_MS 2000 /* for a connection that nobody will begin */

/* Accepted, or being accepted, and not begun.  Incremented by the listener
 * thread before it reads is_closed, which is set before the main thread reads
 * this: so either a connection is waited for, or it is not accepted.
 */
static atomic_int unbegun;
static atomic_int is_closed;
static int is_bound;

/* ap_unixd_accept(), as the listener thread calls it. */
static apr_status_t bound_accept(void **accepted, ap_listen_rec *lr,
                                 apr_pool_t *ptrans)
{
    apr_status_t rv = APR_EAGAIN;

    *accepted = NULL;
    atomic_fetch_add(&unbegun, 1);
    if (!atomic_load(&is_closed)) {
        rv = ap_unixd_accept(accepted, lr, ptrans);
    }
    if (!*accepted) {
        atomic_fetch_sub(&unbegun, 1);
    }
    return rv;
}

SIGDEFER_HOT void hold_event_begun(const conn_rec *c)
{
    /* not one of HTTP/2's streams, nor one to a backend, which has no place
     * on the scoreboard
     */
    if (is_bound && !c->master && c->sbh) {
        atomic_fetch_sub(&unbegun, 1);
    }
}

/* ap_mpm_podx_check(), as the main thread calls it. */
static int bound_podx_check(ap_pod_t *pod)
{
    int told = ap_mpm_podx_check(pod);

    if (told == AP_MPM_PODX_GRACEFUL) {
        const struct timespec pause = { 0, LOOK_MS * 1000000L };
        uint64_t until = hold_clock() + PATIENCE_MS;

        atomic_store(&is_closed, 1);
        while (atomic_load(&unbegun) > 0 && hold_clock() < until) {
            nanosleep(&pause, NULL);
        }
    }
    return told;
}

apr_status_t hold_event_init(void)
{
    const module *event = ap_find_linked_module("event.c");
    apr_status_t rv;

    is_bound = 0;
    if (!event) {
        return APR_SUCCESS;
    }
    rv = bind_import(event, "ap_unixd_accept", (void *)bound_accept);
    if (rv == APR_SUCCESS) {
        is_bound = 1;
        rv = bind_import(event, "ap_mpm_podx_check", (void *)bound_podx_check);
    }
    return rv;
}
