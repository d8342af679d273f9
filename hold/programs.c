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

/* A hard restart or stop hits the programs that requests have started, CGI and
 * others, as httpd signals its whole process group.  Here they are spared until
 * the deadline; then those of the child that ends are told as well, and what
 * they have started themselves.  Who has left the process group wants to live
 * on, as he would have then.
 *
 * It is done in a signal handler, so there is only what the kernel tells.
 */

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "apr_lib.h"
#include "apr_strings.h"

#include "hold/hold.h"

#ifdef __linux__

#define MAX_PROGRAMS 256

/* The child itself first, then as found.  Not on the stack, which may be a
 * small one.  If a second signal comes here meanwhile, the process ends in that
 * one's handler.
 */
static pid_t found[MAX_PROGRAMS];
static int count;

static void add(pid_t pid)
{
    if (pid > 0 && count < MAX_PROGRAMS && getpgid(pid) == getpgrp()) {
        found[count++] = pid;
    }
}

/* Process ids in decimal, each with a space after it. */
static void add_children_of_thread(pid_t pid, const char *thread)
{
    static char path[64];
    static char text[256];
    pid_t child = 0;
    ssize_t length;
    ssize_t i;
    int fd;

    apr_snprintf(path, sizeof(path),
                 "/proc/%" APR_PID_T_FMT "/task/%s/children", pid, thread);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (length = read(fd, text, sizeof(text))) > 0) {
        for (i = 0; i < length; i++) {
            if (apr_isdigit(text[i])) {
                child = child * 10 + (text[i] - '0');
            }
            else {
                add(child);
                child = 0;
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void add_children(pid_t pid)
{
    static char path[64];
    static char entries[1024] __attribute__((aligned(8)));
    ssize_t length;
    ssize_t at;
    int fd;

    apr_snprintf(path, sizeof(path), "/proc/%" APR_PID_T_FMT "/task", pid);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && (length = getdents64(fd, entries, sizeof(entries))) > 0) {
        for (at = 0; at < length;) {
            const struct dirent64 *entry = (void *)(entries + at);

            if (apr_isdigit(entry->d_name[0])) {
                add_children_of_thread(pid, entry->d_name);
            }
            at += entry->d_reclen;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

void hold_end_programs(void)
{
    int i;

    count = 0;
    add(getpid());
    for (i = 0; i < count; i++) {
        add_children(found[i]);
    }
    for (i = 1; i < count; i++) {
        kill(found[i], SIGTERM);
    }
}

#else

void hold_end_programs(void)
{
}

#endif
