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

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

#include "stats.h"

/* What stood for SIGCHLD before the reaper.  Written before the reaper's
 * handler is registered, r/o afterwards.
 */
static struct sigaction chained;

int sigdefer_reap(void)
{
    int saved_errno = errno;
    int reaped = 0;

    /* one signal may stand for several children */
    while (waitpid(-1, NULL, WNOHANG) > 0) {
        reaped++;
    }
    stats_add(reaped, (uint64_t)reaped);
    errno = saved_errno;
    return reaped;
}

static void on_child(int signo, siginfo_t *info, void *context)
{
    sigdefer_reap();
    if (chained.sa_flags & SA_SIGINFO) {
        chained.sa_sigaction(signo, info, context);
    }
    else if (chained.sa_handler != SIG_DFL && chained.sa_handler != SIG_IGN) {
        chained.sa_handler(signo);
    }
}

int sigdefer_reap_on_signal(void)
{
    struct sigaction found;
    struct sigaction act;
    sigset_t child;
    int rv = sigdefer_sigaction(SIGCHLD, NULL, &found);

    if (rv != 0 || found.sa_sigaction == on_child) {
        return rv;
    }
    chained = found;
    memset(&act, 0, sizeof(act));
    act.sa_mask = chained.sa_mask;
    act.sa_sigaction = on_child;
    act.sa_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDSTOP;
    rv = sigdefer_sigaction(SIGCHLD, &act, NULL);
    if (rv == 0) {
        /* the threads of worker and event have all signals blocked */
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        rv = pthread_sigmask(SIG_UNBLOCK, &child, NULL);
    }
    return rv;
}
