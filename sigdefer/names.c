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

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "names.h"

static const struct {
    const char *name;
    int signo;
} names[] = {
    { "ALRM", SIGALRM }, { "CHLD", SIGCHLD },     { "CONT", SIGCONT },
    { "HUP", SIGHUP },   { "INT", SIGINT },       { "IO", SIGIO },
    { "PIPE", SIGPIPE }, { "PROF", SIGPROF },     { "QUIT", SIGQUIT },
    { "TERM", SIGTERM }, { "TSTP", SIGTSTP },     { "TTIN", SIGTTIN },
    { "TTOU", SIGTTOU }, { "URG", SIGURG },       { "USR1", SIGUSR1 },
    { "USR2", SIGUSR2 }, { "VTALRM", SIGVTALRM }, { "WINCH", SIGWINCH },
    { "XCPU", SIGXCPU }, { "XFSZ", SIGXFSZ },
};

#define NAMES (sizeof(names) / sizeof(names[0]))

const char *names_get(size_t i)
{
    return i < NAMES ? names[i].name : NULL;
}

const char *names_of_signal(int signo, char buffer[NAMES_LENGTH])
{
    size_t i;

    for (i = 0; i < NAMES; i++) {
        if (names[i].signo == signo) {
            return names[i].name;
        }
    }
    if (signo < SIGRTMIN) {
        snprintf(buffer, NAMES_LENGTH, "%d", signo);
    }
    else {
        snprintf(buffer, NAMES_LENGTH, "RTMIN+%d", signo - SIGRTMIN);
    }
    return buffer;
}

int names_find(const char *name)
{
    char *end;
    long n;
    size_t i;

    if (strncasecmp(name, "SIG", 3) == 0) {
        name += 3;
    }
    for (i = 0; i < NAMES; i++) {
        if (strcasecmp(name, names[i].name) == 0) {
            return names[i].signo;
        }
    }
    if (strcasecmp(name, "RTMIN") == 0) {
        return SIGRTMIN;
    }
    if (strncasecmp(name, "RTMIN+", 6) != 0 || name[6] < '0' || name[6] > '9') {
        return 0;
    }
    n = strtol(name + 6, &end, 10);
    return *end == '\0' && n <= SIGRTMAX - SIGRTMIN ? SIGRTMIN + (int)n : 0;
}
