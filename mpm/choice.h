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
 * @file mpm/choice.h
 * @brief Which accept lock the MPM that runs is to have: SigDeferAcceptLock,
 *        Mutex, and what works here.
 */

#ifndef SIGDEFER_MPM_CHOICE_H
#define SIGDEFER_MPM_CHOICE_H

#include "httpd.h"
#include "http_config.h"

#include "accept_lock/accept_lock.h"

typedef struct {
    const accept_lock_provider_t *provider; /* NULL: the MPM keeps its own */
    int is_exclusive;                       /* no lock: one is woken */
    const char *argument;                   /* of the provider */
    int is_asked_for;                       /* by name: no other will do */
    const char *why;                        /* for people */
} choice_t;

/**
 * Forget the lines of the last pass.
 *
 * Call from: pre_config.
 */
void choice_reset(apr_pool_t *pconf);

/**
 * The directive SigDeferAcceptLock MECHANISM [MPM ...].
 * @return NULL, or what is wrong with the line and what is legal
 */
const char *choice_add(cmd_parms *cmd, void *dummy, int argc,
                       char *const argv[]);

/**
 * Choose for the MPM that runs.  A lock that is asked for by name is tried.
 * @param choice from the pool
 * @return OK; !OK: it does not work here, which has been logged
 *
 * Call from: check_config.
 */
int choice_make(choice_t *choice, apr_pool_t *pconf);

#endif /* SIGDEFER_MPM_CHOICE_H */
