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

/* A child's main thread.  It starts the workers and then sleeps, until there
 * is something to see to: the parent says that the child is to go, a worker
 * wants it to, TERM has come, or a follower is to be woken.
 *
 * A child that goes accepts no more, and ends when all of its threads have
 * ended what they serve.  It has a deadline if the restart or stop was a hard
 * one, or if the parent is gone; what is still served then is cut.
 *
 * TERM has the child go, too, and means now if it is to go already.
 */

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "apr_portable.h"
#include "apr_signal.h"
#include "apr_strings.h"
#include "httpd.h"
#include "http_log.h"
#include "http_main.h"

#include "hold/hold.h"
#include "mpm_threaded/threaded.h"

APLOG_USE_MODULE(mpm_threaded);

#define START_MS 100 /* between two looks for a place for more threads */

/* Right after the child has been told to go: between two attempts to wake
 * those that wait, and for how long at least.
 */
#define WAKE_MS 10
#define SETTLE_MS 50

#define CUT_MS 1000 /* from the deadline to _exit() */

/* Then a thread that waits for a lock that cannot be given up is left alone. */
#define LOCK_MS 5000

#define NAMED 4 /* requests that are cut and named in the log */

/* Of the main thread, but for the volatile one. */
static struct {
    int slot;
    pid_t parent;
    bucket_t *bucket;
    apr_pool_t *pool;
    apr_threadattr_t *attributes;
    int parent_fd; /* -1: nothing is to be heard any more, or with -X */
    int tick_fd;
    int missing; /* workers that have no place yet */
    int exit_code;

    int is_leaving;
    int is_closed;         /* its listeners */
    int has_stopped;       /* child_stopping has run */
    apr_uint64_t left_at;  /* ms of hold_clock() */
    apr_uint64_t deadline; /* the same; 0: none */
    int is_cut;

    volatile sig_atomic_t wake_fd;  /* r/o once made; of the handler, too */
    volatile sig_atomic_t is_asked; /* by the handler: TERM has come */
} child = { .parent_fd = -1, .wake_fd = -1 };

static void run_stopping(int is_graceful)
{
    if (!child.has_stopped) {
        child.has_stopped = 1;
        ap_run_child_stopping(child.pool, is_graceful);
    }
}

/* In order: all threads have ended, or never began. */
static void leave_process(int code) __attribute__((noreturn));
static void leave_process(int code)
{
    threaded.retained->mpm->mpm_state = AP_MPMQ_STOPPING;
    if (child.pool) {
        run_stopping(0);
        apr_pool_destroy(child.pool);
    }
    if (threaded.is_one_process) {
        children_ended(child.slot, 0, 0);
    }
    if (workers_left() > 0) {
        _exit(code); /* one of them waits for a lock, in memory of pconf's */
    }
    exit(code);
}

static void fail(int code, apr_status_t rv, const char *what)
{
    ap_log_error(APLOG_MARK, APLOG_ALERT, rv, ap_server_conf,
                 "threaded: T040: %s", what);
    leave_process(code);
}

/* ---- Signals -------------------------------------------------------------- */

static void on_term(int signo)
{
    const apr_uint64_t one = 1;
    int saved_errno = errno;

    (void)signo;
    child.is_asked = 1;
    if (child.wake_fd >= 0 && write(child.wake_fd, &one, sizeof(one)) < 0) {
        /* its counter is full: the main thread is awake in any case */
    }
    errno = saved_errno;
}

/* It wakes a thread that waits; that is all. */
static void on_wake(int signo)
{
    (void)signo;
}

static void unblock(int signo)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signo);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* Other modules may start threads in child_init, which must take none of the
 * signals; and what they find there they may put themselves in front of.
 */
static void set_signals(void)
{
    apr_status_t rv = apr_setup_signal_thread(); /* blocks them all */

    if (rv != APR_SUCCESS) {
        fail(APEXIT_CHILDFATAL, rv, "signals cannot be blocked");
    }
    apr_signal(SIGTERM, on_term);
    apr_signal(SIGHUP, on_wake);
    if (threaded.is_one_process) {
        apr_signal(SIGINT, on_term);
    }
}

/* HUP, too, since it is open in the workers: who sends it to the process gets
 * the main thread, and interrupts nobody's request.
 */
static void take_signals(void)
{
    if (!threaded.is_one_process) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        child.is_asked |= getppid() != child.parent; /* before that */
    }
    unblock(SIGTERM);
    unblock(SIGHUP);
    if (threaded.is_one_process) {
        unblock(SIGINT);
    }
}

/* ---- Begin ---------------------------------------------------------------- */

