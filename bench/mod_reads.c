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

/* A module that does nothing at a connection but the system calls with which
 * mod_sigdefer looks whether handlers have been replaced: TERM and HUP each
 * time, six others in turn, one at a time, in eight connections.  What it costs
 * is the least that such a look can cost.
 */

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "httpd.h"
#include "http_config.h"
#include "http_connection.h"

#define ROUND 8
#define OTHERS 6

extern __attribute__((visibility("default")))
module AP_MODULE_DECLARE_DATA reads_module;

static void read_action(int signo)
{
    unsigned long action[8];

    syscall(SYS_rt_sigaction, signo, NULL, action, sizeof(uint64_t));
}

static conn_rec *create_connection(apr_pool_t *p, server_rec *s,
                                   apr_socket_t *csd, long conn_id, void *sbh,
                                   apr_bucket_alloc_t *alloc)
{
    static volatile unsigned connections;

    read_action(SIGTERM);
    read_action(SIGHUP);
    if (connections++ % ROUND < OTHERS) {
        read_action(SIGUSR1);
    }
    return NULL;
}

static void register_hooks(apr_pool_t *p)
{
    ap_hook_create_connection(create_connection, NULL, NULL,
                              APR_HOOK_REALLY_FIRST);
}

AP_DECLARE_MODULE(reads) = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, register_hooks
};
