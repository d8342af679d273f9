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

/* A child's workers.  The thread that accepts a connection serves it.
 *
 * One of them is the leader: it waits for the next connection, takes it, and
 * serves it.  The others serve, or they are followers and sleep on a stack,
 * each on a condition of its own, so that whoever slept last is woken first
 * and finds its memory in the cache.
 *
 * While the leader serves there is no leader.  To wake a follower would cost
 * what worker pays for handing over each connection, and most often in vain:
 * the next thread that has served takes the lead by itself, and as long as it
 * does, connections are served as fast as there are CPUs.  What must not be is
 * that all who could come back are busy for long.  So when the lead becomes
 * vacant and there are followers, a timer is set; whoever takes the lead stops
 * it.  When it fires, the main thread wakes a follower.  From then on
 * connections are known to take long, and a follower is woken each time, so
 * that a burst is not served at the pace of the timer, until one has not taken
 * long again.
 *
 * A thread that comes along takes a vacant lead even if a follower has been
 * woken and does not run yet; the follower lies down again.
 *
 * The lead is also the right to the accept lock, to the poll and to the pools:
 * what only the leader touches needs no lock of its own, for the guard orders
 * one leader after the other.
 */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "apr_allocator.h"
#include "apr_poll.h"
#include "apr_portable.h"
#include "httpd.h"
#include "http_core.h"
#include "http_connection.h"
#include "http_log.h"
#include "http_main.h"

#include "mpm_threaded/threaded.h"

APLOG_USE_MODULE(mpm_threaded);

#if !defined(AP_HAS_THREAD_LOCAL)
#define ap_thread_create apr_thread_create
#endif

/* For how long the lead may be vacant; a connection that lasts longer takes
 * long.  The shorter it is, the more often threads are woken that are not
 * needed, since the leader has only lost its CPU for a while.
 */
#define VACANT_NS 10000000L

typedef struct worker_t worker_t;

struct worker_t {
    int number;           /* of its place on the scoreboard */
    apr_thread_t *thread; /* of the main thread; NULL: not started */

    /* of itself; for others to read once it leads */
    apr_thread_t *self;
    pthread_t os_thread;
    apr_pool_t *pool;         /* of its connections; NULL before the first */
    apr_uint64_t accepted_at; /* ns of CLOCK_MONOTONIC */

    /* under the guard */
    apr_socket_t *csd; /* what it serves; NULL: nothing */
    worker_t *below;   /* on the stack */
    int is_woken;
    pthread_cond_t wake;
};

/* r/o after workers_init(), if it says nothing else. */
static struct {
    int slot;
    const bucket_t *bucket;
    int wake_fd;
    int tick_fd;
    apr_pool_t *thread_pool; /* of the main thread */
    apr_pool_t *serve_pool;  /* of the leader */
    apr_pollset_t *pollset;  /* of the leader; NULL: one listener */
    int next_ready;          /* of the leader: listeners take turns */
    worker_t *workers;

    pthread_mutex_t guard; /* held for a few instructions; guards the rest */
    worker_t *leader;      /* NULL: vacant */
    worker_t *top;         /* of the stack of followers */
    int is_waking;         /* one has been woken and does not run yet */
    int is_ticking;        /* the timer is set */
    int is_slow;           /* the last connection has taken long */
    int running;           /* threads */
    int accepts_left;      /* MaxConnectionsPerChild; INT_MAX: no end */
    atomic_int is_leaving; /* read without it, too */
    workers_wish_e wish;
} crew = { .guard = PTHREAD_MUTEX_INITIALIZER };

static void lock(void)
{
    pthread_mutex_lock(&crew.guard);
}

static void unlock(void)
{
    pthread_mutex_unlock(&crew.guard);
}

static void wake_main(void)
{
    const apr_uint64_t one = 1;

    if (write(crew.wake_fd, &one, sizeof(one)) < 0) {
        /* its counter is full: the main thread is awake in any case */
    }
}

static void set_tick(long ns)
{
    struct itimerspec when = { { 0, 0 }, { 0, ns } };

    timerfd_settime(crew.tick_fd, 0, &when, NULL);
}

static void update_status(const worker_t *self, int status)
{
    ap_update_child_status_from_indexes(crew.slot, self->number, status, NULL);
}

/* ---- The lead ------------------------------------------------------------- */

/* Who may be wanted as the leader; NULL: nobody.  The guard is held, as in the
 * next two.
 */
