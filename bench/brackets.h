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
 * @file bench/brackets.h
 * @brief The four ways to bracket a section that the benches compare.
 */

#ifndef BENCH_BRACKETS_H
#define BENCH_BRACKETS_H

#include <signal.h>
#include <time.h>

#include "mod_sigdefer.h"

/* What the kernel's own way of deferring needs: the signals that mod_sigdefer
 * manages by default, and the mask to go back to.  As in any code that masks,
 * the former mask is kept, since the caller may be in a section already.
 */
static sigset_t bracket_set;
static sigset_t bracket_saved;

/* CASE(name, enter, leave) is expanded for each of the four. */
#define BRACKETS(CASE) \
    CASE(empty, (void)0, (void)0) \
    CASE(macro, SIGDEFER_ENTER(), SIGDEFER_LEAVE()) \
    CASE(call, ap_block_alarms(), ap_unblock_alarms()) \
    CASE(mask, pthread_sigmask(SIG_BLOCK, &bracket_set, &bracket_saved), \
         pthread_sigmask(SIG_SETMASK, &bracket_saved, NULL))

static void brackets_init(void)
{
    static const int managed[] = { SIGALRM, SIGHUP,  SIGINT,  SIGQUIT,
                                   SIGTERM, SIGUSR1, SIGUSR2, SIGPROF };
    size_t i;

    sigemptyset(&bracket_set);
    for (i = 0; i < sizeof(managed) / sizeof(managed[0]); ++i) {
        sigaddset(&bracket_set, managed[i]);
    }
}

static double brackets_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif /* BENCH_BRACKETS_H */
