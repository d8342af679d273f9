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
 * in its copy of the MPM's retained data.  So a terminating signal sets it, and
 * what remains is to see that the loop is turned:
 *
 * - A child that waits for a connection is woken by the timer's signal, which
 *   is not restarted, again and again until it has left: a signal that came
 *   between the loop's test and its wait would be slept through.  If it waits
 *   for the accept lock, that is given up, see mpm/accept.c.
 * - A child on an idle keep-alive connection has its socket shut down for
 *   reading.  What the client has sent by then is still read and answered.
 * - A child that serves is left alone: the timer is set to the deadline.
 *
 * The parent sends no signal to a child that serves.  It asks on the board,
 * and the child looks there when it has served.
 *
 * The children of threaded MPMs leave by ordinary code already, when the
 * parent tells them to; here they have a deadline only, which the parent
 * keeps as long as there is one.
 *
 * At the deadline the code that the signal interrupts may be anywhere, so only
 * what is AS-safe is done: no hooks, no pool cleanups, no exit().
 */

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "apr_portable.h"
#include "apr_strings.h"
#include "ap_listen.h"
#include "ap_mpm.h"
#include "http_config.h"
#include "http_connection.h"
#include "http_core.h"
#include "mpm_common.h"
#include "unixd.h"

#include "hold/hold.h"
#include "mpm/accept.h"
#include "mpm/bind.h"
#include "sigdefer/engine.h"

extern module AP_MODULE_DECLARE_DATA sigdefer_module;

#define WAKE_MS 10 /* between two attempts to wake the child */

/* At the deadline, inside a section: between two looks whether it is left. */
#define SECTION_MS 100

#define MAX_THREADS 1024
#define MAX_REQUESTS 256 /* that can be named in the log */

/* If there is no board: what it says to the parent, nobody reads. */
static hold_entry_t unread;

/* Of this process; all but the volatile ones r/o after hold_child_init(). */
static struct {
    pid_t parent; /* another one now: it is gone */
    int null_fd;  /* takes the place of the listeners then */
    pid_t pid;    /* a program that it has forked does not hold;
                   * 0 there, and before hold_child_init() */
    int is_threaded;
    int seconds;
    timer_t timer;
    pthread_key_t thread_key;
    ap_unixd_mpm_retained_data *mpm;
    hold_entry_t *entry;

    volatile sig_atomic_t noted;   /* by the handler: the first signal */
    volatile sig_atomic_t leaving; /* by the loop: it has ended */
    apr_socket_t *volatile csd;    /* by the loop: the connection */

    /* Those that are being served, to be named at the deadline: requests[],
     * or in prefork the one read last.  A request is taken off before its
     * memory goes, and if they are being read just then, it stays until that
     * is over.
     */
    _Atomic(request_rec *) *requests;
    int request_count;
    _Atomic(request_rec *) request;
    atomic_int reading_requests;
    volatile uint64_t deadline; /* by the handler, before noted; 0: none
                                 */
} hold = { .entry = &unread };

/* Of a threaded MPM's child. */
static _Atomic(request_rec *) requests[MAX_REQUESTS];
static _Atomic(sigdefer_section_t *) threads[MAX_THREADS];

static void set_timer_to_deadline(void)
{
    uint64_t now = hold_clock();

    if (hold.deadline == 0) {
        hold_set_timer(hold.timer, 0, 0);
    }
    else {
        hold_set_timer(hold.timer,
                       hold.deadline > now ? hold.deadline - now : 1,
                       SECTION_MS);
    }
}

static int fd_of(apr_socket_t *csd)
{
    apr_os_sock_t fd;

    return csd && apr_os_sock_get(&fd, csd) == APR_SUCCESS ? fd : -1;
}

static int state(void)
{
    return atomic_load(&hold.entry->state);
}

/* See that the child looks at what has been noted. */
static void wake(void)
{
    if (hold.leaving || state() == HOLD_SERVING) {
        set_timer_to_deadline();
        return;
    }
    if (state() == HOLD_IDLE) {
        shutdown(fd_of(hold.csd), SHUT_RD);
    }
    hold_set_timer(hold.timer, 1, WAKE_MS);
}

