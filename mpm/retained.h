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
 * @file mpm/retained.h
 * @brief Memory that outlives the module, which httpd unloads at each restart.
 */

#ifndef SIGDEFER_MPM_RETAINED_H
#define SIGDEFER_MPM_RETAINED_H

#include "apr.h"

/**
 * What was kept under a key; made, and zeroed, when it is first asked for.
 * Nothing in it may point into the module.
 * @param key a string of its own
 * @param size bytes, the same each time
 *
 * Not MT-safe, not AS-safe.
 */
void *retained_data(const char *key, apr_size_t size);

#endif /* SIGDEFER_MPM_RETAINED_H */
