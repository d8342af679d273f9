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

/* The module's record, its hooks, and what it answers when it is asked what
 * kind of MPM it is.
 */

#include "ap_mmn.h"
#include "httpd.h"
#include "http_core.h"
#include "http_log.h"
#include "http_main.h"
#include "util_mutex.h"

#include "hold/hold.h"
#include "mpm/bind.h"
#include "mpm_threaded/threaded.h"

#if !AP_MODULE_MAGIC_AT_LEAST(20120211, 68)
#error "mpm_threaded needs Apache httpd 2.4.26 or later"
#endif

extern __attribute__((visibility("default")))
module AP_MODULE_DECLARE_DATA mpm_threaded_module;

#define RETAINED_KEY "mpm_threaded"

#define DEFAULT_HOLD_SECONDS 5

threaded_t threaded;

/* ---- Questions ------------------------------------------------------------ */

static const char *get_name(void)
{
    return "threaded";
}

static int query(int what, int *result, apr_status_t *rv)
{
    const retained_t *retained = threaded.retained;

    *rv = APR_SUCCESS;
    switch (what) {
    case AP_MPMQ_MAX_DAEMON_USED:
        *result = retained->used_slots;
        break;
    case AP_MPMQ_IS_THREADED:
        *result = AP_MPMQ_STATIC;
        break;
    case AP_MPMQ_IS_FORKED:
        *result = AP_MPMQ_DYNAMIC;
        break;
    case AP_MPMQ_HARD_LIMIT_DAEMONS:
        *result = limits.server_limit;
        break;
    case AP_MPMQ_HARD_LIMIT_THREADS:
        *result = limits.thread_limit;
        break;
    case AP_MPMQ_MAX_THREADS:
        *result = limits.threads_per_child;
        break;
    case AP_MPMQ_MIN_SPARE_DAEMONS:
    case AP_MPMQ_MAX_SPARE_DAEMONS:
        *result = 0; /* it counts threads */
        break;
    case AP_MPMQ_MIN_SPARE_THREADS:
        *result = limits.min_spare_threads;
        break;
    case AP_MPMQ_MAX_SPARE_THREADS:
        *result = limits.max_spare_threads;
        break;
    case AP_MPMQ_MAX_REQUESTS_DAEMON:
        *result = ap_max_requests_per_child;
        break;
    case AP_MPMQ_MAX_DAEMONS:
        *result = limits.max_servers;
        break;
    case AP_MPMQ_MPM_STATE:
        *result = retained->mpm->mpm_state;
        break;
    case AP_MPMQ_GENERATION:
        *result = retained->mpm->my_generation;
        break;
    default:
        *rv = APR_ENOTIMPL;
        break;
    }
    return OK;
}

/* ---- The passes ----------------------------------------------------------- */

static retained_t *find_retained(void)
{
    retained_t *retained = ap_retained_data_get(RETAINED_KEY);

    if (!retained) {
        retained = ap_retained_data_create(RETAINED_KEY, sizeof(*retained));
        retained->mpm = ap_unixd_mpm_get_retained_data();
    }
    if (retained->mpm->baton != retained) {
        /* the last generation had another MPM */
        retained->mpm->was_graceful = 0;
        retained->mpm->baton = retained;
    }
    if (retained->is_continued) {
        /* a second HUP, while the first was carried out, is no other one */
        retained->mpm->was_graceful = 1;
    }
    return retained;
}

/* Its console is there until the first pass has proven the configuration. */
static int detach(apr_pool_t *pconf)
{
    apr_status_t rv;

    ap_fatal_signal_setup(ap_server_conf, pconf);
    rv = apr_proc_detach(ap_exists_config_define("NO_DETACH")
                             ? APR_PROC_DETACH_FOREGROUND
                             : APR_PROC_DETACH_DAEMONIZE);
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_CRIT, rv, NULL,
                     "threaded: T010: httpd cannot be put into the background");
        return HTTP_INTERNAL_SERVER_ERROR;
    }
    return OK;
}

