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
 * @file mpm/offer.h
 * @brief What mod_sigdefer has for an MPM that asks for it.
 *
 * What the MPMs of httpd call is re-pointed, since they do not know of us.  An
 * MPM that does can ask:
 *
 *     sigdefer_mpm_offer = APR_RETRIEVE_OPTIONAL_FN(sigdefer_mpm_offer);
 *     const mpm_offer_t *offer = sigdefer_mpm_offer ? sigdefer_mpm_offer()
 *                                                   : NULL;
 *
 * in its open_logs, and use what is there.  NULL: mod_sigdefer is not loaded.
 */

#ifndef SIGDEFER_MPM_OFFER_H
#define SIGDEFER_MPM_OFFER_H

#include "apr_optional.h"
#include "apr_proc_mutex.h"
#include "httpd.h"

/**
 * How an MPM locks around accept: as httpd's and APR's functions of these
 * names, and one more.  In a child one thread at a time may call lock and
 * unlock; it need not always be the same.
 */
typedef struct {
    apr_status_t (*create)(apr_proc_mutex_t **mutex, const char **name,
                           const char *type, const char *instance,
                           server_rec *s, apr_pool_t *pool,
                           apr_int32_t options);
    apr_status_t (*child_init)(apr_proc_mutex_t **mutex, const char *file,
                               apr_pool_t *pchild);
    apr_status_t (*lock)(apr_proc_mutex_t *mutex);
    apr_status_t (*unlock)(apr_proc_mutex_t *mutex);
    const char *(*name)(apr_proc_mutex_t *mutex);
    /* The child is to go: lock says EINTR from now on, and in a wait that is
     * under way once a handled signal reaches the thread.
     */
    void (*stop)(void);
} mpm_accept_calls_t;

typedef struct {
    const mpm_accept_calls_t *accept; /* NULL: the MPM takes httpd's */
    int hold_seconds;                 /* SigDeferHoldTime; 0: no hold */
} mpm_offer_t;

APR_DECLARE_OPTIONAL_FN(const mpm_offer_t *, sigdefer_mpm_offer, (void));

#endif /* SIGDEFER_MPM_OFFER_H */
