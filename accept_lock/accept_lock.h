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

/**
 * @file accept_lock/accept_lock.h
 * @brief Accept locks: one thread of one process at a time, in a tree of
 *        processes that may be killed at any instruction.
 *
 * A lock is created in the parent, before it forks the processes that use it,
 * and works in all of them, also after they have changed their user.  It is
 * one of several backends, see accept_lock_builtin(), each with a file of its
 * own; other modules add theirs, see accept_lock/provider.h.
 *
 * A life:
 *
 *     parent   accept_lock_create()   once a generation and listener bucket
 *     child    accept_lock_child_init()
 *              accept_lock_acquire(), accept_lock_release()   as often as
 *                                     there are connections
 *              accept_lock_stop()     when it is to go, in a signal handler
 *              accept_lock_child_exit()
 *     parent   accept_lock_destroy() when the last child of the generation
 *                                     has gone
 *
 * If whoever holds the lock dies, by whatever signal and at whatever
 * instruction, the next one has it within 100 ms and is told, once:
 * ACCEPT_LOCK_RECOVERED.  There is nothing to repair: what an accept lock
 * guards is a queue in the kernel.
 *
 * Only APR is needed, not httpd.  Statuses are APR's: 0, APR_EBUSY,
 * APR_ENOTIMPL, or an errno, which on Unix is an apr_status_t without change.
 * Test them with APR_STATUS_IS_*, or compare them with the errno where APR has
 * no such macro (EPERM, EDEADLK).
 */

#ifndef ACCEPT_LOCK_H
#define ACCEPT_LOCK_H

#include <sys/types.h>

#include "apr_errno.h"
#include "apr_pools.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A lock.  Its memory that all processes share is made by the backend. */
typedef struct accept_lock_t accept_lock_t;

/** Whom a lock keeps apart. */
typedef enum {
    /**
     * Processes.  In each of them one thread at a time calls acquire, try or
     * release; it need not always be the same (worker's listener, prefork).
     */
    ACCEPT_LOCK_PROCESSES,
    /**
     * Threads and processes.  At most one thread of a process contends for
     * the lock with other processes.  The others wait inside, and the one that
     * came last is woken first, on purpose: its stack is still in the cache,
     * and those that are not needed sleep on.
     */
    ACCEPT_LOCK_THREADS
} accept_lock_scope_e;

/* ---- What a backend can do ---------------------------------------------- */

/** The death of a holder is noticed by the kernel, at once. */
#define ACCEPT_LOCK_ROBUST 0x01
/**
 * A handled signal ends the wait of the thread that it interrupts, and
 * accept_lock_stop() leaves no window.  Without it acquire waits on until the
 * lock is free.
 */
#define ACCEPT_LOCK_INTERRUPTIBLE 0x02
/** The argument is a folder, in which a file is made and unlinked at once. */
#define ACCEPT_LOCK_NEEDS_FILE 0x04

/* ---- What acquire and try tell ------------------------------------------ */

/** Somebody else had the lock. */
#define ACCEPT_LOCK_WAITED 0x01
/** The last holder died with the lock; told once for each death. */
#define ACCEPT_LOCK_RECOVERED 0x02

/* ---- The interface for backends ----------------------------------------- */

/**
 * A backend: a constant, the last thing in its file.  None of the functions
 * is NULL.  self is what create made.
 *
 * Scope and misuse are not the backend's affair: it is called by one thread of
 * a process at a time, which may be another one each time; acquire only by one
 * that does not hold the lock, release by the one that does, and nothing after
 * destroy or, but for release, after stop.  Only stop and holder come at any
 * time, from any thread, in signal handlers, too.
 *
 * Statuses and safety are those of the functions below that call them.
 */
