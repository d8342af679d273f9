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

/* mod_cgid's daemon outlives a restart until it has nothing left to do.
 *
 * mod_cgid ends its daemon when the old configuration goes, and starts the
 * next one with the new.  What the old one has just been asked for is reset,
 * and until the next one listens, and lets the children in, requests fail; in
 * graceful restarts, too.
 *
 * Here the old daemon is not told to end.  The parent removes its socket's
 * name, as ever, and the next daemon's socket gets the name when it is ready.
 * Children wait for the name, and keep a handle of the socket that they have
 * found: they connect to it without the name, for they come back with questions
 * that only the same daemon can answer.  Without its name a daemon goes on for
 * the hold time.
 *
 * What is bound is what mod_cgid calls: in the parent to end a daemon, in the
 * daemon to name its socket and to accept, in children to connect.  Nothing
 * depends on the next configuration: it may have neither of the modules.
 */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "mpm_common.h"
#include "unixd.h"

#include "hold/hold.h"
#include "mpm/bind.h"
#include "mpm/retained.h"

#define CGID_KEY "mod_sigdefer_cgid"

#define BACKLOG 100 /* as mod_cgid has it */
#define NAME_MS 10  /* between two looks for the name */
#define END_MS 100  /* between two looks whether the daemon is to end */

/* The daemon ends so long before the deadline, to be collected by then. */
#define EARLY_MS 500

static pid_t parent_pid;
static uint64_t hold_ms;

/* Outlives the module, which is unloaded at each restart: the daemon that was
 * not told to end; 0: none.
 */
static pid_t *left_daemon;

/* Of the daemon. */
static struct sockaddr_un own_name;
static struct stat own_socket;

/* Of a child: the socket of its daemon; -1: not found yet. */
static atomic_int handle = -1;

/* ---- In the parent ------------------------------------------------------ */

/* kill(): here to end the daemon; elsewhere for programs.  What the MPM has
 * retained of the restart is gone by now.
 */
static int bound_kill(pid_t pid, int signo)
{
    if (getpid() != parent_pid || signo != SIGHUP
        || ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_DESTROY_CONFIG) {
        return kill(pid, signo);
    }
    *left_daemon = pid;
    return 0;
}

/* apr_pool_note_subprocess(): APR would end the daemon with TERM and KILL when
 * the old configuration goes.  At a stop HUP does it.
 */
static void bound_note(apr_pool_t *p, apr_proc_t *proc,
                       apr_kill_conditions_e how)
{
}

/* It is collected by the MPM, which need not wonder whose it was. */
static void maintain(int reason, void *data, apr_wait_t status)
{
    if (reason == APR_OC_REASON_DEATH) {
        apr_proc_other_child_unregister(data);
    }
}

/* ---- In the daemon ------------------------------------------------------ */

/* bind(): nobody may find a socket that does not listen yet, or does not let
 * him in.
 */
