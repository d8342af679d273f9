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
 * @file accept_lock/threads.h
 * @brief What stands in front of a backend in the scope of threads.
 */

#ifndef ACCEPT_LOCK_THREADS_H
#define ACCEPT_LOCK_THREADS_H

#include "accept_lock/accept_lock.h"

typedef struct threads_t threads_t;

apr_status_t accept_lock_threads_create(threads_t **threads, apr_pool_t *pool);

/** In a child: the parent's threads are not there. */
void accept_lock_threads_child_init(threads_t *threads);

/**
 * Be the one thread of the process that may contend for the lock.
 * @param how ACCEPT_LOCK_WAITED is added if that was not at once
 * @return APR_SUCCESS; EINTR: stopped; APR_EBUSY: another is, and may_wait is
 *         not set
 */
apr_status_t accept_lock_threads_enter(threads_t *threads, int may_wait,
                                       unsigned *how);

/** Let the next one, after release or a failed acquire. */
void accept_lock_threads_leave(threads_t *threads);

/** Wake all; nobody enters any more. */
void accept_lock_threads_stop(threads_t *threads);

#endif /* ACCEPT_LOCK_THREADS_H */
