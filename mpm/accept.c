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

/* What prefork and worker call for their accept mutex is re-pointed.  A mutex
 * is known for theirs by its type, or, in an MPM that is built into httpd, by
 * the time at which it is made.  The MPM gets a mutex of APR's that nobody
 * locks, so that whatever else is asked about it has an answer, and beside it
 * there is a lock of ours.  All other mutexes are passed through.
 *
 * With one listener prefork and worker make no mutex and take none.
 *
 * "threaded" is an MPM of ours: it asks for the same functions, see
 * mpm/offer.h, and nothing is re-pointed.
 *
 * A lock belongs to a generation and a bucket of listeners.  Children of older
 * generations use theirs after a restart, and the kernel recovers a lock only
 * where it is mapped.  So each has a pool of its own, a child of the process's,
 * which is destroyed when the last child of its generation has gone.
 *
 * A child that is to go gives up waiting.  prefork ends the whole server on any
 * error of the lock, so it is told that it has the lock; it looks whether it is
 * to go before it waits for a connection, and releases what it does not have.
 * worker leaves quietly on an error once its listener may exit, and says when:
 * it wakes its pollset then, and signals the thread afterwards.  threaded says
 * so itself.
 */

#include <unistd.h>

#include "apr_poll.h"
#include "apr_proc_mutex.h"
#include "apr_strings.h"
#include "ap_listen.h"
#include "ap_mpm.h"
#include "http_core.h"
#include "http_log.h"
#include "mpm_common.h"
#include "unixd.h"
#include "util_mutex.h"

#include "mpm/accept.h"
#include "mpm/bind.h"
#include "mpm/exclusive.h"
#include "mpm/retained.h"

APLOG_USE_MODULE(sigdefer);

#define RETAINED_KEY "mod_sigdefer_accept"

/* For a mutex that nobody locks.  Nothing is left of these, whatever becomes of
 * the process; the first one may be refused, as under some emulators.
 */
static const apr_lockmech_e stand_ins[] = {
#if APR_HAS_PROC_PTHREAD_SERIALIZE
    APR_LOCK_PROC_PTHREAD,
#endif
#if APR_HAS_POSIXSEM_SERIALIZE
    APR_LOCK_POSIXSEM,
#endif
#if APR_HAS_FCNTL_SERIALIZE
    APR_LOCK_FCNTL,
#endif
};

#define STAND_INS (sizeof(stand_ins) / sizeof(stand_ins[0]))

/* A lock and the mutex that stands for it; in the parent and its children. */
typedef struct {
    apr_proc_mutex_t *mutex;
    accept_lock_t *lock;
} pair_t;

/* The pool of a lock, in that pool. */
typedef struct slab_t {
    struct slab_t *next;
    apr_pool_t *pool;
    pid_t creator;
    ap_generation_t generation;
} slab_t;

/* Outlives the module; nothing in it leads to the module's code. */
typedef struct {
    slab_t *slabs;
} retained_t;

/* Of this pass; r/o after the MPM's open_logs. */
static struct {
    pid_t parent;
    server_rec *server;
    const choice_t *choice;
    const char *unbound;       /* what could not be bound, and why */
    apr_array_header_t *pairs; /* of pair_t; NULL: not bound */
    int asks;                  /* the MPM, for accept_calls() */
    int is_threaded;           /* leaves on an error of the lock */
    int is_making;             /* the MPM's open_logs runs */
} pass;

/* Of the child.  Only one of its threads at a time takes the lock: the main
 * thread in prefork, the listener in worker, the leader in threaded.
 */
static struct {
    pair_t pair; /* r/o after child_init */
    int is_held; /* by the thread that takes it */
    ap_unixd_mpm_retained_data *mpm;
    volatile sig_atomic_t is_stopped; /* by any thread, and in handlers */
} child;

/* Of the child; r/o after child_init. */
static accept_stats_t uncounted;
static accept_stats_t *counts = &uncounted;

/* What is called where nothing is re-pointed. */
static struct {
    apr_status_t (*ap_create)(apr_proc_mutex_t **, const char **, const char *,
                              const char *, server_rec *, apr_pool_t *,
                              apr_int32_t);
    apr_status_t (*create)(apr_proc_mutex_t **, const char *, apr_lockmech_e,
                           apr_pool_t *);
    apr_status_t (*child_init)(apr_proc_mutex_t **, const char *, apr_pool_t *);
    apr_status_t (*lock)(apr_proc_mutex_t *);
    apr_status_t (*unlock)(apr_proc_mutex_t *);
    const char *(*name)(apr_proc_mutex_t *);
    apr_status_t (*wakeup)(apr_pollset_t *);
} stock;

/* ---- The parent --------------------------------------------------------- */

