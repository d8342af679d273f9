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
 * The parent keeps a descriptor of each across a restart.  httpd itself keeps
 * only those of the first bucket and makes new ones for the others; what
 * connects to an old one then waits for an old child, which does not come back
 * for it.  So when httpd is about to listen on a new socket, it gets the old one
 * of that address in its place, which old and new children accept from.
 *
 * One that nobody has taken over belongs to a Listen that has been removed.  An
 * old child that serves has it, too, so it is shut down.
 */

#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apr_portable.h"
#include "httpd.h"
#include "ap_listen.h"
#include "http_config.h"
#include "unixd.h"

#include "hold/hold.h"
#include "mpm/bind.h"
#include "mpm/listening.h"
#include "mpm/retained.h"

#define KEPT_KEY "mod_sigdefer_listeners"

/* Of this pass; r/o after hold_listeners_find(). */
static struct pollfd listeners[LISTENING_MAX];
static nfds_t count;

/* Of the last pass, while the configuration is read; outlives the module. */
typedef struct {
    int fds[LISTENING_MAX];
    int is_free[LISTENING_MAX]; /* no listener of this pass is the same one */
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

static int is_same_address(int one, int other)
{
    struct sockaddr_storage a = address_of(one);
    struct sockaddr_storage b = address_of(other);

    return memcmp(&a, &b, sizeof(a)) == 0;
}

void hold_listeners_find(void)
{
    int found[LISTENING_MAX];
    nfds_t i;

    count = (nfds_t)listening_find(found, LISTENING_MAX);
    for (i = 0; i < count; i++) {
        listeners[i].fd = found[i];
        listeners[i].events = POLLIN;
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

static int is_same_socket(int one, int other)
{
    struct stat a, b;

    return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev
           && a.st_ino == b.st_ino;
}

static int is_in_first_bucket(int fd)
{
    const ap_listen_rec *listener;
    apr_os_sock_t other;

    for (listener = ap_listeners; listener; listener = listener->next) {
        if (listener->sd && apr_os_sock_get(&other, listener->sd) == APR_SUCCESS
            && is_same_socket(fd, other)) {
            return 1;
        }
    }
    return 0;
}

/* Flags are the socket's, not the descriptor's: a new one has none. */
static int take_over(int from, int to)
{
    return fcntl(from, F_SETFL, 0) == 0 && dup3(from, to, O_CLOEXEC) == to;
}

static apr_status_t (*stock_listen)(apr_socket_t *, apr_int32_t);

/* apr_socket_listen() */
static apr_status_t bound_listen(apr_socket_t *socket, apr_int32_t backlog)
{
    kept_t *last = kept();
    apr_os_sock_t fd;
    nfds_t i = 0;

    apr_os_sock_get(&fd, socket);
    while (i < last->count
           && (!last->is_free[i] || !is_same_address(last->fds[i], fd)
               || !take_over(last->fds[i], fd))) {
        i++;
    }
    if (i < last->count) {
        last->is_free[i] = 0;
    }
    return stock_listen(socket, backlog); /* it may have changed */
}

/* Before modules are unloaded, so that nothing points to them. */
static apr_status_t undo(void *unused)
{
    (void)unused;
    bind_undo();
    return APR_SUCCESS;
}

void hold_listeners_offer(apr_pool_t *pconf)
{
    kept_t *last = kept();
    nfds_t i;

    for (i = 0; i < last->count; i++) {
        last->is_free[i] = !is_in_first_bucket(last->fds[i]);
    }
    stock_listen = (apr_status_t(*)(apr_socket_t *, apr_int32_t))bind_original(
        "apr_socket_listen");
    if (last->count > 0 && stock_listen) {
        apr_pool_cleanup_register(pconf, NULL, undo, apr_pool_cleanup_null);
        bind_import((const void *)ap_setup_listeners, "apr_socket_listen",
                    (void *)bound_listen);
    }
}

void hold_listeners_settle(void)
{
    kept_t *last = kept();

    while (last->count > 0) {
        int fd = last->fds[--last->count];

        if (last->is_free[last->count]) {
            shutdown(fd, SHUT_RDWR);
        }
        close(fd);
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
