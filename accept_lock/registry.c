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

/* The table of the backends, and what their create functions share. */

#include <string.h>

#include "apr_shm.h"
#include "apr_strings.h"

#include "accept_lock/backend.h"

#define BUILTIN 3

static const accept_lock_provider_t *const builtin[BUILTIN] = {
    &accept_lock_futex,
    &accept_lock_pthread,
    &accept_lock_fcntl,
};

const accept_lock_provider_t *accept_lock_builtin(int index)
{
    return index >= 0 && index < BUILTIN ? builtin[index] : NULL;
}

const accept_lock_provider_t *accept_lock_find(const char *name)
{
    const accept_lock_provider_t *provider;
    int i;

    for (i = 0; (provider = accept_lock_builtin(i)) != NULL; i++) {
        if (strcmp(provider->name, name) == 0) {
            return provider;
        }
    }
    return NULL;
}

apr_status_t accept_lock_memory(void **memory, const char **error, size_t size,
                                apr_pool_t *pool)
{
    apr_shm_t *shm;
    apr_status_t rv = apr_shm_create(&shm, size, NULL, pool);

    if (rv != APR_SUCCESS) {
        return accept_lock_failed(error, rv, "shared memory", pool);
    }
    *memory = apr_shm_baseaddr_get(shm);
    memset(*memory, 0, size);
    return APR_SUCCESS;
}

apr_status_t accept_lock_failed(const char **error, apr_status_t rv,
                                const char *what, apr_pool_t *pool)
{
    char text[120];

    *error = apr_psprintf(pool, "%s: %s", what,
                          apr_strerror(rv, text, sizeof(text)));
    return rv;
}

apr_status_t accept_lock_no_argument(const char **error, const char *name,
                                     const char *argument, apr_pool_t *pool)
{
    if (!argument) {
        return APR_SUCCESS;
    }
    *error = apr_psprintf(pool, "%s takes no argument: %s", name, argument);
    return APR_EINVAL;
}