static retained_t *retained(void)
{
    return retained_data(RETAINED_KEY, sizeof(retained_t));
}

/* The first pass only tries; its locks go with its configuration. */
static apr_status_t make_slab(slab_t **slab, apr_pool_t *pconf)
{
    int is_trial = ap_state_query(AP_SQ_MAIN_STATE)
                   == AP_SQ_MS_CREATE_PRE_CONFIG;
    apr_pool_t *pool;
    apr_status_t rv;

    rv = apr_pool_create(&pool, is_trial ? pconf : pass.server->process->pool);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    apr_pool_tag(pool, "sigdefer_accept_lock");
    *slab = apr_pcalloc(pool, sizeof(**slab));
    (*slab)->pool = pool;
    if (!is_trial) {
        ap_unixd_mpm_retained_data *mpm = ap_unixd_mpm_get_retained_data();
        retained_t *all = retained();

        (*slab)->creator = getpid();
        (*slab)->generation = mpm->my_generation;
        (*slab)->next = all->slabs;
        all->slabs = *slab;
    }
    return APR_SUCCESS;
}

static void unmake_slab(slab_t *slab)
{
    retained_t *all = retained();

    if (all->slabs == slab) {
        all->slabs = slab->next;
    }
    apr_pool_destroy(slab->pool);
}

void accept_end_generation(ap_generation_t generation)
{
    slab_t **link = &retained()->slabs;

    while (*link) {
        slab_t *slab = *link;

        if (slab->generation == generation && slab->creator == getpid()) {
            *link = slab->next;
            apr_pool_destroy(slab->pool);
        }
        else {
            link = &slab->next;
        }
    }
}

static apr_status_t make_stand_in(apr_proc_mutex_t **mutex, apr_pool_t *pool)
{
    apr_status_t rv = APR_ENOTIMPL;
    apr_size_t i;

    for (i = 0; rv != APR_SUCCESS && i < STAND_INS; i++) {
        rv = stock.create(mutex, NULL, stand_ins[i], pool);
    }
    return rv;
}

/* A mutex for the MPM, and a lock of ours for it. */
static apr_status_t make_pair(apr_proc_mutex_t **mutex, apr_pool_t *pool)
{
    const choice_t *choice = pass.choice;
    const char *error = "memory";
    accept_lock_t *lock = NULL;
    slab_t *slab;
    apr_status_t rv = make_slab(&slab, pool);

    if (rv == APR_SUCCESS) {
        rv = accept_lock_create(&lock, &error, choice->provider,
                                ACCEPT_LOCK_PROCESSES, choice->argument,
                                slab->pool);
        if (rv == APR_SUCCESS) {
            error = "mutex";
            rv = make_stand_in(mutex, pool);
        }
        if (rv != APR_SUCCESS) {
            error = apr_pstrdup(pool, error);
            unmake_slab(slab);
        }
    }
    if (rv == APR_SUCCESS) {
        pair_t *pair = apr_array_push(pass.pairs);

        pair->mutex = *mutex;
        pair->lock = lock;
        return APR_SUCCESS;
    }
    ap_log_error(APLOG_MARK, choice->is_asked_for ? APLOG_EMERG : APLOG_WARNING,
                 0, pass.server, "sigdefer: S050: accept lock %s: %s%s",
                 choice->provider->name, error,
                 choice->is_asked_for ? "" : "; the MPM takes its own");
    return rv;
}

/* ap_proc_mutex_create(), as an MPM of an object of its own calls it. */
static apr_status_t bound_ap_create(apr_proc_mutex_t **mutex, const char **name,
                                    const char *type, const char *instance,
                                    server_rec *s, apr_pool_t *pool,
                                    apr_int32_t options)
{
    apr_status_t rv;

    if (strcmp(type, AP_ACCEPT_MUTEX_TYPE) == 0) {
        rv = make_pair(mutex, pool);
        if (rv == APR_SUCCESS || pass.choice->is_asked_for) {
            return rv;
        }
    }
    return stock.ap_create(mutex, name, type, instance, s, pool, options);
}

/* apr_proc_mutex_create(), as httpd calls it with all that is built in. */
static apr_status_t bound_create(apr_proc_mutex_t **mutex, const char *file,
                                 apr_lockmech_e mechanism, apr_pool_t *pool)
{
    apr_status_t rv;

    if (pass.is_making) {
        rv = make_pair(mutex, pool);
        if (rv == APR_SUCCESS || pass.choice->is_asked_for) {
            return rv;
        }
    }
    return stock.create(mutex, file, mechanism, pool);
}

void accept_making(int begins)
{
    pass.is_making = begins;
}