static void open_pipe(void)
{
    int i;

    for (i = 0; i < threaded.bucket_count; i++) {
        bucket_t *other = &threaded.buckets[i];

        if (other != child.bucket) {
            ap_close_listeners_ex(other->listeners);
            ap_mpm_podx_close(other->pod);
        }
    }
    if (child.bucket->pod) {
        apr_os_file_get(&child.parent_fd, child.bucket->pod->pod_in);
    }
}

static void make_pool(void)
{
    apr_pool_create(&child.pool, threaded.pconf);
    apr_pool_tag(child.pool, "pchild");
#if defined(AP_HAS_THREAD_LOCAL) && AP_HAS_THREAD_LOCAL
    if (!threaded.is_one_process) {
        apr_thread_t *self;
        apr_status_t rv = ap_thread_main_create(&self, child.pool);

        if (rv != APR_SUCCESS) {
            fail(APEXIT_CHILDFATAL, rv, "no memory for the main thread");
        }
    }
#endif
}

/* While it is root still. */
static void init_privileged(void)
{
    apr_status_t rv;

    ap_reopen_scoreboard(child.pool, NULL, 0);
    if (child.bucket->mutex) {
        rv = threaded.accept.child_init(
            &child.bucket->mutex, apr_proc_mutex_lockfile(child.bucket->mutex),
            child.pool);
        if (rv != APR_SUCCESS) {
            fail(APEXIT_CHILDFATAL, rv, "the accept lock cannot be used");
        }
    }
    if (ap_run_drop_privileges(child.pool, ap_server_conf) != OK) {
        leave_process(APEXIT_CHILDFATAL);
    }
}

static void make_attributes(void)
{
    apr_threadattr_create(&child.attributes, child.pool);
    if (ap_thread_stacksize != 0) {
        apr_status_t rv = apr_threadattr_stacksize_set(child.attributes,
                                                       ap_thread_stacksize);
        if (rv != APR_SUCCESS) {
            ap_log_error(APLOG_MARK, APLOG_WARNING, rv, ap_server_conf,
                         "threaded: T041: ThreadStackSize %" APR_SIZE_T_FMT
                         " cannot be had, the default is taken",
                         ap_thread_stacksize);
        }
    }
}

static void start_workers(void)
{
    apr_status_t rv = workers_start(child.attributes, &child.missing);

    if (rv != APR_SUCCESS) {
        fail(APEXIT_CHILDSICK, rv, "a thread cannot be started");
    }
}

static void init_workers(void)
{
    apr_status_t rv;

    child.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    child.tick_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (child.wake_fd < 0 || child.tick_fd < 0) {
        fail(APEXIT_CHILDSICK, errno, "no descriptors for the main thread");
    }
    rv = workers_init(child.slot, child.bucket, child.wake_fd, child.tick_fd,
                      threaded.pconf);
    if (rv != APR_SUCCESS) {
        fail(APEXIT_CHILDSICK, rv, "the listeners cannot be polled");
    }
    make_attributes();
    start_workers();
}

/* ---- Leaving -------------------------------------------------------------- */

static apr_uint64_t hold_ends(void)
{
    return hold_clock() + (apr_uint64_t)threaded.hold_seconds * 1000u;
}

/* Only the first deadline counts. */
static void leave(apr_uint64_t deadline)
{
    if (child.deadline == 0) {
        child.deadline = deadline;
    }
    if (child.is_leaving) {
        return;
    }
    child.is_leaving = 1;
    child.parent_fd = -1; /* the rest is for others */
    child.left_at = hold_clock();
    /* httpd keeps no connection alive from here on */
    threaded.retained->mpm->mpm_state = AP_MPMQ_STOPPING;
    ap_get_scoreboard_process(child.slot)->quiescing = 1;
    workers_leave();
    if (child.bucket->mutex) {
        threaded.accept.stop();
    }
    run_stopping(1);
}

static void hear_parent(void)
{
    switch (ap_mpm_podx_check(child.bucket->pod)) {
    case AP_MPM_PODX_GRACEFUL:
        leave(0);
        break;
    case AP_MPM_PODX_RESTART:
        leave(threaded.is_held_by_us ? hold_ends() : hold_clock());
        break;
    default:
        break; /* another child has been faster */
    }
}

static void hear_workers(void)
{
    workers_wish_e wish = workers_wish();

    if (wish == WORKERS_STAY || child.is_leaving) {
        return;
    }
    if (wish != WORKERS_ARE_DONE) {
        child.exit_code = APEXIT_CHILDSICK;
    }
    leave(0);
}