static worker_t *next_follower(void)
{
    return crew.leader || crew.is_waking || crew.is_leaving ? NULL : crew.top;
}

/* The one on top. */
static void rouse(worker_t *follower)
{
    crew.top = follower->below;
    follower->is_woken = 1;
    pthread_cond_signal(&follower->wake);
}

static void call(worker_t *follower)
{
    crew.is_waking = 1;
    rouse(follower);
}

/* The guard is held, but not while it sleeps. */
static void sleep_on_top(worker_t *self)
{
    self->is_woken = 0;
    self->below = crew.top;
    crew.top = self;
    while (!self->is_woken) {
        pthread_cond_wait(&self->wake, &crew.guard);
    }
    crew.is_waking = 0;
}

static apr_uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (apr_uint64_t)now.tv_sec * 1000000000u + (apr_uint64_t)now.tv_nsec;
}

/* Returns whether this thread leads; else it is to end. */
static int take_lead(worker_t *self)
{
    int is_slow = clock_ns() - self->accepted_at > VACANT_NS;
    int was_ticking;
    int leads;

    lock();
    crew.is_slow = is_slow;
    while (crew.leader && !crew.is_leaving) {
        sleep_on_top(self);
    }
    leads = !crew.is_leaving;
    if (leads) {
        crew.leader = self;
    }
    was_ticking = crew.is_ticking;
    crew.is_ticking = 0;
    unlock();
    if (was_ticking) {
        set_tick(0);
    }
    return leads;
}

/* csd: what has been accepted; NULL: this thread is to end. */
static void leave_lead(worker_t *self, apr_socket_t *csd)
{
    worker_t *follower;
    int ticks = 0;

    self->accepted_at = clock_ns();
    lock();
    crew.leader = NULL;
    self->csd = csd;
    if (csd && crew.accepts_left != INT_MAX && --crew.accepts_left == 0) {
        crew.is_leaving = 1;
        crew.wish = WORKERS_ARE_DONE;
        wake_main();
    }
    follower = next_follower();
    if (follower && crew.is_slow) {
        call(follower);
    }
    else if (follower) {
        ticks = crew.is_ticking = 1;
    }
    unlock();
    if (ticks) {
        set_tick(VACANT_NS);
    }
}

/* Serve what there is and go. */
static void give_up(workers_wish_e wish)
{
    lock();
    if (!crew.is_leaving) {
        crew.is_leaving = 1;
        crew.wish = wish;
    }
    unlock();
    wake_main();
}

static int is_leaving(void)
{
    return atomic_load_explicit(&crew.is_leaving, memory_order_relaxed);
}

/* ---- Accepting ------------------------------------------------------------ */

/* Returns a listener with a connection, or NULL: a signal, or an error. */
static ap_listen_rec *poll_listeners(void)
{
    const apr_pollfd_t *ready;
    apr_int32_t count;
    apr_status_t rv = apr_pollset_poll(crew.pollset, -1, &count, &ready);

    if (APR_STATUS_IS_EINTR(rv)) {
        return NULL;
    }
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, ap_server_conf,
                     "threaded: T050: the listeners cannot be polled");
        give_up(WORKERS_CANNOT_ACCEPT);
        return NULL;
    }
    return ready[crew.next_ready++ % count].client_data;
}

static apr_socket_t *accept_from(ap_listen_rec *listener, apr_pool_t *pool)
{
    void *csd = NULL;

    if (listener->accept_func(&csd, listener, pool) == APR_EGENERAL) {
        give_up(WORKERS_LACK); /* it has been logged */
    }
    return csd;
}

/* Between generations the old one's lock may have gone. */
static void tell_of_lock(const char *what, apr_status_t rv)
{
    int is_old = ap_get_scoreboard_process(crew.slot)->generation
                 != ap_get_scoreboard_global()->running_generation;

    if (!is_leaving()) {
        ap_log_error(APLOG_MARK, is_old ? APLOG_DEBUG : APLOG_EMERG, rv,
                     ap_server_conf,
                     "threaded: T051: the accept lock cannot "
                     "be %s",
                     what);
        give_up(WORKERS_CANNOT_ACCEPT);
    }
}

