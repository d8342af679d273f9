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

/* An accept lock of one's own: mod_sigdefer's futex, but whoever finds it
 * taken gives up the processor a few times before he sleeps.
 *
 *     apxs -i -a -c -I .../mod_sigdefer mod_example_lock.c
 *
 *     SigDeferAcceptLock yielding
 *
 * Loaded after mod_sigdefer, which has registered futex by then.
 */

#include <sched.h>

#include "ap_provider.h"
#include "httpd.h"
#include "http_config.h"

#include "accept_lock/provider.h"

#define YIELDS 10

static const accept_lock_provider_t *futex;
static accept_lock_provider_t yielding; /* r/o after register_hooks */

static apr_status_t yielding_acquire(void *self, unsigned *how)
{
    apr_status_t rv = futex->try_acquire(self, how);
    int i;

    for (i = 0; APR_STATUS_IS_EBUSY(rv) && i < YIELDS; i++) {
        sched_yield();
        rv = futex->try_acquire(self, how);
    }
    return APR_STATUS_IS_EBUSY(rv) ? futex->acquire(self, how) : rv;
}

static void register_hooks(apr_pool_t *p)
{
    futex = ap_lookup_provider(ACCEPT_LOCK_GROUP, "futex", ACCEPT_LOCK_VERSION);
    if (!futex) {
        return; /* SigDeferAcceptLock will say what there is */
    }
    yielding = *futex;
    yielding.name = "yielding";
    yielding.description = "futex, after some turns given away";
    yielding.acquire = yielding_acquire;
    ap_register_provider(p, ACCEPT_LOCK_GROUP, yielding.name,
                         ACCEPT_LOCK_VERSION, &yielding);
}

AP_DECLARE_MODULE(example_lock) = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, register_hooks
};
