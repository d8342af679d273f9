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

/* A mutex of libc's: shared by processes, robust, without priority
 * inheritance (with it a mutex is handed to a sleeper at each release, which
 * costs a hundred times as much when many contend).
 *
 * Owner death: the kernel marks the mutex by libc's list of robust mutexes,
 * the next one is told EOWNERDEAD and makes it consistent again; if he dies in
 * between, the next one is told so, too.
 *   One case is libc's own: its unlock forgets that more are asleep until the
 *   one it has woken comes to.  If he is killed before, while somebody else has
 *   the mutex, the rest sleeps until the next time that two contend.
 * Fork: libc renews its thread id.  Exec: as a death.
 * Fairness: first asleep, first woken; whoever comes along may be faster.
 * Signals: libc goes on waiting; not interruptible.
 * File: none.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "accept_lock/backend.h"
#include "accept_lock/pause.h"

/* How many waits follow at once on one before which looking was in vain. */
#define WITHOUT_LOOKS 16

/* In shared memory. */
typedef struct {
    pthread_mutex_t mutex;
    /* For questions only: written by the holder while he has the mutex.  A
     * death leaves it as it is, until the next one has the lock.
     */
    _Atomic pid_t holder;
} shared_t;

typedef struct {
    shared_t *shared;
    int looks;   /* r/o */
    int in_vain; /* how many of those waits are left */
    pid_t pid;   /* of this process */
} self_t;

#define load(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define store(word, value) \
    atomic_store_explicit(&(word), (value), memory_order_relaxed)

/* There is no pthread_mutex_destroy() to it, which would write to the mutex when
 * others may use it still.
 */
static int init_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    int rv = pthread_mutexattr_init(&attributes);

    if (rv != 0) {
        return rv;
    }
    rv = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (rv == 0) {
        rv = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    }
    if (rv == 0) {
        rv = pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_NONE);
    }
    if (rv == 0) {
        rv = pthread_mutex_init(mutex, &attributes);
    }
    pthread_mutexattr_destroy(&attributes);
    return rv;
}

static apr_status_t mutex_create(void **self, const char **error,
                                 const char *argument, apr_pool_t *pool)
{
    self_t *made = apr_pcalloc(pool, sizeof(*made));
    void *memory;
    apr_status_t rv;

    rv = accept_lock_no_argument(error, "pthread", argument, pool);
    if (rv == APR_SUCCESS) {
        rv = accept_lock_memory(&memory, error, sizeof(shared_t), pool);
    }
    if (rv != APR_SUCCESS) {
        return rv;
    }
    made->shared = memory;
    made->looks = accept_lock_looks();
    made->pid = getpid();
    rv = init_mutex(&made->shared->mutex);
    if (rv != 0) {
        return accept_lock_failed(error, rv, "robust mutex", pool);
    }
    *self = made;
    return APR_SUCCESS;
}

static apr_status_t mutex_child_init(void *self)
{
    ((self_t *)self)->pid = getpid();
    return APR_SUCCESS;
}

/* What lock or trylock has said, and what has to be done about it. */
static apr_status_t mutex_got(self_t *lock, int rv, unsigned *how)
{
    if (rv == EOWNERDEAD) {
        rv = pthread_mutex_consistent(&lock->shared->mutex);
        *how |= ACCEPT_LOCK_RECOVERED;
    }
    if (rv == 0) {
        store(lock->shared->holder, lock->pid);
    }
    return rv == EBUSY ? APR_EBUSY : rv;
}

static apr_status_t mutex_try_acquire(void *self, unsigned *how)
{
    self_t *lock = self;

    return mutex_got(lock, pthread_mutex_trylock(&lock->shared->mutex), how);
}

/* Try until it is free, if that has not been in vain of late, as it is where
 * the lock is held for long.
 */
static apr_status_t mutex_spin(self_t *lock, unsigned *how)
{
    apr_status_t rv = APR_EBUSY;
    int i;

    if (lock->in_vain > 0) {
        lock->in_vain--;
        return rv;
    }
    for (i = 0; i < lock->looks && rv == APR_EBUSY; i++) {
        accept_lock_pause(i);
        if (!load(lock->shared->holder)) {
            rv = mutex_try_acquire(lock, how);
        }
    }
    lock->in_vain = rv == APR_EBUSY ? WITHOUT_LOOKS : 0;
    return rv;
}

static apr_status_t mutex_acquire(void *self, unsigned *how)
{
    self_t *lock = self;
    apr_status_t rv = mutex_try_acquire(self, how);

    if (rv == APR_EBUSY) {
        *how |= ACCEPT_LOCK_WAITED;
        rv = mutex_spin(lock, how);
    }
    if (rv == APR_EBUSY) {
        rv = mutex_got(lock, pthread_mutex_lock(&lock->shared->mutex), how);
    }
    return rv;
}

static apr_status_t mutex_release(void *self)
{
    self_t *lock = self;

    store(lock->shared->holder, 0);
    return pthread_mutex_unlock(&lock->shared->mutex);
}

static pid_t mutex_holder(void *self)
{
    return load(((self_t *)self)->shared->holder);
}

/* Whoever waits in libc gets the lock first. */
static void mutex_stop(void *self)
{
    (void)self;
}

const accept_lock_provider_t accept_lock_pthread = {
    .name = "pthread",
    .description = "a robust mutex of libc, without priority inheritance",
    .capabilities = ACCEPT_LOCK_ROBUST,
    .create = mutex_create,
    .child_init = mutex_child_init,
    .acquire = mutex_acquire,
    .try_acquire = mutex_try_acquire,
    .release = mutex_release,
    .holder = mutex_holder,
    .stop = mutex_stop,
};
