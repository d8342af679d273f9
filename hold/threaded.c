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

/* What is bound of worker and event.
 *
 * TERM: their children's main thread takes it for itself after child_init, and
 * until the next connection the deadline would pass unnoticed.  Here our
 * handler stays in front.
 *
 * The listener thread wakes the main thread with it, when it has served enough,
 * out of a read() from the pipe of death.  If it comes before the read, which
 * it does where a child has little to serve, nobody wakes the main thread any
 * more: the child lasts until it is killed.  Here TERM is let in only while the
 * main thread waits.
 *
 * event drops what a child has accepted when it is told to go.  A connection
 * waits in a queue for a worker thread, and is counted once the thread has it.
 * From the moment at which the child is told, a thread that is about to look
 * into the queue ends instead if there are more threads than counted
 * connections.  So all of them can end while connections are queued, and those
 * are reset.  Here the child is told once nothing is queued: accepting stops
 * first, and what has been accepted is waited for until it is counted.
 */

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "apr_portable.h"
#include "apr_signal.h"
#include "httpd.h"
#include "http_config.h"
#include "http_log.h"
#include "mpm_common.h"
#include "unixd.h"

#include "hold/hold.h"
#include "mpm/bind.h"
#include "mpm/exclusive.h"
#include "sigdefer/engine.h"

#define LOOK_MS 1
#define PATIENCE_MS 2000 /* for a connection that nobody will begin */

/* Accepted, or being accepted, and not begun.  Incremented by the listener
 * thread before it reads is_closed, which is set before the main thread reads
 * this: so either a connection is waited for, or it is not accepted.
 */
static atomic_int unbegun;
static atomic_int is_closed;
static int counts_unbegun;

static volatile sig_atomic_t is_termed; /* since the main thread has looked */

static apr_sigfunc_t *(*stock_signal)(int, apr_sigfunc_t *);

/* apr_signal() */
static apr_sigfunc_t *bound_signal(int signo, apr_sigfunc_t *handler)
{
    struct sigaction act;
    struct sigaction old;

    if (!(sigdefer_managed() & SIGDEFER_BIT(signo))) {
        return stock_signal(signo, handler);
    }
    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_handler = handler;
    return sigdefer_sigaction(signo, &act, &old) == 0 ? old.sa_handler
                                                      : SIG_ERR;
}

/* ap_unixd_accept(), as event's listener thread calls it. */
static apr_status_t bound_accept(void **accepted, ap_listen_rec *lr,
                                 apr_pool_t *ptrans)
{
    apr_status_t rv = APR_EAGAIN;
    int listener;

    *accepted = NULL;
    atomic_fetch_add(&unbegun, 1);
    if (!atomic_load(&is_closed)) {
        rv = ap_unixd_accept(accepted, lr, ptrans);
    }
    else if (apr_os_sock_get(&listener, lr->sd) == APR_SUCCESS) {
        exclusive_pass_on(listener);
    }
    if (!*accepted) {
        atomic_fetch_sub(&unbegun, 1);
    }
    return rv;
}

SIGDEFER_HOT void hold_threaded_begun(const conn_rec *c)
{
    /* not one of HTTP/2's streams, nor one to a backend, which has no place
     * on the scoreboard
     */
    if (counts_unbegun && !c->master && c->sbh) {
        atomic_fetch_sub(&unbegun, 1);
    }
}

void hold_threaded_termed(void)
{
    is_termed = 1;
}

/* Until TERM comes, or has come since the last time, or there is something to
 * read.  Returns whether there is.
 */
static int await(ap_pod_t *pod)
{
    struct pollfd pipe_end = { .events = POLLIN };
    sigset_t term;
    sigset_t before;
    int rv = 0;

    apr_os_file_get(&pipe_end.fd, pod->pod_in);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, &before);
    if (!is_termed) {
        rv = ppoll(&pipe_end, 1, NULL, &before);
    }
    is_termed = 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rv > 0;
}

/* ap_mpm_podx_check(), as the main thread calls it. */
static int bound_podx_check(ap_pod_t *pod)
{
    int told = await(pod) ? ap_mpm_podx_check(pod) : AP_MPM_PODX_NORESTART;

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

/* Where one fails, the next may do. */
static void bind_mpm(server_rec *s, const module *mpm, const char *name,
                     void *replacement, const char *consequence)
{
    apr_status_t rv = bind_import(mpm, name, replacement);

    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, s,
                     "sigdefer: S040: %s() of the MPM cannot be bound: %s",
                     name, consequence);
    }
}

void hold_threaded_init(server_rec *s)
{
    const module *worker = ap_find_linked_module("worker.c");
    const module *event = ap_find_linked_module("event.c");
    const module *mpm = worker ? worker : event;

    counts_unbegun = event != NULL;
    stock_signal = (apr_sigfunc_t * (*)(int, apr_sigfunc_t *))
        bind_original("apr_signal");
    if (!mpm || !stock_signal) {
        return;
    }
    bind_mpm(
        s, mpm, "apr_signal", (void *)bound_signal,
        "a child that has just begun overlooks the deadline, and is killed");
    bind_mpm(s, mpm, "ap_mpm_podx_check", (void *)bound_podx_check,
             "a child that has served enough may stay until the deadline");
    if (event) {
        bind_mpm(
            s, mpm, "ap_unixd_accept", (void *)bound_accept,
            "a child may reset connections that it has just accepted when it "
            "goes");
    }
}