static const pair_t *find_pair(const apr_proc_mutex_t *mutex)
{
    int i;

    for (i = 0; pass.pairs && i < pass.pairs->nelts; i++) {
        const pair_t *pair = &((const pair_t *)pass.pairs->elts)[i];

        if (pair->mutex == mutex) {
            return pair;
        }
    }
    return NULL;
}

/* apr_proc_mutex_name(), for a line in the MPM's log. */
static const char *bound_name(apr_proc_mutex_t *mutex)
{
    const pair_t *pair = find_pair(mutex);

    return pair ? accept_lock_provider(pair->lock)->name : stock.name(mutex);
}

/* ---- The child ---------------------------------------------------------- */

static apr_status_t child_exits(void *lock)
{
    return accept_lock_child_exit(lock);
}

/* apr_proc_mutex_child_init() */
static apr_status_t bound_child_init(apr_proc_mutex_t **mutex, const char *file,
                                     apr_pool_t *pchild)
{
    const pair_t *pair = find_pair(*mutex);
    apr_status_t rv;

    if (!pair) {
        return stock.child_init(mutex, file, pchild);
    }
    rv = accept_lock_child_init(pair->lock);
    if (rv == APR_SUCCESS) {
        child.mpm = ap_unixd_mpm_get_retained_data();
        child.is_held = 0;
        child.is_stopped = 0;
        child.pair = *pair;
        apr_pool_pre_cleanup_register(pchild, pair->lock, child_exits);
    }
    return rv;
}

/* Besides accept_stop(): without the hold a graceful signal stops prefork's
 * child, and with -X any signal.
 */
static int is_stopping(void)
{
    return child.is_stopped
           || (!pass.is_threaded
               && (child.mpm->mpm_state == AP_MPMQ_STOPPING
                   || child.mpm->shutdown_pending
                   || child.mpm->restart_pending));
}

/* apr_proc_mutex_lock() */
static apr_status_t bound_lock(apr_proc_mutex_t *mutex)
{
    uint64_t begun;
    apr_status_t rv;
    unsigned how;

    if (mutex != child.pair.mutex) {
        return stock.lock(mutex);
    }
    begun = accept_stats_clock();
    do {
        rv = accept_lock_acquire(child.pair.lock, &how);
    } while (rv == EINTR && !is_stopping());
    if (rv == APR_SUCCESS) {
        child.is_held = 1;
        accept_stats_acquired(counts, begun, how & ACCEPT_LOCK_WAITED,
                              how & ACCEPT_LOCK_RECOVERED);
        if (how & ACCEPT_LOCK_RECOVERED) {
            ap_log_error(
                APLOG_MARK, APLOG_NOTICE, 0, pass.server,
                "sigdefer: S051: accept lock recovered: its holder has "
                "died");
        }
    }
    return rv == EINTR && !pass.is_threaded ? APR_SUCCESS : rv;
}

/* apr_proc_mutex_unlock() */
static apr_status_t bound_unlock(apr_proc_mutex_t *mutex)
{
    if (mutex != child.pair.mutex) {
        return stock.unlock(mutex);
    }
    if (!child.is_held) {
        return APR_SUCCESS;
    }
    child.is_held = 0;
    accept_stats_released(counts);
    return accept_lock_release(child.pair.lock);
}

void accept_count(accept_stats_t *where)
{
    counts = where;
}

void accept_stop(void)
{
    if (child.pair.lock) {
        child.is_stopped = 1;
        accept_lock_stop(child.pair.lock);
    }
}

/* apr_pollset_wakeup(), as worker calls it when its listener may exit. */
static apr_status_t bound_wakeup(apr_pollset_t *pollset)
{
    accept_stop();
    return stock.wakeup(pollset);
}

/* ---- Binding ------------------------------------------------------------ */

static const bind_import_t of_all[] = {
    BIND_IMPORT("apr_proc_mutex_child_init", bound_child_init,
                stock.child_init),
    BIND_IMPORT("apr_proc_mutex_lock", bound_lock, stock.lock),
    BIND_IMPORT("apr_proc_mutex_unlock", bound_unlock, stock.unlock),
    BIND_IMPORT("apr_proc_mutex_name", bound_name, stock.name),
    { NULL }
};

static const bind_import_t of_worker[] = {
    BIND_IMPORT("apr_pollset_wakeup", bound_wakeup, stock.wakeup), { NULL }
};

static const bind_import_t of_object[] = {
    BIND_IMPORT("ap_proc_mutex_create", bound_ap_create, stock.ap_create),
    { NULL }
};

static const bind_import_t of_httpd[] = {
    BIND_IMPORT("apr_proc_mutex_create", bound_create, stock.create), { NULL }
};

