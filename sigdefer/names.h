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
 * @file sigdefer/names.h
 * @brief The signals that can be deferred, by name, without SIG.
 */

#ifndef SIGDEFER_NAMES_H
#define SIGDEFER_NAMES_H

#include <stddef.h>

#define NAMES_LENGTH 16

/**
 * The name of a signal.
 * @param buffer for it, if it has to be made
 * @return the name; RTMIN+3 is a real-time signal, and one that has no
 *         name is its number
 *
 * MT-safe.
 */
const char *names_of_signal(int signo, char buffer[NAMES_LENGTH]);

/**
 * The signal of a name, with or without SIG, in upper or lower case.
 * @return 0: there is none, or it cannot be deferred
 *
 * MT-safe.
 */
int names_find(const char *name);

/**
 * The names that are no real-time signals', one after the other.
 * @return NULL: i is beyond the last one
 *
 * MT-safe, AS-safe.
 */
const char *names_get(size_t i);

#endif /* SIGDEFER_NAMES_H */
