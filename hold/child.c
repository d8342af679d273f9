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

/* prefork's child ends its loop by ordinary code when shutdown_pending is set
 * in its copy of the MPM's retained data, and its STOPPING state makes httpd
 * answer with "Connection: close".  So a terminating signal sets both, and
 * what remains is to see that the loop is turned:
 *
 * - A child that waits for a connection is woken by the timer's signal, which
 *   is not restarted, again and again until it has left: a signal that came
 *   between the loop's test and its wait would be slept through.  (A child
 *   that waits for the accept mutex cannot be woken, and leaves when it has
 *   got the mutex.)
 * - A child on an idle keep-alive connection has its socket shut down for
 *   reading.  What the client has sent by then is still read and answered.
 * - A child that serves is left alone: the timer is set to the deadline.
 *
 * At the deadline the code that the timer interrupts may be anywhere, so only
 * what is AS-safe is done: no hooks, no pool cleanups, no exit().
 */

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "apr_portable.h"
#include "ap_mpm.h"
#include "mpm_common.h"
#include "unixd.h"

#include "hold/hold.h"
#include "sigdefer/engine.h"

#define WAKE_MS 10             /* between two attempts to wake the child */
#define SECTION_MS 100         /* at the deadline, inside a section: between
                                * two looks whether it has been left */

/* Of this process; all but the volatile ones r/o after hold_child_init(). */
static struct {
    pid_t pid;                 /* a program that it has forked does not hold;
                                * 0 there, and before hold_child_init() */
    int seconds;
    timer_t timer;
    ap_unixd_mpm_retained_data *mpm;

    volatile sig_atomic_t noted;       /* by the handler: the first signal */
    volatile sig_atomic_t serving;     /* by the loop: a connection is open */
    volatile sig_atomic_t leaving;     /* by the loop: it has ended */
    volatile sig_atomic_t fd;          /* by the loop: the connection */
    volatile sig_atomic_t slot;        /* by the loop: in the scoreboard */
    uint64_t deadline;                 /* ms; by the handler, with noted */
    const request_rec *volatile request;
    worker_score *volatile score;      /* by the loop: of this child */
} hold;

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static void set_timer(uint64_t first_ms, uint64_t interval_ms)
{
    struct itimerspec when;

    when.it_value.tv_sec = (time_t)(first_ms / 1000);
    when.it_value.tv_nsec = (long)(first_ms % 1000) * 1000000;
    when.it_interval.tv_sec = (time_t)(interval_ms / 1000);
    when.it_interval.tv_nsec = (long)(interval_ms % 1000) * 1000000;
    timer_settime(hold.timer, 0, &when, NULL);
}

static void set_timer_to_deadline(void)
{
    uint64_t now = now_ms();

    set_timer(hold.deadline > now ? hold.deadline - now : 1, SECTION_MS);
}

/* Between the response and the next request.  A request line that has been
 * read has changed the state.
 */
static int is_idle_keepalive(void)
{
    return hold.serving && hold.score
           && hold.score->status == SERVER_BUSY_KEEPALIVE;
}

/* See that the child looks at what has been noted. */
static void wake(void)
{
    if (hold.leaving || (hold.serving && !is_idle_keepalive())) {
        set_timer_to_deadline();
        return;
    }
    if (hold.serving) {
        shutdown(hold.fd, SHUT_RD);
    }
    set_timer(1, WAKE_MS);
}

static int note_signal(int signo)
{
    if (getpid() != hold.pid) {
        return 0;
    }
    if (!hold.noted) {
        hold.deadline = now_ms() + (uint64_t)hold.seconds * 1000u;
        hold.noted = signo;
        hold.mpm->mpm_state = AP_MPMQ_STOPPING;
        hold.mpm->shutdown_pending = 1;
        wake();
    }
    return 1;
}

static void copy(char *to, size_t size, const char *from)
{
    while (--size > 0 && *from) {
        *to++ = *from++;
    }
    *to = '\0';
}

