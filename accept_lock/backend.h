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
 * @file accept_lock/backend.h
 * @brief What the backends and the code in front of them share.
 */

#ifndef ACCEPT_LOCK_BACKEND_H
#define ACCEPT_LOCK_BACKEND_H

#include "accept_lock/accept_lock.h"

extern const accept_lock_provider_t accept_lock_futex;
extern const accept_lock_provider_t accept_lock_pthread;
extern const accept_lock_provider_t accept_lock_fcntl;

/**
 * Zeroed memory that the process shares with those that it forks; it is given
 * back when the pool is destroyed, but not by these, when they exit.
 * @return APR_SUCCESS, or the errno of mmap(), and error is set
 */
apr_status_t accept_lock_memory(void **memory, const char **error, size_t size,
                                apr_pool_t *pool);

/**
 * Say in error what failed and why.
 * @param rv what it failed with
 * @return rv
 */
apr_status_t accept_lock_failed(const char **error, apr_status_t rv,
                                const char *what, apr_pool_t *pool);

/** A backend that takes no argument has been given one; as above. */
apr_status_t accept_lock_no_argument(const char **error, const char *name,
                                     const char *argument, apr_pool_t *pool);

#endif /* ACCEPT_LOCK_BACKEND_H */
