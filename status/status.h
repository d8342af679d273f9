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
 * @file status/status.h
 * @brief The operator's view: statistics, and the handler sigdefer-status.
 *
 * slots.c    Statistics in shared memory, a slot for each child.
 * model.c    One snapshot, with everything that is to be shown.
 * text.c, json.c, metrics.c, html.c   One rendering each of the snapshot.
 * page.c     The handler, and a section on mod_status's page.
 */

#ifndef SIGDEFER_STATUS_STATUS_H
#define SIGDEFER_STATUS_STATUS_H

#include "httpd.h"

#include "status/slots.h"

/** A directive and what counts; the name NULL ends a list of them. */
typedef struct {
    const char *name;
    const char *value;
} status_setting_t;

/**
 * Begin a generation.
 * @param settings what is configured, lasts as long as the generation
 * @param counts whether there are to be statistics; where there is no shared
 *        memory it is logged, and there are none
 *
 * Call from: post_config of the pass that is going to run.
 */
void status_init(server_rec *s, const status_setting_t *settings, int counts);

/**
 * The handler, and the hook of mod_status.
 *
 * Call from: register_hooks.
 */
void status_register_hooks(void);

#endif /* SIGDEFER_STATUS_STATUS_H */