typedef struct {
    /** In directives and logs: a word of lower-case letters and digits. */
    const char *name;
    /** One line for people. */
    const char *description;
    /** ACCEPT_LOCK_ROBUST, ... */
    unsigned capabilities;

    /**
     * All that it takes belongs to the pool, with cleanups of APR's alone:
     * httpd unloads its modules at a restart, and the locks of a generation
     * that still serves go later, when the backend's code may lie elsewhere.
     */
    apr_status_t (*create)(void **self, const char **error,
                           const char *argument, apr_pool_t *pool);
    /** In a child: forget what the parent held, renew what fork changes. */
    apr_status_t (*child_init)(void *self);
    /** ACCEPT_LOCK_WAITED and _RECOVERED are added to *how. */
    apr_status_t (*acquire)(void *self, unsigned *how);
    apr_status_t (*try_acquire)(void *self, unsigned *how);
    apr_status_t (*release)(void *self);
    /** 0: nobody. */
    pid_t (*holder)(void *self);
    /** See to it that the wait ends, also one that is just to begin. */
    void (*stop)(void *self);
} accept_lock_provider_t;

/**
 * The backends that are built in, best first.
 * @param index from 0 on
 * @return the backend, or NULL if there are no more
 *
 * Safety: MT-safe, AS-safe, after fork.
 * Call from: anywhere.
 */
const accept_lock_provider_t *accept_lock_builtin(int index);

/**
 * A backend that is built in, by name.
 * @param name as a user writes it, without its argument
 * @return the backend, or NULL if there is none of that name
 *
 * Safety: MT-safe, AS-safe, after fork.
 * Call from: anywhere.  Inside httpd accept_lock_provider_find() knows more.
 */
const accept_lock_provider_t *accept_lock_find(const char *name);

/**
 * Whether a backend works here: a lock is created, acquired, released and
 * destroyed.
 * @param error where it does not: what is wrong, for people; from the pool
 * @param provider the backend
 * @param argument as for accept_lock_create()
 * @param pool for the error
 * @return APR_SUCCESS, or what accept_lock_create() or the first acquire says
 *
 * Safety: MT-safe.
 * Call from: the parent, when the configuration is checked.
 */
apr_status_t accept_lock_probe(const char **error,
                               const accept_lock_provider_t *provider,
                               const char *argument, apr_pool_t *pool);

/* ---- The parent --------------------------------------------------------- */

/**
 * Create a lock; nobody holds it.
 * @param lock the lock; NULL if there is none
 * @param error if it fails: what is wrong, with the path, for people; from
 *        the pool
 * @param provider the backend
 * @param scope whom it keeps apart
 * @param argument the backend's: a folder for ACCEPT_LOCK_NEEDS_FILE, NULL
 *        for that of temporary files; else NULL
 * @param pool the process pool, or one that lasts as long: children of older
 *        generations use their lock after a restart, and a lock that is
 *        unmapped cannot be recovered.  What the lock takes is given back by
 *        destroy, except for the lock itself, some 100 bytes; or with the pool,
 *        which may go in place of destroy.
 * @return APR_SUCCESS; APR_ENOTIMPL: not on this platform; APR_EINVAL: an
 *         argument for a backend that takes none; ENOTSUP and others: the
 *         errno of what failed (ENOENT, ENOTDIR, EACCES, EROFS, ENOSPC, ENOLCK,
 *         EMFILE, ENOMEM).  Nothing is left behind then.
 *
 * Safety: MT-safe.
 * Call from: the parent, before it forks.
 */
apr_status_t accept_lock_create(accept_lock_t **lock, const char **error,
                                const accept_lock_provider_t *provider,
                                accept_lock_scope_e scope, const char *argument,
                                apr_pool_t *pool);

/**
 * Destroy a lock; the process's view of it, so that others that still use it
 * are not disturbed.  Whatever is called with it afterwards says EINVAL.
 * @return APR_SUCCESS; APR_EINVAL: it has been destroyed; EPERM: the caller
 *         has not created it; APR_EBUSY: the calling process holds it
 *
 * Safety: no thread of the process may be in a call with this lock.
 * Call from: the process that has created it, when its users have gone.
 */
apr_status_t accept_lock_destroy(accept_lock_t *lock);

/* ---- Children ----------------------------------------------------------- */

/**
 * Get a lock ready for use in a process that has been forked after it was
 * created.  What the parent held at that moment, the child does not hold; that
 * the parent was stopped does not count, either.
 * @return APR_SUCCESS; APR_EINVAL: it has been destroyed
 *
 * Safety: after fork, once.
 * Call from: the child, before anything else is done with the lock in it.
 */
