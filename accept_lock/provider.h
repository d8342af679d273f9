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
 * @file accept_lock/provider.h
 * @brief Accept locks for other modules of httpd, and from them.
 *
 * Every backend is a provider of httpd's: group "accept_lock", version "0",
 * the name is its own, the provider an accept_lock_provider_t.  A module that
 * has one registers it in its register_hooks:
 *
 *     ap_register_provider(pool, ACCEPT_LOCK_GROUP, my_lock.name,
 *                          ACCEPT_LOCK_VERSION, &my_lock);
 *
 * and SigDeferAcceptLock knows it.  A module that wants to use the backends
 * looks them up in the same group and calls their functions; the code in front
 * of them, which adds the scope of threads, is linked by those who have it.
 */

#ifndef ACCEPT_LOCK_PROVIDER_H
#define ACCEPT_LOCK_PROVIDER_H

#include "accept_lock/accept_lock.h"

#define ACCEPT_LOCK_GROUP "accept_lock"
#define ACCEPT_LOCK_VERSION "0"

/**
 * Register the backends that are built in.
 * @param pool that of register_hooks
 * @return APR_SUCCESS, or the status of ap_register_provider()
 *
 * Call from: register_hooks.
 */
apr_status_t accept_lock_provider_register(apr_pool_t *pool);

/**
 * A backend by name, whoever has registered it.
 * @return the backend, or NULL
 *
 * Call from: directives on, in any process.
 */
const accept_lock_provider_t *accept_lock_provider_find(const char *name);

/**
 * The names of all backends, for the text of an error: "futex, pthread,
 * fcntl[:PATH]", then those of other modules.
 *
 * Call from: as accept_lock_provider_find().
 */
const char *accept_lock_provider_names(apr_pool_t *pool);

#endif /* ACCEPT_LOCK_PROVIDER_H */
