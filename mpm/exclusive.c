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

/* event takes no lock around accept: its children wait for the same listening
 * sockets, and each connection wakes all of them for one to accept it.  Here
 * the sockets are in their epoll sets exclusively (EPOLLEXCLUSIVE): the kernel
 * wakes one that waits, and notes the socket as ready for those ahead of it
 * that do not wait.
 *
 * So a connection may be known to a single child, which must not keep it to
 * itself.  It accepts until there is nothing left, since its set is level-
 * triggered; where it does not, it passes the wake-up on:
 *
 *   it takes a listener out of its set, being full or told to go: at
 *       EPOLL_CTL_DEL, which is after the last wake-up that it can get;
 *   it closes its listeners: taken out of the set first, as httpd may close
 *       them before it does so, and others keep a closed one open;
 *   it waits for a worker thread while it holds what epoll_wait() has told it:
 *       before it waits;
 *   it may not accept, since the hold lets nobody in: hold/ says so;
 *   it dies, wherever it is: the parent gets SIGCHLD once its descriptors are
 *       closed.  httpd itself looks for dead children once a second.
 *
 * To pass on is shutdown(SHUT_WR), which does nothing to a listening socket of
 * TCP but to wake whoever polls it, exclusively or not.  They look whether
 * there is something to accept, and sleep on if there is not.  So none is lost
 * when the child that is woken next is full, too.
 *
 * httpd itself leaves a listener out of the set for good when a worker thread
 * becomes idle in the moment in which it is taken out; that is mended, too, see
 * bound_remove().
 *
 * What remains: a child that is stopped, or dumps core, in the microseconds
 * between epoll_wait() and accept() keeps what it was woken for until the next
 * connection, or its own end.
 */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apr_poll.h"
#include "apr_portable.h"
#include "ap_listen.h"

#include "mpm/bind.h"
#include "mpm/exclusive.h"
#include "mpm/listening.h"

/* Set by the parent; r/o in children. */
static struct {
    volatile sig_atomic_t is_on;
    int fds[LISTENING_MAX];
    int count;
} all;

/* Of the child. */
static int is_child;
static int listener_set = -1; /* the epoll set that has the listeners */

static struct {
    int (*epoll_ctl)(int, int, int, struct epoll_event *);
    apr_status_t (*remove)(apr_pollset_t *, const apr_pollfd_t *);
    apr_uint32_t (*idlers)(void *);
    apr_status_t (*wait_for_idler)(void *, int *);
    void (*close)(ap_listen_rec *);
} stock;

/* ---- Passing on --------------------------------------------------------- */

static int is_readable(int fd)
{
    struct pollfd look = { fd, POLLIN, 0 };

    return poll(&look, 1, 0) == 1 && (look.revents & POLLIN);
}

/* On a descriptor of its own: another thread may close the listener, and the
 * number then be that of a connection.
 */
void exclusive_pass_on(int listener)
{
    int fd = all.is_on ? fcntl(listener, F_DUPFD_CLOEXEC, 0) : -1;

    if (fd >= 0) {
        if (listening_is_one(fd) && is_readable(fd)) {
            shutdown(fd, SHUT_WR);
        }
        close(fd);
    }
}

static void pass_all_on(void)
{
    int i;

    for (i = 0; i < all.count; i++) {
        exclusive_pass_on(all.fds[i]);
    }
}

/* ---- The child ---------------------------------------------------------- */

/* The numbers are those of the parent; one that has been closed may have come
 * back for a connection.
 */
static int is_listener(int fd)
{
    int i;

    for (i = 0; is_child && i < all.count; i++) {
        if (all.fds[i] == fd) {
            return listening_is_one(fd);
        }
    }
    return 0;
}

/* epoll_ctl(), as libapr calls it. */
static int bound_epoll_ctl(int set, int operation, int fd,
                           struct epoll_event *event)
{
    struct epoll_event exclusively;
    int rv;

    if (operation == EPOLL_CTL_MOD || !is_listener(fd)) {
        return stock.epoll_ctl(set, operation, fd, event);
    }
    if (operation == EPOLL_CTL_ADD && event->events == EPOLLIN) {
        exclusively = *event;
        exclusively.events |= EPOLLEXCLUSIVE;
        listener_set = set;
        return stock.epoll_ctl(set, operation, fd, &exclusively);
    }
    rv = stock.epoll_ctl(set, operation, fd, event);
    if (operation == EPOLL_CTL_DEL) {
        exclusive_pass_on(fd);
    }
    return rv;
}

/* apr_pollset_remove(), as event calls it.  It is done for a listener when no
 * worker thread was idle a moment ago.  If one is by now, it has looked whether
 * to tell the listener thread before there was a reason, and nobody will: so
 * that thread looks once more.
 */