apr_status_t accept_lock_child_init(accept_lock_t *lock);

/**
 * Wait until the lock can be had, and take it.
 * @param how set to 0, ACCEPT_LOCK_WAITED, ACCEPT_LOCK_RECOVERED or both, if
 *        the lock has been acquired
 * @return APR_SUCCESS; EINTR: not acquired, since a handler ran in this thread
 *         (ACCEPT_LOCK_INTERRUPTIBLE), or the lock is stopped in this process
 *         (always); EDEADLK: the calling thread holds it; APR_EINVAL: it has
 *         been destroyed; any other: the backend does not work any more
 *
 * A handler with SA_RESTART makes the kernel take up fcntl's wait again; it
 * ends there, too, if the handler is not one of that kind.  In the scope of
 * threads those that wait inside the process take no notice of signals.
 *
 * Safety: MT-safe as the scope says.  Not AS-safe, and not to be left by a
 * longjmp from a handler.
 * Call from: the parent, or a child after accept_lock_child_init().
 */
apr_status_t accept_lock_acquire(accept_lock_t *lock, unsigned *how);

/**
 * Take the lock if it is free.
 * @param how as for accept_lock_acquire()
 * @return APR_SUCCESS; APR_EBUSY: another has it, or in the scope of threads
 *         another thread of the process waits for it; the rest as for
 *         accept_lock_acquire()
 *
 * Safety, Call from: as accept_lock_acquire().
 */
apr_status_t accept_lock_try(accept_lock_t *lock, unsigned *how);

/**
 * Release the lock, also if it is stopped.
 * @return APR_SUCCESS; EPERM: the calling thread does not hold it, and nothing
 *         has changed; APR_EINVAL: it has been destroyed
 *
 * Safety, Call from: as accept_lock_acquire().
 */
apr_status_t accept_lock_release(accept_lock_t *lock);

/**
 * This process wants the lock no more: from now on, and in a wait that is
 * under way, acquire and try say EINTR in it.  It cannot be undone.
 *
 * A wait for other processes ends when a handled signal reaches the thread
 * that waits; there is no window in which it could be missed.  So either call
 * this in the handler, if it runs in that thread, or call it and then signal
 * the thread.  Threads that wait inside the process are all woken.
 * @return APR_SUCCESS; APR_ENOTIMPL: not ACCEPT_LOCK_INTERRUPTIBLE, a wait
 *         that is under way lasts until the lock is free; APR_EINVAL: it has
 *         been destroyed
 *
 * Safety: MT-safe; AS-safe in the scope of processes only.
 * Call from: a child.
 */
apr_status_t accept_lock_stop(accept_lock_t *lock);

/**
 * The child ends in an orderly way: release the lock if the calling thread
 * holds it, so that the death of an owner is always an abnormal one.
 * @return APR_SUCCESS, whether it was held or not; APR_EBUSY: another thread
 *         of the process holds it, which will count as the death of an owner;
 *         APR_EINVAL: it has been destroyed
 *
 * Safety: not AS-safe.
 * Call from: a pre-cleanup of pchild.
 */
apr_status_t accept_lock_child_exit(accept_lock_t *lock);

/* ---- Questions ---------------------------------------------------------- */

/**
 * Who holds the lock, as it was a moment ago.
 * @return the id of the process or thread, as the backend has it; 0: nobody,
 *         or the lock has been destroyed, or it cannot be said yet
 *
 * Safety: MT-safe, AS-safe, after fork.
 * Call from: any process of the tree.
 */
pid_t accept_lock_holder(const accept_lock_t *lock);

/**
 * The backend of a lock: its name, description and capabilities.
 * @return the backend; also when the lock has been destroyed
 *
 * Safety: MT-safe, AS-safe, after fork.
 * Call from: anywhere.
 */
const accept_lock_provider_t *accept_lock_provider(const accept_lock_t *lock);

#ifdef __cplusplus
}
#endif

#endif /* ACCEPT_LOCK_H */
