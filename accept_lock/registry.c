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

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

typedef struct {
    void *address;
    size_t size;
    pid_t creator;
} memory_t;

/* A child destroys its copies of all pools when it exits, maybe in the handler
 * of a signal that has come while it waited.  The kernel must still be able to
 * see then what it has of the lock: after that its memory goes anyway.
 */
static apr_status_t memory_unmap(void *self)
{
    const memory_t *memory = self;

    if (memory->creator == getpid()) {
        munmap(memory->address, memory->size);
    }
    return APR_SUCCESS;
}

apr_status_t accept_lock_memory(void **memory, const char **error, size_t size,
                                apr_pool_t *pool)
{
    memory_t *made = apr_palloc(pool, sizeof(*made));

    made->size = size;
    made->creator = getpid();
    made->address = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made->address == MAP_FAILED) {
        return accept_lock_failed(error, errno, "shared memory", pool);
    }
    apr_pool_cleanup_register(pool, made, memory_unmap, apr_pool_cleanup_null);
    *memory = made->address;
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