static apr_status_t bound_remove(apr_pollset_t *pollset,
                                 const apr_pollfd_t *descriptor)
{
    int fd = -1;
    int is_one = descriptor->desc_type == APR_POLL_SOCKET
                 && apr_os_sock_get(&fd, descriptor->desc.s) == APR_SUCCESS
                 && is_listener(fd);
    apr_status_t rv = stock.remove(pollset, descriptor);

    if (is_one) {
        apr_pollset_wakeup(pollset);
    }
    return rv;
}

/* ap_close_listeners_ex(), as event calls it in the child. */
static void bound_close(ap_listen_rec *listeners)
{
    struct epoll_event unused = { 0 };
    const ap_listen_rec *lr;
    int fd;

    for (lr = listeners; listener_set >= 0 && lr; lr = lr->next) {
        if (apr_os_sock_get(&fd, lr->sd) == APR_SUCCESS && fd >= 0) {
            bound_epoll_ctl(listener_set, EPOLL_CTL_DEL, fd, &unused);
        }
    }
    stock.close(listeners);
}

/* ap_queue_info_wait_for_idler(), as event's listener thread calls it; nobody
 * but that thread takes a worker that idles.
 */
static apr_status_t bound_wait_for_idler(void *queue_info, int *had_to_block)
{
    if (stock.idlers(queue_info) == 0) {
        pass_all_on();
    }
    return stock.wait_for_idler(queue_info, had_to_block);
}

void exclusive_child_init(void)
{
    if (all.is_on) {
        is_child = 1;
        signal(SIGCHLD, SIG_DFL);
    }
}

/* ---- The parent --------------------------------------------------------- */

static void on_child(int signo)
{
    int saved = errno;

    (void)signo;
    pass_all_on();
    errno = saved;
}

static const bind_import_t of_apr[] = {
    BIND_IMPORT("epoll_ctl", bound_epoll_ctl, stock.epoll_ctl), { NULL }
};

static const bind_import_t of_event[] = {
    BIND_IMPORT("ap_queue_info_wait_for_idler", bound_wait_for_idler,
                stock.wait_for_idler),
    BIND_IMPORT("ap_close_listeners_ex", bound_close, stock.close),
    BIND_IMPORT("apr_pollset_remove", bound_remove, stock.remove),
    { NULL }
};

apr_status_t exclusive_bind(const module *event, const char **failed)
{
    apr_status_t rv = bind_imports(event, of_event, failed);

    if (rv == APR_SUCCESS) {
        *failed = "ap_queue_info_num_idlers";
        stock.idlers = bind_original(*failed);
        rv = stock.idlers
                 ? bind_imports((const void *)apr_pollset_add, of_apr, failed)
                 : APR_ENOENT;
    }
    return rv;
}

apr_status_t exclusive_start(void)
{
    struct sigaction action;

    if (sigaction(SIGCHLD, NULL, &action) != 0 || (action.sa_flags & SA_SIGINFO)
        || action.sa_handler != SIG_DFL) {
        return APR_EBUSY;
    }
    all.count = listening_find(all.fds, LISTENING_MAX);
    memset(&action, 0, sizeof(action));
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_child;
    action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
    all.is_on = 1;
    if (sigaction(SIGCHLD, &action, NULL) != 0) {
        return errno;
    }
    pass_all_on(); /* of who has died while the configuration was read */
    return APR_SUCCESS;
}

void exclusive_end(void)
{
    if (all.is_on) {
        signal(SIGCHLD, SIG_DFL);
        all.is_on = 0;
    }
}

/* ---- Whether it works here ---------------------------------------------- */

static int becomes_ready(int set, int timeout_ms)
{
    struct epoll_event event;

    return epoll_wait(set, &event, 1, timeout_ms) == 1;
}

/* Edge-triggered, so that only what wakes a waiter is told. */
static const char *try_set(int set, int listener, int client)
{
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    struct epoll_event event = { 0 };

    event.events = EPOLLIN | EPOLLET | EPOLLEXCLUSIVE;
    if (listen(listener, 1) != 0
        || getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        return "listen";
    }
    if (epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) != 0) {
        return "EPOLLEXCLUSIVE";
    }
    if (connect(client, (struct sockaddr *)&address, size) != 0
        && errno != EINPROGRESS) {
        return "a connection to the loopback address";
    }
    errno = APR_ENOTIMPL;
    if (!becomes_ready(set, 1000) || becomes_ready(set, 0)
        || shutdown(listener, SHUT_WR) != 0 || !becomes_ready(set, 0)) {
        return "waking all that wait";
    }
    return NULL;
}

apr_status_t exclusive_probe(const char **error)
{
    int set = epoll_create1(EPOLL_CLOEXEC);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in loopback;
    apr_status_t rv;

    memset(&loopback, 0, sizeof(loopback));
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *error = set < 0 || listener < 0 || client < 0
                     || bind(listener, (struct sockaddr *)&loopback,
                             sizeof(loopback))
                            != 0
                 ? "sockets"
                 : try_set(set, listener, client);
    rv = *error ? errno : APR_SUCCESS;
    close(set);
    close(listener);
    close(client);
    return rv;
}