static void leave_notice(int depth)
{
    hold_notice_t *notice = hold_board_notice(hold.slot);
    const request_rec *r = hold.request;

    if (!notice || !hold.serving) {
        return;
    }
    notice->hold_seconds = hold.seconds;
    notice->depth = depth;
    notice->method[0] = '\0';
    if (r && r->method && r->uri) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        notice->age_seconds = (int)(now.tv_sec
                                    - apr_time_sec(r->request_time));
        copy(notice->method, sizeof(notice->method), r->method);
        copy(notice->path, sizeof(notice->path), r->uri);
    }
    notice->pid = hold.pid;
}

static void on_timer(int signo)
{
    static volatile sig_atomic_t told_of_section;
    int saved_errno = errno;

    (void)signo;
    if (getpid() != hold.pid || !hold.noted) {
        /* a forked child has no timer; somebody else's signal, then */
    }
    else if (now_ms() < hold.deadline) {
        wake();
    }
    else if (sigdefer_depth() > 0) {
        if (!told_of_section) {
            told_of_section = 1;
            leave_notice(sigdefer_depth());
        }
    }
    else {
        leave_notice(0);
        if (hold.serving) {
            shutdown(hold.fd, SHUT_RDWR);
        }
        _exit(0);
    }
    errno = saved_errno;
}

static apr_status_t connection_ended(void *unused)
{
    (void)unused;
    hold.request = NULL;
    hold.serving = 0;
    if (hold.noted) {
        /* it may have come after the loop's test */
        wake();
    }
    return APR_SUCCESS;
}

void hold_connection(apr_pool_t *p, apr_socket_t *csd, int slot)
{
    apr_os_sock_t fd;

    if (hold.pid == 0 || apr_os_sock_get(&fd, csd) != APR_SUCCESS) {
        return;
    }
    hold.fd = fd;
    hold.slot = slot;
    hold.score = ap_get_scoreboard_worker_from_indexes(slot, 0);
    hold.serving = 1;
    apr_pool_cleanup_register(p, NULL, connection_ended,
                              apr_pool_cleanup_null);
}

void hold_request(const request_rec *r)
{
    hold.request = r;
}

void hold_before_close(conn_rec *c)
{
    if (hold.noted) {
        apr_table_setn(c->notes, "short-lingering-close", "1");
    }
}

/* The MPM's loop has ended, for whatever reason. */
static apr_status_t child_leaves(void *unused)
{
    (void)unused;
    hold.leaving = 1;
    if (hold.noted) {
        set_timer_to_deadline();
        sigdefer_call_adopted(hold.noted);
    }
    return APR_SUCCESS;
}

static void forked(void)
{
    hold.pid = 0;
}

/* The highest real-time signal that nobody uses. */
static int unused_signal(void)
{
    struct sigaction found;
    int signo;

    for (signo = SIGRTMAX; signo >= SIGRTMIN; signo--) {
        if (sigaction(signo, NULL, &found) == 0
            && found.sa_handler == SIG_DFL) {
            return signo;
        }
    }
    return 0;
}

apr_status_t hold_child_init(apr_pool_t *pchild, int seconds)
{
    struct sigaction act;
    struct sigevent event;
    int signo = unused_signal();
    apr_status_t rv;

    memset(&act, 0, sizeof(act));
    memset(&event, 0, sizeof(event));
    sigemptyset(&act.sa_mask);
    act.sa_handler = on_timer;
    act.sa_flags = SA_ONSTACK;
    event.sigev_signo = signo;
#ifdef SIGEV_THREAD_ID
    /* only the main thread waits for connections */
    event.sigev_notify = SIGEV_THREAD_ID;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
#else
    event.sigev_notify = SIGEV_SIGNAL;
#endif
    if (signo == 0) {
        return APR_EAGAIN;
    }
    if (timer_create(CLOCK_MONOTONIC, &event, &hold.timer) != 0
        || sigaction(signo, &act, NULL) != 0) {
        return errno;
    }
    rv = pthread_atfork(NULL, NULL, forked);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    hold.pid = getpid();
    hold.seconds = seconds;
    hold.mpm = ap_unixd_mpm_get_retained_data();
    sigdefer_guard(SIGDEFER_BIT(SIGTERM) | SIGDEFER_BIT(SIGHUP), note_signal);
    apr_pool_pre_cleanup_register(pchild, NULL, child_leaves);
    return APR_SUCCESS;
}