/* With -X there is no hold.  The death of the parent, which TERM tells, too, is
 * not urgent.
 */
static void hear_signal(void)
{
    if (!child.is_asked) {
        return;
    }
    child.is_asked = 0;
    if (threaded.is_one_process
        || (child.is_leaving && getppid() == child.parent)) {
        child.deadline = hold_clock();
    }
    leave(hold_ends());
}

/* "GET /page?query HTTP/1.1", as mod_status shows it, without the query. */
static void name_requests(void)
{
    int named = 0;
    int i;

    for (i = 0; i < limits.threads_per_child && named < NAMED; i++) {
        const worker_score *score = ap_get_scoreboard_worker_from_indexes(
            child.slot, i);
        char request[sizeof(score->request)];

        if (score->status != SERVER_BUSY_WRITE || !score->request[0]) {
            continue;
        }
        apr_cpystrn(request, score->request, sizeof(request));
        request[strcspn(request, "?")] = '\0';
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, ap_server_conf,
                     "threaded: T042: hold time is over, cut: \"%s\"", request);
        named++;
    }
}

static void keep_deadline(apr_uint64_t now)
{
    if (child.deadline == 0 || now < child.deadline) {
        return;
    }
    if (child.is_cut) {
        _exit(child.exit_code);
    }
    child.is_cut = 1;
    child.deadline = now + CUT_MS;
    name_requests();
    ap_log_error(APLOG_MARK, APLOG_INFO, 0, ap_server_conf,
                 "threaded: T043: %d connections are cut", workers_cut());
}

/* Returns whether there is somebody to wake yet. */
static int let_go(apr_uint64_t now)
{
    int is_waiting = workers_wake();

    if (!is_waiting && !child.is_closed) {
        child.is_closed = 1;
        ap_close_listeners_ex(child.bucket->listeners);
    }
    return is_waiting || now < child.left_at + SETTLE_MS;
}

static int is_stuck(apr_uint64_t now)
{
    return child.is_leaving && !child.is_closed && workers_left() == 1
           && now > child.left_at + LOCK_MS;
}

/* ---- The loop ------------------------------------------------------------- */

static int has_fired(int fd)
{
    apr_uint64_t count;

    return read(fd, &count, sizeof(count)) == sizeof(count);
}

static int ms_to_wait(void)
{
    apr_uint64_t now = hold_clock();

    if (!child.is_leaving) {
        return child.missing > 0 ? START_MS : -1;
    }
    if (let_go(now)) {
        return WAKE_MS;
    }
    if (child.deadline == 0) {
        return -1;
    }
    return now < child.deadline ? (int)(child.deadline - now) : 0;
}

static void look_around(void)
{
    struct pollfd from[] = {
        { child.wake_fd, POLLIN, 0 },
        { child.tick_fd, POLLIN, 0 },
        { child.parent_fd, POLLIN, 0 } /* -1 is passed over */
    };

    if (poll(from, sizeof(from) / sizeof(from[0]), ms_to_wait()) < 0) {
        return; /* a signal, which has written to wake_fd */
    }
    if (from[0].revents) {
        has_fired(child.wake_fd);
    }
    if (from[1].revents && has_fired(child.tick_fd)) {
        workers_hand_on();
    }
    if (from[2].revents) {
        hear_parent();
    }
}

/* A signal may have come before it could wake anybody: look first, then wait.
 */
static void watch(void)
{
    while (!(child.is_leaving && workers_left() == 0)
           && !is_stuck(hold_clock())) {
        hear_workers();
        hear_signal();
        keep_deadline(hold_clock());
        if (child.missing > 0 && !child.is_leaving) {
            start_workers();
        }
        look_around();
    }
}

void child_run(int slot, bucket_t *bucket, pid_t parent)
{
    ap_unixd_mpm_retained_data *mpm = threaded.retained->mpm;

#if defined(AP_HAS_THREAD_LOCAL) && AP_HAS_THREAD_LOCAL
    if (!threaded.is_one_process) {
        ap_thread_current_after_fork();
    }
#endif
    apr_signal(SIGTERM, on_term);
    mpm->mpm_state = AP_MPMQ_STARTING;
    child.slot = slot;
    child.bucket = bucket;
    child.parent = parent;
    ap_fatal_signal_child_setup(ap_server_conf);
    make_pool();
    open_pipe();
    init_privileged();
    set_signals();
    ap_run_child_init(child.pool, ap_server_conf);
    init_workers();
    mpm->mpm_state = AP_MPMQ_RUNNING;
    take_signals();

    watch();

    if (workers_left() == 0) {
        workers_join();
    }
    leave_process(child.exit_code);
}
