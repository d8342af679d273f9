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

#include <dirent.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apr_lib.h"

#include "mpm/listening.h"

#define MAX_DESCRIPTORS 65536

static int option(int fd, int name)
{
    int value = 0;
    socklen_t size = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : 0;
}

int listening_is_one(int fd)
{
    int family;

    if (!option(fd, SO_ACCEPTCONN)) {
        return 0;
    }
    family = option(fd, SO_DOMAIN);
    return family == AF_INET || family == AF_INET6;
}

/* To try all numbers there may be takes several milliseconds, in which nobody
 * is served.
 */
int listening_find(int *fds, int max)
{
    DIR *open_ones = opendir("/proc/self/fd");
    const struct dirent *entry;
    long end = sysconf(_SC_OPEN_MAX);
    int count = 0;
    int fd;

    if (!open_ones) {
        for (fd = 0; count < max && fd < end && fd < MAX_DESCRIPTORS; fd++) {
            if (listening_is_one(fd)) {
                fds[count++] = fd;
            }
        }
        return count;
    }
    /* cppcheck-suppress readdirCalled; the parent has one thread */
    while (count < max && (entry = readdir(open_ones))) {
        if (apr_isdigit(entry->d_name[0])
            && listening_is_one(atoi(entry->d_name))) {
            fds[count++] = atoi(entry->d_name);
        }
    }
    closedir(open_ones);
    return count;
}
