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
 * @file mpm/listening.h
 * @brief The listening sockets among the descriptors of this process.
 *
 * ap_listeners has only one bucket of them (ListenCoresBucketsRatio).
 */

#ifndef SIGDEFER_MPM_LISTENING_H
#define SIGDEFER_MPM_LISTENING_H

/** For how many there is room, wherever they are kept. */
#define LISTENING_MAX 256

/** Whether the descriptor is one.  AS-safe. */
int listening_is_one(int fd);

/**
 * Find all of them.
 * @param fds gets them
 * @param max for how many there is room
 * @return how many there are in fds
 */
int listening_find(int *fds, int max);

#endif /* SIGDEFER_MPM_LISTENING_H */