/* The parent is gone; the next one needs the ports.  The descriptors stay
 * valid, as they will be closed once more.
 */
static void leave_listeners(void)
{
    ap_listen_rec *lr;

    for (lr = ap_listeners; lr && hold.null_fd >= 0; lr = lr->next) {
        if (lr->sd) {
            dup2(hold.null_fd, fd_of(lr->sd));
        }
    }
}

static uint64_t own_deadline(void)
{
    return hold_clock() + (uint64_t)hold.seconds * 1000u;
}

/* One that the parent has asked to go has the parent's deadline, or none; an
 * orphan has one of its own.
 */
static void note(int signo)
{
    int is_orphan = getppid() != hold.parent;
    int asked = atomic_load(&hold.entry->asked);
    uint64_t deadline = atomic_load(&hold.entry->deadline);

    if (deadline == 0 && (is_orphan || !asked)) {
        deadline = own_deadline();
    }
    if (is_orphan) {
        leave_listeners();
    }
    if (state() == HOLD_SERVING) {
        hold_board_held(hold.entry);
    }
    hold.deadline = deadline;
    hold.noted = asked ? asked : signo;
    hold.mpm->shutdown_pending = 1;
    accept_stop();
}

/* ---- The deadline ------------------------------------------------------- */

static int deepest_section(void)
{
    int deepest = sigdefer_depth();
    int i;

    for (i = 0; i < MAX_THREADS; i++) {
        const sigdefer_section_t *section = atomic_load(&threads[i]);

        if (section && section->depth > deepest) {
            deepest = section->depth;
        }
    }
    return deepest;
}

static void name_request(hold_request_t *named, const request_rec *r)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    named->age_seconds = (int)(now.tv_sec - apr_time_sec(r->request_time));
    apr_cpystrn(named->method, r->method, sizeof(named->method));
    apr_cpystrn(named->path, r->uri ? r->uri : "", sizeof(named->path));
}

/* What is served when this is called is cut, unless a section goes on. */
static void leave_notice(int depth)
{
    hold_entry_t *entry = hold.entry;
    int i;

    entry->depth = depth;
    entry->cut = 0;
    for (i = 0; i < hold.request_count; i++) {
        const request_rec *r = atomic_load(&hold.requests[i]);

        if (!r) {
            continue;
        }
        if (entry->cut < HOLD_NAMED) {
            name_request(&entry->requests[entry->cut], r);
        }
        entry->cut++;
    }
    atomic_store(&entry->noticed, 1);
}

/* A program that a request has started may have the connection, too. */
static void shut_connections_down(void)
{
    int i;

    for (i = 0; i < hold.request_count; i++) {
        const request_rec *r = atomic_load(&hold.requests[i]);

        if (r) {
            shutdown(fd_of(ap_get_conn_socket(r->connection)), SHUT_RDWR);
        }
    }
}

static void at_deadline(void)
{
    static volatile sig_atomic_t told_of_section;
    int depth = deepest_section();

    if (depth > 0 && told_of_section) {
        return;
    }
    atomic_fetch_add(&hold.reading_requests, 1);
    if (depth > 0) {
        told_of_section = 1;
        leave_notice(depth);
        atomic_fetch_sub(&hold.reading_requests, 1);
        return;
    }
    if (hold.is_threaded || state() == HOLD_SERVING) {
        leave_notice(0);
    }
    shut_connections_down();
    hold_end_programs();
    _exit(0);
}

static int is_past(uint64_t deadline)
{
    return deadline != 0 && hold_clock() >= deadline;
}

/* An orphan has nobody who keeps its deadline. */
static void keep_own_deadline(void)
{
    if (hold.deadline == 0 && getppid() != hold.parent) {
        hold.deadline = own_deadline();
        set_timer_to_deadline();
    }
}

static int note_signal(int signo)
{
    if (getpid() != hold.pid) {
        return 0;
    }
    if (is_past(atomic_load(&hold.entry->deadline)) || is_past(hold.deadline)) {
        at_deadline();
        return 1;
    }
    if (hold.is_threaded) {
        keep_own_deadline();
        hold_threaded_termed();
        return 0;
    }
    if (!hold.noted) {
        note(signo);
        wake();
    }
    return 1;
}

