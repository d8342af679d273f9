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

/* The listening sockets, as the parent has them.
 *
 * ap_listeners has only one bucket of them (ListenCoresBucketsRatio), so they
 * are looked for among the descriptors.
 *
 * One whose Listen has been removed is closed by httpd at the restart, but an
 * old child that serves has it, too, and what connects to it would wait for a
 * child that does not come back for it.  So the parent keeps a descriptor of
 * each across the restart, and shuts those down at whose address nobody listens
 * any more.  It goes by the address, since every pass makes new sockets for the
 * buckets but the first: old children may still accept from the last ones.
 */

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apr_lib.h"
#include "httpd.h"
#include "http_config.h"
#include "unixd.h"

#include "hold/hold.h"
#include "mpm/retained.h"

#define KEPT_KEY "mod_sigdefer_listeners"

#define MAX_LISTENERS 256
#define MAX_DESCRIPTORS 65536

/* Of this pass; r/o after hold_listeners_find(). */
static struct pollfd listeners[MAX_LISTENERS];
static nfds_t count;

/* Of the last pass, while the configuration is read; outlives the module. */
typedef struct {
    int fds[MAX_LISTENERS];
    nfds_t count;
} kept_t;

static kept_t *kept(void)
{
    return retained_data(KEPT_KEY, sizeof(kept_t));
}

/* Zeroes and AF_UNSPEC if it has none. */
static struct sockaddr_storage address_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);

    memset(&address, 0, sizeof(address));
    getsockname(fd, (struct sockaddr *)&address, &size);
    return address;
}

static int is_listener(int fd)
{
    sa_family_t family = address_of(fd).ss_family;
    socklen_t size = sizeof(int);
    int listens = 0;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0
           && listens && (family == AF_INET || family == AF_INET6);
}

static int is_listened_at(const struct sockaddr_storage *address)
{
    nfds_t i;

    for (i = 0; i < count; i++) {
        struct sockaddr_storage other = address_of(listeners[i].fd);

        if (memcmp(&other, address, sizeof(other)) == 0) {
            return 1;
        }
    }
    return 0;
}

static int is_kept(const kept_t *last, int fd)
{
    nfds_t i;

    for (i = 0; i < last->count; i++) {
        if (last->fds[i] == fd) {
            return 1;
        }
    }
    return 0;
}

static void add_listener(const kept_t *last, int fd)
{
    if (count < MAX_LISTENERS && !is_kept(last, fd) && is_listener(fd)) {
        listeners[count].fd = fd;
        listeners[count].events = POLLIN;
        count++;
    }
}

/* To try all numbers there may be takes several milliseconds, in which nobody
 * is served.
 */
static void look_at_descriptors(const kept_t *last)
{
    DIR *open_ones = opendir("/proc/self/fd");
    const struct dirent *entry;
    long max = sysconf(_SC_OPEN_MAX);
    int fd;

    if (!open_ones) {
        for (fd = 0; fd < max && fd < MAX_DESCRIPTORS; fd++) {
            add_listener(last, fd);
        }
        return;
    }
    /* cppcheck-suppress readdirCalled; the parent has one thread */
    while ((entry = readdir(open_ones))) {
        if (apr_isdigit(entry->d_name[0])) {
            add_listener(last, atoi(entry->d_name));
        }
    }
    closedir(open_ones);
}

void hold_listeners_find(void)
{
    kept_t *last = kept();

    count = 0;
    look_at_descriptors(last);
    while (last->count > 0) {
        int fd = last->fds[--last->count];
        struct sockaddr_storage address = address_of(fd);

        if (!is_listened_at(&address)) {
            shutdown(fd, SHUT_RDWR);
        }
        close(fd);
    }
}

void hold_listeners_keep(void)
{
    kept_t *next = kept();
    nfds_t i;

    for (i = 0; i < count; i++) {
        int fd = fcntl(listeners[i].fd, F_DUPFD_CLOEXEC, 0);

        if (fd >= 0) {
            next->fds[next->count++] = fd;
        }
    }
}

int hold_listeners_are_idle(void)
{
    return count == 0 || poll(listeners, count, 0) <= 0;
}

void hold_listeners_shut(void)
{
    struct sock_filter drop = { BPF_RET | BPF_K, 0, 0, 0 };
    struct sock_fprog program = { 1, &drop };
    nfds_t i;

    for (i = 0; i < count; i++) {
        setsockopt(listeners[i].fd, SOL_SOCKET, SO_ATTACH_FILTER, &program,
                   sizeof(program));
    }
}

/* The option has no value, but without room for an int it is refused. */
void hold_listeners_open(void)
{
    const int unused = 0;
    nfds_t i;

    for (i = 0; i < count; i++) {
        setsockopt(listeners[i].fd, SOL_SOCKET, SO_DETACH_FILTER, &unused,
                   sizeof(unused));
    }
}
