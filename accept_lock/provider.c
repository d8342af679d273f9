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

/* The backends as providers of httpd's; nothing else of accept_lock/ knows
 * httpd.
 */

#include "ap_provider.h"
#include "apr_strings.h"
#include "apr_tables.h"

#include "accept_lock/provider.h"

apr_status_t accept_lock_provider_register(apr_pool_t *pool)
{
    const accept_lock_provider_t *provider;
    apr_status_t rv = APR_SUCCESS;
    int i;

    for (i = 0; rv == APR_SUCCESS && (provider = accept_lock_builtin(i)); i++) {
        rv = ap_register_provider(pool, ACCEPT_LOCK_GROUP, provider->name,
                                  ACCEPT_LOCK_VERSION, provider);
    }
    return rv;
}

const accept_lock_provider_t *accept_lock_provider_find(const char *name)
{
    return ap_lookup_provider(ACCEPT_LOCK_GROUP, name, ACCEPT_LOCK_VERSION);
}

static const char *append(apr_pool_t *pool, const char *names,
                          const accept_lock_provider_t *provider)
{
    return apr_pstrcat(
        pool, names ? names : "", names ? ", " : "", provider->name,
        provider->capabilities & ACCEPT_LOCK_NEEDS_FILE ? "[:PATH]" : "", NULL);
}

const char *accept_lock_provider_names(apr_pool_t *pool)
{
    const accept_lock_provider_t *provider;
    const ap_list_provider_names_t *other;
    apr_array_header_t *others;
    const char *names = NULL;
    int i;

    for (i = 0; (provider = accept_lock_builtin(i)) != NULL; i++) {
        names = append(pool, names, provider);
    }
    others = ap_list_provider_names(pool, ACCEPT_LOCK_GROUP,
                                    ACCEPT_LOCK_VERSION);
    other = (const ap_list_provider_names_t *)others->elts;
    for (i = 0; i < others->nelts; i++) {
        provider = accept_lock_provider_find(other[i].provider_name);
        if (provider && provider != accept_lock_find(provider->name)) {
            names = append(pool, names, provider);
        }
    }
    return names;
}
