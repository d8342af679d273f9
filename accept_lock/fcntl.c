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

/* POSIX record locks on a file that has no name any more.
 *
 * Such a lock belongs to a process, not to a thread and not to a descriptor,
 * and any close of the file in a process drops it.  So the file is opened in
 * the parent, unlinked at once, inherited, and never opened or closed by a
 * child: it is the parent's pool that closes it.  Threads are kept apart in front of this.
 * Locks of open file descriptions would not do: descriptors that are inherited
 * share one, and exclude nobody.
 *
 * Owner death: the kernel drops the lock.  Who had it stands in shared memory,
 *   so that the next one can tell a death from a release.  It is written while
 *   the lock is held: of a holder that dies within acquire or release, before
 *   it is written or after it is cleared, nobody is told; nothing else is lost.
 * Fork: the child does not have the parent's lock.  Exec: the file is closed
 *   and the lock dropped; as a death.
 * Fairness: the kernel's: who waits is woken, all at once, and tries again.
 * Signals: a handled one ends the wait, unless its handler has SA_RESTART.
 * File: one, while it is created; its file system must have locks.
 */

#include <fcntl.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "apr_file_io.h"
#include "apr_portable.h"
#include "apr_strings.h"

#include "accept_lock/backend.h"

/* In shared memory. */
typedef struct {
    _Atomic pid_t holder; /* written by whoever has the lock */
} shared_t;

/* Of this process. */
typedef struct {
    shared_t *shared;
    int file; /* r/o */
    pid_t pid;

    /* What to wait for: the lock or, once it is stopped, to give it up, which
     * needs no waiting.  The kernel reads it when the wait begins or is taken
     * up again, so a handler that comes just before still ends it.
     */
    struct flock wanted;
} self_t;

#define load(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define store(word, value) \
    atomic_store_explicit(&(word), (value), memory_order_relaxed)

static apr_status_t fcntl_set(self_t *lock, short type)
{
    struct flock wanted = { .l_type = type, .l_whence = SEEK_SET };

    return fcntl(lock->file, F_SETLK, &wanted) == 0 ? APR_SUCCESS : errno;
}

static int fcntl_is_stopped(self_t *lock)
{
    return *(volatile short *)&lock->wanted.l_type == F_UNLCK;
}

static void fcntl_got(self_t *lock, unsigned *how)
{
    if (load(lock->shared->holder)) {
        *how |= ACCEPT_LOCK_RECOVERED;
    }
    store(lock->shared->holder, lock->pid);
}

static apr_status_t fcntl_try_acquire(void *self, unsigned *how)
{
    self_t *lock = self;
    apr_status_t rv = fcntl_set(lock, F_WRLCK);

    if (rv == EACCES || rv == EAGAIN) {
        return APR_EBUSY;
    }
    if (rv == APR_SUCCESS) {
        fcntl_got(lock, how);
    }
    return rv;
}

/* The kernel takes all threads of a process for one, so with two locks it sees
 * circles where there are none, and refuses to wait.  Then there is nothing
 * to wait for but time.
 */
static apr_status_t fcntl_wait(self_t *lock)
{
    const struct timespec nap = { 0, 1000000 };
    apr_status_t rv;

    while (fcntl(lock->file, F_SETLKW, &lock->wanted) != 0) {
        rv = errno;
        if (rv != EDEADLK) {
            return rv;
        }
        if (nanosleep(&nap, NULL) != 0) {
            return errno;
        }
    }
    return APR_SUCCESS;
}

static apr_status_t fcntl_acquire(void *self, unsigned *how)
{
    self_t *lock = self;
    const int is_held = load(lock->shared->holder) != 0;
    apr_status_t rv = fcntl_wait(lock);

    if (rv != APR_SUCCESS) {
        return rv;
    }
    if (fcntl_is_stopped(lock)) {
        fcntl_set(lock, F_UNLCK);
        return EINTR;
    }
    if (is_held) {
        *how |= ACCEPT_LOCK_WAITED;
    }
    fcntl_got(lock, how);
    return APR_SUCCESS;
}

static apr_status_t fcntl_release(void *self)
{
    self_t *lock = self;

    store(lock->shared->holder, 0);
    return fcntl_set(lock, F_UNLCK);
}

static pid_t fcntl_holder(void *self)
{
    return load(((self_t *)self)->shared->holder);
}

static void fcntl_no_stop(self_t *lock)
{
    lock->wanted.l_type = F_WRLCK;
    lock->wanted.l_whence = SEEK_SET;
}

/* A file without a name, closed with the pool and at exec. */
static apr_status_t fcntl_open(int *file, const char *folder, apr_pool_t *pool)
{
    char *path = apr_pstrcat(pool, folder, "/accept_lock.XXXXXX", NULL);
    apr_file_t *made;
    apr_status_t rv;

    rv = apr_file_mktemp(&made, path,
                         APR_FOPEN_CREATE | APR_FOPEN_READ | APR_FOPEN_WRITE
                             | APR_FOPEN_EXCL,
                         pool);
    if (rv == APR_SUCCESS) {
        rv = apr_file_remove(path, pool);
    }
    if (rv == APR_SUCCESS) {
        rv = apr_os_file_get(file, made);
    }
    return rv;
}

static apr_status_t fcntl_create(void **self, const char **error,
                                 const char *argument, apr_pool_t *pool)
{
    self_t *made = apr_pcalloc(pool, sizeof(*made));
    const char *folder = argument;
    void *memory;
    apr_status_t rv;

    if (!folder) {
        rv = apr_temp_dir_get(&folder, pool);
        if (rv != APR_SUCCESS) {
            return accept_lock_failed(error, rv, "temporary files", pool);
        }
    }
    rv = accept_lock_memory(&memory, error, sizeof(shared_t), pool);
    if (rv != APR_SUCCESS) {
        return rv;
    }
    made->shared = memory;
    made->pid = getpid();
    fcntl_no_stop(made);
    rv = fcntl_open(&made->file, folder, pool);
    if (rv != APR_SUCCESS) {
        return accept_lock_failed(error, rv, folder, pool);
    }
    rv = fcntl_set(made, F_WRLCK);
    if (rv == APR_SUCCESS) {
        rv = fcntl_set(made, F_UNLCK);
    }
    if (rv != APR_SUCCESS) {
        return accept_lock_failed(
            error, rv, apr_pstrcat(pool, folder, ": locks", NULL), pool);
    }
    *self = made;
    return APR_SUCCESS;
}

static apr_status_t fcntl_child_init(void *self)
{
    fcntl_no_stop(self);
    ((self_t *)self)->pid = getpid();
    return APR_SUCCESS;
}

static void fcntl_stop(void *self)
{
    *(volatile short *)&((self_t *)self)->wanted.l_type = F_UNLCK;
}

const accept_lock_provider_t accept_lock_fcntl = {
    .name = "fcntl",
    .description = "a record lock on an unlinked file",
    .capabilities = ACCEPT_LOCK_ROBUST | ACCEPT_LOCK_INTERRUPTIBLE
                    | ACCEPT_LOCK_NEEDS_FILE,
    .create = fcntl_create,
    .child_init = fcntl_child_init,
    .acquire = fcntl_acquire,
    .try_acquire = fcntl_try_acquire,
    .release = fcntl_release,
    .holder = fcntl_holder,
    .stop = fcntl_stop,
};
