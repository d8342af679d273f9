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
 * @file mpm/exclusive.h
 * @brief A connection wakes one child of event, not all that wait.
 */

#ifndef SIGDEFER_MPM_EXCLUSIVE_H
#define SIGDEFER_MPM_EXCLUSIVE_H

#include "httpd.h"
#include "http_config.h"

/**
 * Try whether the kernel wakes one waiter, and all of them when asked to.
 * @param error on failure: what did not work, for people
 */
apr_status_t exclusive_probe(const char **error);

/**
 * Bind what event calls for its listening sockets.  Nothing changes before
 * exclusive_start().
 * @param event its module record
 * @param failed on failure: what could not be bound
 *
 * Call from: check_config.  bind_undo() undoes it.
 */
apr_status_t exclusive_bind(const module *event, const char **failed);

/**
 * The children that are made from now on wait exclusively.
 * @return APR_SUCCESS; APR_EBUSY: somebody else handles SIGCHLD in the parent;
 *         all children are woken then, as on a stock httpd
 *
 * Call from: post_config of the pass that is going to run, last of all.
 */
apr_status_t exclusive_start(void);

/**
 * The parent has its SIGCHLD back.
 *
 * Call from: a cleanup of pconf, in the parent.
 */
void exclusive_end(void);

/**
 * This is a child.
 *
 * Call from: child_init, before SIGCHLD is touched.
 */
void exclusive_child_init(void);

/**
 * This child may have been woken for a listening socket, and does not accept:
 * others are woken if something waits to be accepted.  Does nothing where
 * children do not wait exclusively.
 *
 * Safety: MT-safe, AS-safe.
 */
void exclusive_pass_on(int listener);

#endif /* SIGDEFER_MPM_EXCLUSIVE_H */