static apr_socket_t *accept_locked(apr_pool_t *pool)
{
    ap_listen_rec *listener = NULL;
    apr_socket_t *csd = NULL;
    apr_status_t rv = threaded.accept.lock(crew.bucket->mutex);

    if (rv != APR_SUCCESS) {
        tell_of_lock("taken", rv);
        return NULL;
    }
    if (!is_leaving()) {
        listener = poll_listeners();
    }
    if (listener) {
        csd = accept_from(listener, pool);
    }
    rv = threaded.accept.unlock(crew.bucket->mutex);
    if (rv != APR_SUCCESS) {
        tell_of_lock("released", rv);
    }
    return csd;
}

/* As the leader. */
static void make_pool(worker_t *self)
{
    apr_allocator_t *allocator;

    apr_allocator_create(&allocator);
    apr_allocator_max_free_set(allocator, ap_max_mem_free);
    apr_pool_create_ex(&self->pool, crew.serve_pool, NULL, allocator);
    apr_allocator_owner_set(allocator, self->pool);
    apr_pool_tag(self->pool, "transaction");
}

/* Returns a connection, or NULL: this thread is to end. */
static apr_socket_t *next_connection(worker_t *self)
{
    apr_socket_t *csd = NULL;

    if (!take_lead(self)) {
        return NULL;
    }
    if (!self->pool) {
        make_pool(self);
    }
    while (!csd && !is_leaving()) {
        csd = crew.pollset ? accept_locked(self->pool)
                           : accept_from(crew.bucket->listeners, self->pool);
    }
    leave_lead(self, csd);
    return csd;
}

/* ---- Serving -------------------------------------------------------------- */

/* From here on nobody touches the socket but this thread. */
static void forget_connection(worker_t *self)
{
    lock();
    self->csd = NULL;
    unlock();
}

static void serve(worker_t *self, apr_socket_t *csd)
{
    apr_bucket_alloc_t *buckets = apr_bucket_alloc_create(self->pool);
    ap_sb_handle_t *score;
    conn_rec *c;

    ap_create_sb_handle(&score, self->pool, crew.slot, self->number);
    c = ap_run_create_connection(
        self->pool, ap_server_conf, csd,
        (long)crew.slot * limits.thread_limit + self->number, score, buckets);
    if (c) {
        c->current_thread = self->self;
        ap_process_connection(c, csd);
    }
    forget_connection(self);
    if (c) {
        ap_lingering_close(c);
    }
    apr_pool_clear(self->pool);
}

static void begin_thread(worker_t *self)
{
    worker_score *score = ap_get_scoreboard_worker_from_indexes(crew.slot,
                                                                self->number);
    sigset_t wake;

    score->pid = getpid();
    score->tid = apr_os_thread_current();
    score->generation = threaded.retained->mpm->my_generation;
    update_status(self, SERVER_STARTING);
    update_status(self, SERVER_READY);
    sigemptyset(&wake);
    sigaddset(&wake, SIGHUP);
    pthread_sigmask(SIG_UNBLOCK, &wake, NULL);
}

static void end_thread(worker_t *self)
{
    if (self->pool) {
        apr_pool_clear(self->pool);
    }
    update_status(self, SERVER_DEAD);
    lock();
    crew.running--;
    unlock();
    wake_main();
}

static void *APR_THREAD_FUNC work(apr_thread_t *thread, void *data)
{
    worker_t *self = data;
    apr_socket_t *csd;

    self->self = thread;
    self->os_thread = pthread_self();
    self->accepted_at = clock_ns();
    begin_thread(self);
    while ((csd = next_connection(self)) != NULL) {
        serve(self, csd);
        update_status(self, SERVER_READY);
    }
    end_thread(self);
    return NULL;
}

/* ---- The main thread ------------------------------------------------------ */

static apr_status_t make_pollset(apr_pool_t *pool)
{
    ap_listen_rec *listener;
    apr_status_t rv;
    int count = 0;

    for (listener = crew.bucket->listeners; listener;
         listener = listener->next) {
        count++;
    }
    rv = apr_pollset_create(&crew.pollset, count, pool, APR_POLLSET_NOCOPY);
    for (listener = crew.bucket->listeners; listener && rv == APR_SUCCESS;
         listener = listener->next) {
        apr_pollfd_t *polled = apr_pcalloc(pool, sizeof(*polled));

        polled->desc_type = APR_POLL_SOCKET;
        polled->desc.s = listener->sd;
        polled->reqevents = APR_POLLIN;
        polled->client_data = listener;
        rv = apr_pollset_add(crew.pollset, polled);
    }
    return rv;
}

