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
 * @file accept_lock/pause.h
 * @brief How a backend looks again, before it sleeps.
 */

#ifndef ACCEPT_LOCK_PAUSE_H
#define ACCEPT_LOCK_PAUSE_H

#include <unistd.h>

/* The pauses double each time: some microseconds, less than it costs to sleep
 * and be woken.  Looking more often slows down the one that has the lock.
 */
#define LOOKS 5
#define FIRST_PAUSE 16

/** How many looks there are; with one processor the owner does not run. */
static inline int accept_lock_looks(void)
{
    return sysconf(_SC_NPROCESSORS_ONLN) > 1 ? LOOKS : 0;
}

/** Before a look: they count from 0. */
static inline void accept_lock_pause(int look)
{
    int times = FIRST_PAUSE << look;

    while (times-- > 0) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

#endif /* ACCEPT_LOCK_PAUSE_H */