static void on_timer(int signo)
{
    int saved_errno = errno;

    (void)signo;
    if (getpid() != hold.pid || !hold.noted) {
        /* a forked child has no timer; somebody else's signal, then */
    }
    else if (is_past(hold.deadline)) {
        at_deadline();
    }
    else {
        wake();
    }
    errno = saved_errno;
}

/* ---- Connections and requests ------------------------------------------- */

/* If the parent asks before this, we see it; after, it sees that we wait.  What
 * has been noted meanwhile may have come after the loop's test.
 */
SIGDEFER_HOT static void go_to(hold_state_e new_state)
{
    atomic_store(&hold.entry->state, new_state);
    if (!hold.noted && atomic_load(&hold.entry->asked)) {
        note(SIGTERM);
    }
    if (hold.noted) {
        wake();
    }
}

/* The parent may still see that we wait, and signal us: our handler knows
 * better.
 */
static void serve(void)
{
    atomic_store_explicit(&hold.entry->state, HOLD_SERVING,
                          memory_order_relaxed);
    if (hold.noted) {
        /* no more waking from here on */
        set_timer_to_deadline();
    }
}

SIGDEFER_HOT int hold_has_loop(void)
{
    return hold.pid != 0 && !hold.is_threaded;
}

SIGDEFER_HOT static int is_leaving(void)
{
    return hold.noted
           || atomic_load_explicit(&hold.entry->asked, memory_order_relaxed);
}

/* Not between responses: what has come by then is answered, too. */
SIGDEFER_HOT int hold_is_last_response(void)
{
    return is_leaving() && state() == HOLD_SERVING;
}

static void thread_ends(void *where)
{
    atomic_store((_Atomic(sigdefer_section_t *) *)where, NULL);
}

/* At the deadline it is looked whether the thread is in a section. */
static void know_thread(void)
{
    int i;

    if (pthread_getspecific(hold.thread_key)) {
        return;
    }
    for (i = 0; i < MAX_THREADS; i++) {
        sigdefer_section_t *none = NULL;

        if (atomic_compare_exchange_strong(&threads[i], &none,
                                           SIGDEFER_SECTION)) {
            pthread_setspecific(hold.thread_key, &threads[i]);
            return;
        }
    }
}

SIGDEFER_HOT void hold_connection(apr_socket_t *csd)
{
    if (hold.pid == 0) {
        return;
    }
    if (hold.is_threaded) {
        know_thread();
    }
    else {
        hold.csd = csd;
        serve();
    }
}

SIGDEFER_HOT void hold_connection_ended(void)
{
    if (hold_has_loop()) {
        go_to(HOLD_WAITING);
    }
}

static void take_place(request_rec *r)
{
    int i;

    for (i = 0; i < MAX_REQUESTS; i++) {
        request_rec *none = NULL;

        if (atomic_load_explicit(&requests[i], memory_order_relaxed) == NULL
            && atomic_compare_exchange_strong(&requests[i], &none, r)) {
            ap_set_module_config(r->request_config, &sigdefer_module,
                                 &requests[i]);
            return;
        }
    }
}

static void leave_place(request_rec *r)
{
    _Atomic(request_rec *) *place = ap_get_module_config(r->request_config,
                                                         &sigdefer_module);

    if (place) {
        atomic_store(place, NULL);
    }
}

SIGDEFER_HOT void hold_request_begins(request_rec *r)
{
    if (hold.pid == 0) {
        return;
    }
    if (hold.is_threaded) {
        know_thread();
        take_place(r);
    }
    else {
        atomic_store_explicit(&hold.request, r, memory_order_relaxed);
        serve();
    }
}

SIGDEFER_HOT void hold_request_ended(request_rec *r)
{
    if (hold.pid == 0) {
        return;
    }
    if (is_leaving()) {
        apr_table_setn(r->connection->notes, "short-lingering-close", "1");
    }
    if (hold.is_threaded) {
        leave_place(r);
    }
    else if (atomic_load_explicit(&hold.request, memory_order_relaxed) == r) {
        /* else a pipelined one has been read before this one was sent */
        atomic_store_explicit(&hold.request, NULL, memory_order_relaxed);
        go_to(HOLD_IDLE);
    }
    while (atomic_load(&hold.reading_requests)) {
        sched_yield();
    }
}

