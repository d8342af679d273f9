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

/* What is the same for all backends: who of this process holds the lock, what
 * is wrong to call, the scope.  All of it is private to the process and copied
 * by fork; what processes share is the backend's.
 *
 * Order, in the scope of threads: into the process's turn, then the backend's
 * lock; back the other way round.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "apr_strings.h"

#include "accept_lock/backend.h"
#include "accept_lock/threads.h"

struct accept_lock_t {
    const accept_lock_provider_t *provider; /* r/o */
    void *self;                             /* r/o; of the provider */
    threads_t *threads;                     /* r/o; NULL: scope of processes */
    apr_pool_t *pool;                       /* NULL: destroyed */
    pid_t creator;                          /* r/o */

    /* The thread of this process that holds the lock, or 0.  Written by this
     * thread only; others read it to find that they are not the one, for which
     * no order is needed.
     */
    atomic_uintptr_t owner;

    /* Set once, also by handlers; read before the backend is asked.  What
     * comes later is the business of its stop function.
     */
    atomic_int is_stopped;
};

#define load(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define store(word, value) \
    atomic_store_explicit(&(word), (value), memory_order_relaxed)

static uintptr_t this_thread(void)
{
    return (uintptr_t)pthread_self();
}

apr_status_t accept_lock_create(accept_lock_t **lock, const char **error,
                                const accept_lock_provider_t *provider,
                                accept_lock_scope_e scope, const char *argument,
                                apr_pool_t *pool)
{
    accept_lock_t *made = apr_pcalloc(pool, sizeof(*made));
    const char *reason = NULL;
    apr_status_t rv;

    *lock = NULL;
    *error = NULL;
    made->provider = provider;
    made->creator = getpid();
    rv = apr_pool_create(&made->pool, pool);
    if (rv != APR_SUCCESS) {
        return accept_lock_failed(error, rv, "memory", pool);
    }
    if (scope == ACCEPT_LOCK_THREADS) {
        rv = accept_lock_threads_create(&made->threads, made->pool);
    }
    if (rv == APR_SUCCESS) {
        rv = provider->create(&made->self, &reason, argument, made->pool);
    }
    if (rv != APR_SUCCESS) {
        *error = reason ? apr_pstrdup(pool, reason) : provider->name;
        apr_pool_destroy(made->pool);
        return rv;
    }
    *lock = made;
    return APR_SUCCESS;
}

apr_status_t accept_lock_destroy(accept_lock_t *lock)
{
    if (!lock->pool) {
        return APR_EINVAL;
    }
    if (lock->creator != getpid()) {
        return EPERM;
    }
    if (load(lock->owner)) {
        return APR_EBUSY;
    }
    apr_pool_destroy(lock->pool);
    lock->pool = NULL;
    return APR_SUCCESS;
}

apr_status_t accept_lock_child_init(accept_lock_t *lock)
{
    if (!lock->pool) {
        return APR_EINVAL;
    }
    store(lock->owner, 0);
    store(lock->is_stopped, 0);
    if (lock->threads) {
        accept_lock_threads_child_init(lock->threads);
    }
    return lock->provider->child_init(lock->self);
}

/* Take the lock by a function of the backend, which may wait or not. */
static inline apr_status_t take(accept_lock_t *lock, unsigned *how,
                                apr_status_t (*function)(void *, unsigned *),
                                int may_wait)
{
    const uintptr_t thread = this_thread();
    apr_status_t rv;

    *how = 0;
    if (!lock->pool) {
        return APR_EINVAL;
    }
    if (load(lock->owner) == thread) {
        return EDEADLK;
    }
    if (load(lock->is_stopped)) {
        return EINTR;
    }
    if (lock->threads) {
        rv = accept_lock_threads_enter(lock->threads, may_wait, how);
        if (rv != APR_SUCCESS) {
            return rv;
        }
    }
    rv = function(lock->self, how);
    if (rv == APR_SUCCESS) {
        store(lock->owner, thread);
    }
    else if (lock->threads) {
        accept_lock_threads_leave(lock->threads);
    }
    return rv;
}

apr_status_t accept_lock_acquire(accept_lock_t *lock, unsigned *how)
{
    return take(lock, how, lock->provider->acquire, 1);
}

apr_status_t accept_lock_try(accept_lock_t *lock, unsigned *how)
{
    return take(lock, how, lock->provider->try_acquire, 0);
}

apr_status_t accept_lock_release(accept_lock_t *lock)
{
    apr_status_t rv;

    if (!lock->pool) {
        return APR_EINVAL;
    }
    if (load(lock->owner) != this_thread()) {
        return EPERM;
    }
    store(lock->owner, 0);
    rv = lock->provider->release(lock->self);
    if (lock->threads) {
        accept_lock_threads_leave(lock->threads);
    }
    return rv;
}

apr_status_t accept_lock_stop(accept_lock_t *lock)
{
    if (!lock->pool) {
        return APR_EINVAL;
    }
    store(lock->is_stopped, 1);
    lock->provider->stop(lock->self);
    if (lock->threads) {
        accept_lock_threads_stop(lock->threads);
    }
    return lock->provider->capabilities & ACCEPT_LOCK_INTERRUPTIBLE
               ? APR_SUCCESS
               : APR_ENOTIMPL;
}

apr_status_t accept_lock_child_exit(accept_lock_t *lock)
{
    apr_status_t rv = accept_lock_release(lock);

    if (rv == EPERM) {
        return load(lock->owner) ? APR_EBUSY : APR_SUCCESS;
    }
    return rv;
}

pid_t accept_lock_holder(const accept_lock_t *lock)
{
    return lock->pool ? lock->provider->holder(lock->self) : 0;
}

const accept_lock_provider_t *accept_lock_provider(const accept_lock_t *lock)
{
    return lock->provider;
}

apr_status_t accept_lock_probe(const char **error,
                               const accept_lock_provider_t *provider,
                               const char *argument, apr_pool_t *pool)
{
    accept_lock_t *lock;
    unsigned how;
    apr_status_t rv = accept_lock_create(&lock, error, provider,
                                         ACCEPT_LOCK_PROCESSES, argument, pool);

    if (!lock) {
        return rv;
    }
    rv = accept_lock_acquire(lock, &how);
    if (rv == APR_SUCCESS) {
        rv = accept_lock_release(lock);
    }
    if (rv != APR_SUCCESS) {
        accept_lock_failed(error, rv, provider->name, pool);
    }
    accept_lock_destroy(lock);
    return rv;
}
