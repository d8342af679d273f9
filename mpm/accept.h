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
 * @file mpm/accept.h
 * @brief An accept lock of ours for the MPM of an unmodified httpd.
 */

#ifndef SIGDEFER_MPM_ACCEPT_H
#define SIGDEFER_MPM_ACCEPT_H

#include "httpd.h"
#include "http_config.h"
#include "scoreboard.h"

#include "mpm/accept_stats.h"
#include "mpm/choice.h"
#include "mpm/offer.h"

/**
 * Have the MPM take a lock of ours for its accept mutex.  Where that cannot be
 * done it keeps its own; see accept_report().
 * @param choice what lock, lasts as long as pconf; NULL: SigDefer Off
 *
 * Call from: check_config, since MPMs make their mutexes first thing in
 * open_logs.  Nothing else may be bound yet.
 */
void accept_bind(apr_pool_t *pconf, server_rec *s, const choice_t *choice);

/**
 * What an MPM calls that asks for it, after accept_bind().
 * @return NULL: its own
 */
const mpm_accept_calls_t *accept_calls(void);

/**
 * The MPM's open_logs begins, and has ended: what it makes between the two is
 * its accept mutex, if it is built into httpd.
 */
void accept_making(int begins);

/**
 * Children are going to be made.
 *
 * Call from: post_config of the pass that is going to run, last of all.
 */
void accept_start(void);

/**
 * Log what the MPM has for an accept lock, and why.
 * @param p for the text
 *
 * Call from: post_config of the pass that is going to run.
 */
void accept_report(apr_pool_t *p);

/**
 * Why the MPM does not take the lock that is asked for by name.
 * @return NULL: it does, or none is asked for
 */
const char *accept_idle(void);

/** For people: what the MPM has, and why. */
const char *accept_description(apr_pool_t *p);

/** What is to be added to it, or the empty string. */
const char *accept_remark(void);

/**
 * The child is to go: it waits no more, and takes the lock no more.
 *
 * Safety: AS-safe.
 * Call from: a child.
 */
void accept_stop(void);

/**
 * Count there from now on; else nobody reads what is counted.
 *
 * Call from: child_init.
 */
void accept_count(accept_stats_t *where);

/**
 * Give back the locks of a generation; all of its children have gone.
 *
 * Call from: end_generation.
 */
void accept_end_generation(ap_generation_t generation);

#endif /* SIGDEFER_MPM_ACCEPT_H */