static int pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    int is_debug = ap_exists_config_define("DEBUG");
    int rv = OK;

    memset(&threaded, 0, sizeof(threaded));
    threaded.is_one_process = is_debug
                              || ap_exists_config_define("ONE_PROCESS");
    threaded.retained = find_retained();
    threaded.retained->mpm->mpm_state = AP_MPMQ_STARTING;
    ap_mutex_register(pconf, AP_ACCEPT_MUTEX_TYPE, NULL, APR_LOCK_DEFAULT, 0);
    if (++threaded.retained->mpm->module_loads == 2 && !threaded.is_one_process
        && !ap_exists_config_define("FOREGROUND")) {
        rv = detach(pconf);
    }
    ap_listen_pre_config();
    limits_reset();
    ap_extended_status = 0;
    return rv;
}

static int is_first_pass(void)
{
    return threaded.retained->mpm->module_loads == 1;
}

static int check_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                        server_rec *s)
{
    limits_check(is_first_pass() ? NULL : s);
    return OK;
}

/* ---- What mod_sigdefer has for us ------------------------------------------ */

static void no_stop(void)
{
    /* APR's mutexes cannot be given up */
}

static const mpm_accept_calls_t httpds_calls = {
    ap_proc_mutex_create,  apr_proc_mutex_child_init, apr_proc_mutex_lock,
    apr_proc_mutex_unlock, apr_proc_mutex_name,       no_stop
};

static void ask_sigdefer(void)
{
    const mpm_offer_t *(*ask)(void) = APR_RETRIEVE_OPTIONAL_FN(
        sigdefer_mpm_offer);
    const mpm_offer_t *offer = ask ? ask() : NULL;

    threaded.accept = offer && offer->accept ? *offer->accept : httpds_calls;
    threaded.hold_seconds = offer ? offer->hold_seconds : DEFAULT_HOLD_SECONDS;
    threaded.is_held_by_us = !offer;
}

/* Before the core's, which takes the console away. */
static int open_logs(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                     server_rec *s)
{
    threaded.pconf = pconf;
    ask_sigdefer();
    return parent_open(plog, is_first_pass() ? NULL : s);
}

/* ---- mod_cgid --------------------------------------------------------------
 */

/* Before modules are unloaded, so that nothing points to them. */
static apr_status_t unbind(void *unused)
{
    bind_undo();
    return APR_SUCCESS;
}

/* Its daemon would end while children still use it. */
static int post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                       server_rec *s)
{
    apr_status_t rv;

    if (!threaded.is_held_by_us || threaded.is_one_process
        || ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG) {
        return OK;
    }
    apr_pool_cleanup_register(pconf, NULL, unbind, apr_pool_cleanup_null);
    rv = hold_cgid_init(pconf, threaded.hold_seconds);
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, s,
                     "threaded: T011: mod_cgid cannot be bound: a restart cuts "
                     "CGI requests that its daemon has just been sent");
    }
    return OK;
}

static int run(apr_pool_t *pconf, apr_pool_t *plog, server_rec *s)
{
    return parent_run(plog, s);
}

static void register_hooks(apr_pool_t *p)
{
    static const char *const after[] = { "core.c", NULL };
    static const char *const before_cgid[] = { "mod_cgid.c", NULL };

    /* others ask for the state of the MPM in theirs */
    ap_hook_pre_config(pre_config, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_check_config(check_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_open_logs(open_logs, NULL, after, APR_HOOK_REALLY_FIRST);
    ap_hook_post_config(post_config, NULL, before_cgid, APR_HOOK_MIDDLE);
    ap_hook_mpm(run, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_mpm_query(query, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_mpm_get_name(get_name, NULL, NULL, APR_HOOK_MIDDLE);
}

AP_DECLARE_MODULE(mpm_threaded) = {
    MPM20_MODULE_STUFF,
    NULL, /* arguments of the command line: none of its own */
    NULL, /* per-directory configuration: none */
    NULL,
    NULL, /* per-server configuration: the server's own */
    NULL,
    threaded_directives,
    register_hooks
};