static apr_status_t bind_mpm(const module *mpm, const char **failed)
{
    int is_builtin = bind_same_object(mpm, (const void *)ap_mpm_query);
    apr_status_t rv = bind_imports(mpm, of_all, failed);

    if (rv == APR_SUCCESS && pass.is_threaded) {
        rv = bind_imports(mpm, of_worker, failed);
    }
    if (rv == APR_SUCCESS) {
        rv = bind_imports(mpm, is_builtin ? of_httpd : of_object, failed);
    }
    stock.create = bind_original("apr_proc_mutex_create");
    return rv == APR_SUCCESS && !stock.create ? APR_ENOENT : rv;
}

/* Before modules are unloaded, so that nothing points to them. */
static apr_status_t undo(void *unused)
{
    (void)unused;
    if (getpid() == pass.parent) {
        exclusive_end();
        bind_undo();
        pass.pairs = NULL;
    }
    return APR_SUCCESS;
}

/* Not the MPM's own. */
static int is_ours(const choice_t *choice)
{
    return choice->provider || choice->is_exclusive;
}

/* For accept_calls(). */
static void take_stock(void)
{
    stock.ap_create = ap_proc_mutex_create;
    stock.create = apr_proc_mutex_create;
    stock.child_init = apr_proc_mutex_child_init;
    stock.lock = apr_proc_mutex_lock;
    stock.unlock = apr_proc_mutex_unlock;
    stock.name = apr_proc_mutex_name;
}

const mpm_accept_calls_t *accept_calls(void)
{
    static const mpm_accept_calls_t calls = { bound_ap_create, bound_child_init,
                                              bound_lock,      bound_unlock,
                                              bound_name,      accept_stop };

    return pass.pairs && pass.asks ? &calls : NULL;
}

void accept_bind(apr_pool_t *pconf, server_rec *s, const choice_t *choice)
{
    const module *worker = ap_find_linked_module("worker.c");
    const module *event = ap_find_linked_module("event.c");
    const module *mpm = worker ? worker : ap_find_linked_module("prefork.c");
    const char *failed = "";
    char text[120];
    apr_status_t rv = APR_SUCCESS;

    memset(&pass, 0, sizeof(pass));
    pass.parent = getpid();
    pass.server = s;
    pass.choice = choice;
    pass.asks = strcmp(ap_show_mpm(), "threaded") == 0;
    pass.is_threaded = worker || pass.asks;
    if (!choice || !is_ours(choice)) {
        return;
    }
    apr_pool_cleanup_register(pconf, NULL, undo, apr_pool_cleanup_null);
    if (pass.asks) {
        take_stock();
    }
    else {
        rv = choice->is_exclusive ? exclusive_bind(event, &failed)
                                  : bind_mpm(mpm, &failed);
    }
    if (rv == APR_SUCCESS) {
        if (!choice->is_exclusive) {
            pass.pairs = apr_array_make(pconf, 1, sizeof(pair_t));
        }
        return;
    }
    bind_undo();
    pass.unbound = apr_psprintf(pconf, "%s: %s", failed,
                                apr_strerror(rv, text, sizeof(text)));
}

void accept_start(void)
{
    apr_status_t rv;

    if (!pass.choice || !pass.choice->is_exclusive || pass.unbound) {
        return;
    }
    rv = exclusive_start();
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, pass.server,
                     "sigdefer: S054: exclusive: another module handles "
                     "SIGCHLD in the parent: a connection wakes all children");
    }
}

/* ---- What is said of it ------------------------------------------------- */

/* Then there is nothing to take a lock for. */
static int has_one_listener(void)
{
    return ap_listeners && !ap_listeners->next;
}

const char *accept_idle(void)
{
    if (!pass.choice || !pass.choice->is_asked_for) {
        return NULL;
    }
    if (pass.unbound) {
        return "the MPM cannot be bound here";
    }
    return pass.pairs && has_one_listener() ? "there is only one listener"
                                            : NULL;
}

const char *accept_description(apr_pool_t *p)
{
    const choice_t *choice = pass.choice;
    const char *name;

    if (!choice) {
        return "the MPM's own (SigDefer Off)";
    }
    if (!is_ours(choice)) {
        return apr_psprintf(p, "the MPM's own (%s)", choice->why);
    }
    name = choice->is_exclusive ? "exclusive" : choice->provider->name;
    if (pass.unbound) {
        return apr_psprintf(p, "the MPM's own (%s cannot be bound: %s)", name,
                            pass.unbound);
    }
    return apr_psprintf(p, "%s (%s)", name, choice->why);
}

const char *accept_remark(void)
{
    return pass.pairs && has_one_listener() ? "; not taken with one listener"
                                            : "";
}

void accept_report(apr_pool_t *p)
{
    ap_log_error(APLOG_MARK, pass.unbound ? APLOG_WARNING : APLOG_INFO, 0,
                 pass.server, "sigdefer: S052: accept lock: %s%s",
                 accept_description(p), accept_remark());
}