static int bound_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_un next;

    memset(&own_name, 0, sizeof(own_name));
    memcpy(&own_name, address, length);
    next = own_name;
    if (snprintf(next.sun_path, sizeof(next.sun_path), "%s.new",
                 own_name.sun_path)
        >= (int)sizeof(next.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    unlink(next.sun_path);
    if (bind(fd, (struct sockaddr *)&next, sizeof(next)) != 0
        || (geteuid() == 0
            && chown(next.sun_path, ap_unixd_config.user_id, (gid_t)-1) != 0)
        || listen(fd, BACKLOG) != 0 || stat(next.sun_path, &own_socket) != 0
        || rename(next.sun_path, own_name.sun_path) != 0) {
        return -1;
    }
    return 0;
}

static int has_name(void)
{
    struct stat found;

    return stat(own_name.sun_path, &found) == 0
           && found.st_ino == own_socket.st_ino
           && found.st_dev == own_socket.st_dev;
}

/* accept(): when there is nothing to accept, look whether there ever will be.
 * HUP is what ends mod_cgid's loop.
 */
static int bound_accept(int fd, struct sockaddr *address, socklen_t *length)
{
    static uint64_t end; /* ms of hold_clock(); 0: none in sight */
    struct pollfd listener = { fd, POLLIN, 0 };
    int ready;

    while ((ready = poll(&listener, 1, END_MS)) == 0) {
        if (end == 0 && (getppid() != parent_pid || !has_name())) {
            end = hold_clock() + hold_ms - EARLY_MS;
        }
        else if (end != 0 && hold_clock() >= end) {
            raise(SIGHUP);
            errno = EINTR;
            return -1;
        }
    }
    return ready < 0 ? -1 : accept(fd, address, length);
}

/* ---- In children -------------------------------------------------------- */

/* Between two daemons there is no name. */
static int find_daemon(const char *name)
{
    const struct timespec pause = { 0, NAME_MS * 1000000L };
    uint64_t until = hold_clock() + hold_ms;
    int none = -1;
    int found;

    while ((found = open(name, O_PATH | O_CLOEXEC)) < 0 && errno == ENOENT
           && hold_clock() < until) {
        nanosleep(&pause, NULL);
    }
    if (found >= 0 && !atomic_compare_exchange_strong(&handle, &none, found)) {
        close(found); /* another thread has one */
        found = none;
    }
    return found;
}

/* connect() */
static int bound_connect(int fd, const struct sockaddr *address,
                         socklen_t length)
{
    struct sockaddr_un name = { 0 };
    struct sockaddr_un link = { .sun_family = AF_UNIX };
    int daemon = atomic_load(&handle);

    memcpy(&name, address, length);
    if (daemon < 0) {
        daemon = find_daemon(name.sun_path);
    }
    snprintf(link.sun_path, sizeof(link.sun_path), "/proc/self/fd/%d", daemon);
    if (daemon >= 0
        && connect(fd, (struct sockaddr *)&link, sizeof(link)) == 0) {
        return 0;
    }
    /* no /proc, or it has crashed: there is another one, then */
    if (daemon >= 0 && atomic_compare_exchange_strong(&handle, &daemon, -1)) {
        close(daemon);
    }
    return connect(fd, address, length);
}

/* ---- Begin -------------------------------------------------------------- */

/* The MPM is told of the daemon that it will collect. */
static void expect_daemon(apr_pool_t *pconf)
{
    apr_proc_t *proc;

    left_daemon = retained_data(CGID_KEY, sizeof(*left_daemon));
    if (*left_daemon != 0) {
        proc = apr_pcalloc(pconf, sizeof(*proc));
        proc->pid = *left_daemon;
        *left_daemon = 0;
        apr_proc_other_child_register(proc, maintain, proc, NULL, pconf);
    }
}

apr_status_t hold_cgid_init(apr_pool_t *pconf, int seconds)
{
    static const struct {
        const char *name;
        void *replacement;
    } imports[] = {
        { "kill", (void *)bound_kill },
        { "apr_pool_note_subprocess", (void *)bound_note },
        { "bind", (void *)bound_bind },
        { "accept", (void *)bound_accept },
        { "connect", (void *)bound_connect },
    };
    const module *cgid = ap_find_linked_module("mod_cgid.c");
    apr_status_t rv = APR_SUCCESS;
    size_t i;

    parent_pid = getpid();
    hold_ms = (uint64_t)seconds * 1000u;
    expect_daemon(pconf);
    if (cgid && bind_same_object(cgid, (const void *)ap_mpm_safe_kill)) {
        /* built in: all of httpd would call ours for kill() and bind() */
        return APR_ENOTIMPL;
    }
    for (i = 0;
         cgid && i < sizeof(imports) / sizeof(imports[0]) && rv == APR_SUCCESS;
         i++) {
        rv = bind_import(cgid, imports[i].name, imports[i].replacement);
    }
    return rv;
}