apr_status_t workers_init(int slot, const bucket_t *bucket, int wake_fd,
                          int tick_fd, apr_pool_t *pool)
{
    ap_listen_rec *listener;
    int i;

    crew.slot = slot;
    crew.bucket = bucket;
    crew.wake_fd = wake_fd;
    crew.tick_fd = tick_fd;
    crew.accepts_left = ap_max_requests_per_child > 0
                            ? ap_max_requests_per_child
                            : INT_MAX;
    apr_pool_create(&crew.thread_pool, pool);
    apr_pool_create(&crew.serve_pool, pool);
    apr_pool_tag(crew.serve_pool, "mpm_runtime");
    crew.workers = apr_pcalloc(pool,
                               limits.threads_per_child * sizeof(worker_t));
    for (i = 0; i < limits.threads_per_child; i++) {
        crew.workers[i].number = i;
        pthread_cond_init(&crew.workers[i].wake, NULL);
    }
    for (listener = bucket->listeners; listener; listener = listener->next) {
        listener->accept_func = ap_unixd_accept;
    }
    return bucket->mutex ? make_pollset(pool) : APR_SUCCESS;
}

/* An old child's thread may still be there. */
static int is_free(int number)
{
    int status =
        ap_get_scoreboard_worker_from_indexes(crew.slot, number)->status;

    return status == SERVER_DEAD || status == SERVER_GRACEFUL;
}

apr_status_t workers_start(apr_threadattr_t *attributes, int *missing)
{
    apr_status_t rv = APR_SUCCESS;
    int i;

    *missing = 0;
    for (i = 0; i < limits.threads_per_child && rv == APR_SUCCESS; i++) {
        worker_t *worker = &crew.workers[i];

        if (worker->thread) {
            continue;
        }
        if (!is_free(i)) {
            ++*missing;
            continue;
        }
        update_status(worker, SERVER_STARTING);
        lock();
        crew.running++;
        unlock();
        rv = ap_thread_create(&worker->thread, attributes, work, worker,
                              crew.thread_pool);
    }
    return rv;
}

void workers_hand_on(void)
{
    worker_t *follower;

    lock();
    crew.is_ticking = 0;
    follower = next_follower();
    if (follower) {
        crew.is_slow = 1;
        call(follower);
    }
    unlock();
}

workers_wish_e workers_wish(void)
{
    workers_wish_e wish;

    lock();
    wish = crew.wish;
    unlock();
    return wish;
}

void workers_leave(void)
{
    lock();
    crew.is_leaving = 1;
    while (crew.top) {
        rouse(crew.top);
    }
    unlock();
}

static int fd_of(const worker_t *worker)
{
    apr_os_sock_t fd;

    return worker->csd && apr_os_sock_get(&fd, worker->csd) == APR_SUCCESS ? fd
                                                                           : -1;
}

/* A signal that comes just before the leader waits is slept through, so this
 * is called again until nobody leads.  What the client of an idle connection
 * has sent by then is still read and answered.
 */
int workers_wake(void)
{
    int is_waiting;
    int i;

    lock();
    is_waiting = crew.leader != NULL;
    if (is_waiting) {
        pthread_kill(crew.leader->os_thread, SIGHUP);
    }
    for (i = 0; i < limits.threads_per_child; i++) {
        const worker_t *worker = &crew.workers[i];

        if (worker->csd
            && ap_get_scoreboard_worker_from_indexes(crew.slot, i)->status
                   == SERVER_BUSY_KEEPALIVE) {
            shutdown(fd_of(worker), SHUT_RD);
        }
    }
    unlock();
    return is_waiting;
}

int workers_left(void)
{
    int left;

    lock();
    left = crew.running;
    unlock();
    return left;
}

int workers_cut(void)
{
    int cut = 0;
    int i;

    lock();
    for (i = 0; i < limits.threads_per_child; i++) {
        if (crew.workers[i].csd) {
            shutdown(fd_of(&crew.workers[i]), SHUT_RDWR);
            cut++;
        }
    }
    unlock();
    return cut;
}

void workers_join(void)
{
    apr_status_t unused;
    int i;

    for (i = 0; i < limits.threads_per_child; i++) {
        if (crew.workers[i].thread) {
            apr_thread_join(&unused, crew.workers[i].thread);
        }
    }
}