/* ---- Begin and end ------------------------------------------------------ */

/* A handler that somebody has registered may run now, if there was a hard
 * signal.  prefork's own would end the child here.  What the kernel has is of
 * no use: prefork ignores both from now on.
 */
static void call_handler(int signo)
{
    const module *prefork = ap_find_linked_module("prefork.c");
    const struct sigaction *action = sigdefer_registered(signo);

    if ((signo == SIGTERM || signo == SIGHUP) && prefork && action
        && !bind_same_object(prefork, (void *)action->sa_sigaction)) {
        sigdefer_call_registered(signo);
    }
}

/* The MPM's loop has ended, for whatever reason. */
static apr_status_t child_leaves(void *unused)
{
    (void)unused;
    hold.leaving = 1;
    if (hold.noted) {
        set_timer_to_deadline();
        call_handler(hold.noted);
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

/* To the main thread: in prefork it is the one that waits for connections, in
 * the others the only one that takes TERM.
 */
static apr_status_t make_timer(int signo)
{
    struct sigevent event;

    memset(&event, 0, sizeof(event));
    event.sigev_signo = signo;
#ifdef SIGEV_THREAD_ID
    event.sigev_notify = SIGEV_THREAD_ID;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
#else
    event.sigev_notify = SIGEV_SIGNAL;
#endif
    return timer_create(CLOCK_MONOTONIC, &event, &hold.timer) == 0 ? APR_SUCCESS
                                                                   : errno;
}

static apr_status_t make_waking_timer(void)
{
    struct sigaction act;
    int signo = unused_signal();
    apr_status_t rv = signo == 0 ? APR_EAGAIN : make_timer(signo);

    if (rv != APR_SUCCESS) {
        return rv;
    }
    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_handler = on_timer;
    act.sa_flags = SA_ONSTACK;
    return sigaction(signo, &act, NULL) == 0 ? APR_SUCCESS : errno;
}

apr_status_t hold_child_init(apr_pool_t *pchild, int seconds)
{
    hold_entry_t *entry = hold_board_claim();
    apr_status_t rv;
    int threaded;

    hold.is_threaded = ap_mpm_query(AP_MPMQ_IS_THREADED, &threaded)
                           == APR_SUCCESS
                       && threaded != AP_MPMQ_NOT_SUPPORTED;
    if (entry) {
        hold.entry = entry;
    }
    rv = hold.is_threaded ? make_timer(SIGTERM) : make_waking_timer();
    if (rv == APR_SUCCESS && hold.is_threaded) {
        rv = pthread_key_create(&hold.thread_key, thread_ends);
    }
    if (rv == APR_SUCCESS) {
        rv = pthread_atfork(NULL, NULL, forked);
    }
    if (rv != APR_SUCCESS) {
        return rv;
    }
    hold.requests = hold.is_threaded ? requests : &hold.request;
    hold.request_count = hold.is_threaded ? MAX_REQUESTS : 1;
    if (hold.is_threaded) {
        /* its threads are told by the MPM; never woken by a signal */
        atomic_store(&hold.entry->state, HOLD_SERVING);
    }
    else {
        apr_pool_pre_cleanup_register(pchild, NULL, child_leaves);
    }
    hold.parent = hold_parent_pid() ? hold_parent_pid() : getppid();
    hold.null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
#ifdef PR_SET_PDEATHSIG
    /* a configuration that is broken at a restart ends the parent */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    hold.seconds = seconds;
    hold.mpm = ap_unixd_mpm_get_retained_data();
    hold.pid = getpid();
    if (hold.is_threaded) {
        /* the MPM wakes its own threads with HUP, and itself with TERM */
        sigdefer_guard(SIGDEFER_BIT(SIGTERM), note_signal, 0);
    }
    else {
        sigdefer_guard(SIGDEFER_BIT(SIGTERM) | SIGDEFER_BIT(SIGHUP),
                       note_signal, SA_RESTART);
    }
    if (getppid() != hold.parent) {
        raise(SIGTERM); /* it ended before it could be asked to tell us */
    }
    return APR_SUCCESS;
}
