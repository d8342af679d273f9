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

/* mod_sigdefer: signals wait while a child is in a critical section, and
 * children that are asked to go finish what they serve.
 *
 * Directives and hooks, nothing else: the sections are sigdefer/'s, the hold
 * is hold/'s.  The parent keeps its handlers, its mask and its flags; all is
 * installed in the children.
 */

#include <dlfcn.h>

#include "apr_atomic.h"
#include "apr_lib.h"
#include "apr_optional.h"
#include "apr_strings.h"
#include "ap_mmn.h"
#include "ap_mpm.h"
#include "httpd.h"
#include "http_config.h"
#include "http_connection.h"
#include "http_core.h"
#include "http_log.h"
#include "http_protocol.h"
#include "http_request.h"
#include "mpm_common.h"

#include "mod_sigdefer.h"
#include "accept_lock/provider.h"
#include "hold/hold.h"
#include "mpm/accept.h"
#include "mpm/exclusive.h"
#include "sigdefer/engine.h"
#include "sigdefer/names.h"
#include "status/status.h"

#if !AP_MODULE_MAGIC_AT_LEAST(20120211, 68)
#error "mod_sigdefer needs Apache httpd 2.4.26 or later"
#endif

extern SIGDEFER_DECLARE module AP_MODULE_DECLARE_DATA sigdefer_module;

APR_DECLARE_OPTIONAL_FN(const sigdefer_api_t *, sigdefer_api, (void));

/* Looked at at each connection, and held. */
#define HELD_SIGNALS (SIGDEFER_BIT(SIGTERM) | SIGDEFER_BIT(SIGHUP))

#define MAX_HOLD_TIME 3600

/* The configuration of the server; set anew on each pass. */
static struct {
    int enabled;            /* SigDefer */
    int hold;               /* SigDeferHold */
    int hold_seconds;       /* SigDeferHoldTime */
    sigdefer_reap_e reap;   /* SigDeferReapChildren */
    sigdefer_set_t signals; /* SigDeferSignals */

    apr_array_header_t *given; /* names of the directives that there are */
} config;

/* Of the child; the counters are shared by its threads. */
static server_rec *main_server;
static int is_holding;
static apr_uint32_t connections_open;

/* ---- Names of signals --------------------------------------------------- */

static const char *legal_signals(apr_pool_t *p)
{
    const char *names = "";
    const char *name;
    apr_size_t i;

    for (i = 0; (name = names_get(i)) != NULL; i++) {
        names = apr_pstrcat(p, names, name, ", ", NULL);
    }
    return apr_psprintf(p, "%sRTMIN to RTMIN+%d", names, SIGRTMAX - SIGRTMIN);
}

/* 0 if the whole text is no number between min and max */
static int parse_number(const char *text, int min, int max, int *number)
{
    char *end;
    apr_int64_t value;

    errno = 0;
    value = apr_strtoi64(text, &end, 10);
    if (!apr_isdigit(*text) || *end || errno || value < min || value > max) {
        return 0;
    }
    *number = (int)value;
    return 1;
}

/* ---- Directives --------------------------------------------------------- */

static const char *begin_directive(cmd_parms *cmd)
{
    *(const char **)apr_array_push(config.given) = cmd->cmd->name;
    return ap_check_cmd_context(cmd, GLOBAL_ONLY);
}

static const char *set_on_off(cmd_parms *cmd, void *dummy, const char *arg)
{
    const char *error = begin_directive(cmd);
    int is_on = ap_cstr_casecmp(arg, "On") == 0;

    if (error) {
        return error;
    }
    if (!is_on && ap_cstr_casecmp(arg, "Off") != 0) {
        return apr_psprintf(cmd->pool,
                            "%s: '%s' is not known; legal are On, Off",
                            cmd->cmd->name, arg);
    }
    *(int *)cmd->info = is_on;
    return NULL;
}

static const char *set_signals(cmd_parms *cmd, void *dummy, int argc,
                               char *const argv[])
{
    const char *error = begin_directive(cmd);
    int relative = 0;
    int i;

    if (error) {
        return error;
    }
    if (argc == 0) {
        return apr_pstrcat(cmd->pool, cmd->cmd->name,
                           ": no signal is given; legal are ",
                           legal_signals(cmd->pool), NULL);
    }
    for (i = 0; i < argc; i++) {
        const char *name = argv[i];
        char sign = '\0';
        int signo;

        if (*name == '+' || *name == '-') {
            sign = *name++;
        }
        signo = names_find(name);
        if (signo == 0) {
            return apr_psprintf(cmd->pool,
                                "%s: '%s' is no signal that can be deferred; "
                                "legal are %s",
                                cmd->cmd->name, argv[i],
                                legal_signals(cmd->pool));
        }
        if (i > 0 && relative != (sign != '\0')) {
            return apr_psprintf(cmd->pool,
                                "%s: '%s': either all signals or none must "
                                "start with + or -",
                                cmd->cmd->name, argv[i]);
        }
        relative = sign != '\0';
        if (i == 0 && !relative) {
            config.signals = 0;
        }
        if (sign == '-') {
            config.signals &= ~SIGDEFER_BIT(signo);
        }
        else {
            config.signals |= SIGDEFER_BIT(signo);
        }
    }
    return NULL;
}

static const char *set_hold_time(cmd_parms *cmd, void *dummy, const char *arg)
{
    const char *error = begin_directive(cmd);

    if (error) {
        return error;
    }
    if (!parse_number(arg, 1, MAX_HOLD_TIME, &config.hold_seconds)) {
        return apr_psprintf(cmd->pool,
                            "%s: '%s' is no number of seconds; legal are 1 to "
                            "%d",
                            cmd->cmd->name, arg, MAX_HOLD_TIME);
    }
    return NULL;
}

static const char *set_reap(cmd_parms *cmd, void *dummy, const char *arg)
{
    const char *error = begin_directive(cmd);

    if (error) {
        return error;
    }
    if (ap_cstr_casecmp(arg, "Off") == 0) {
        config.reap = SIGDEFER_REAP_OFF;
    }
    else if (ap_cstr_casecmp(arg, "Signal") == 0) {
        config.reap = SIGDEFER_REAP_SIGNAL;
    }
    else if (ap_cstr_casecmp(arg, "Idle") == 0) {
        config.reap = SIGDEFER_REAP_IDLE;
    }
    else {
        return apr_psprintf(cmd->pool,
                            "%s: '%s' is not known; legal are Off, Signal, "
                            "Idle",
                            cmd->cmd->name, arg);
    }
    return NULL;
}

static const char *set_accept_lock(cmd_parms *cmd, void *dummy, int argc,
                                   char *const argv[])
{
    const char *error = begin_directive(cmd);

    return error ? error : choice_add(cmd, dummy, argc, argv);
}

static const command_rec directives[] = {
    AP_INIT_TAKE1("SigDefer", set_on_off, &config.enabled, RSRC_CONF,
                  "On (default) or Off: whether the module does anything"),
    AP_INIT_TAKE_ARGV("SigDeferSignals", set_signals, NULL, RSRC_CONF,
                      "the signals that wait while a child is in a critical "
                      "section; + and - change the default"),
    AP_INIT_TAKE1("SigDeferHold", set_on_off, &config.hold, RSRC_CONF,
                  "On (default) or Off: whether a child that is asked to go "
                  "finishes what it serves"),
    AP_INIT_TAKE1("SigDeferHoldTime", set_hold_time, NULL, RSRC_CONF,
                  "for how many seconds it may do so (default 5)"),
    AP_INIT_TAKE1("SigDeferReapChildren", set_reap, NULL, RSRC_CONF,
                  "Off (default), Signal or Idle: when to reap processes that "
                  "a child has started and not waited for"),
    AP_INIT_TAKE_ARGV("SigDeferAcceptLock", set_accept_lock, NULL, RSRC_CONF,
                      "default, auto (default) or a mechanism: the accept lock "
                      "of the MPMs that are named, or of all"),
    { NULL }
};

/* ---- The parent --------------------------------------------------------- */

static int pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    config.enabled = 1;
    config.hold = 1;
    config.hold_seconds = 5;
    config.reap = SIGDEFER_REAP_OFF;
    config.signals = sigdefer_default_set();
    config.given = apr_array_make(pconf, 8, sizeof(const char *));
    choice_reset(pconf);
    return OK;
}

/* Here and not later, since MPMs make their accept mutexes first thing in
 * open_logs.
 */
static int check_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                        server_rec *s)
{
    choice_t *choice = NULL;

    if (config.enabled) {
        choice = apr_palloc(pconf, sizeof(*choice));
        if (choice_make(choice, pconf) != OK) {
            return HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    accept_bind(pconf, s, choice);
    return OK;
}

static int before_mpm(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                      server_rec *s)
{
    accept_making(1);
    hold_listeners_offer(pconf);
    return OK;
}

static int after_mpm(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                     server_rec *s)
{
    hold_listeners_settle();
    accept_making(0);
    return OK;
}

/* An MPM that knows of us asks in its open_logs. */
static const mpm_offer_t *sigdefer_mpm_offer(void)
{
    static mpm_offer_t offer;

    offer.accept = accept_calls();
    offer.hold_seconds = config.enabled && config.hold ? config.hold_seconds
                                                       : 0;
    return &offer;
}

/* -X runs the child's code in the parent, which needs no hold: its own signals
 * end its loop by ordinary code.
 */
static int is_one_process(void)
{
    return ap_exists_config_define("ONE_PROCESS")
           || ap_exists_config_define("DEBUG");
}

static int is_hold_on(void)
{
    return config.hold && !is_one_process();
}

/* In children; with the hold on, TERM and HUP wait whatever is configured. */
static sigdefer_set_t deferred_signals(void)
{
    return config.signals | (is_hold_on() ? HELD_SIGNALS : 0);
}

static const char *names_of(apr_pool_t *p, sigdefer_set_t set)
{
    const char *names = "";
    char buffer[NAMES_LENGTH];
    int signo;

    for (signo = 1; signo <= 64; signo++) {
        if (set & SIGDEFER_BIT(signo)) {
            names = apr_pstrcat(p, names, *names ? " " : "",
                                names_of_signal(signo, buffer), NULL);
        }
    }
    return *names ? names : "none";
}

static const char *on_off(int is_on)
{
    return is_on ? "On" : "Off";
}

/* What counts, as it would be configured. */
static const status_setting_t *settings(apr_pool_t *p)
{
    static const char *const reap[] = { "Off", "Signal", "Idle" };
    const status_setting_t list[] = {
        { "SigDefer", on_off(config.enabled) },
        { "SigDeferSignals", names_of(p, deferred_signals()) },
        { "SigDeferHold", on_off(config.hold) },
        { "SigDeferHoldTime", apr_itoa(p, config.hold_seconds) },
        { "SigDeferReapChildren", reap[config.reap] },
        { "SigDeferAcceptLock",
          apr_pstrcat(p, accept_description(p), accept_remark(), NULL) },
        { "SigDeferMPM", ap_show_mpm() },
        { NULL }
    };

    return apr_pmemdup(p, list, sizeof(list));
}

/* ---- httpd -t ----------------------------------------------------------- */

static int is_given(const char *name)
{
    int i;

    for (i = 0; i < config.given->nelts; i++) {
        if (strcmp(((const char **)config.given->elts)[i], name) == 0) {
            return 1;
        }
    }
    return 0;
}

static void warn_of_idle(server_rec *s, const char *directive, const char *why)
{
    if (is_given(directive) && why) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                     "sigdefer: S001: %s has no effect: %s", directive, why);
    }
}

/* What is configured and cannot be. */
static void warn_of_settings(apr_pool_t *p, server_rec *s)
{
    const command_rec *directive;

    if (!config.enabled) {
        for (directive = directives; directive->name; directive++) {
            if (strcmp(directive->name, "SigDefer") != 0) {
                warn_of_idle(s, directive->name, "SigDefer is Off");
            }
        }
        return;
    }
    warn_of_idle(s, "SigDeferAcceptLock", accept_idle());
    if (!config.hold) {
        warn_of_idle(s, "SigDeferHoldTime", "SigDeferHold is Off");
        return;
    }
    warn_of_idle(s, "SigDeferHold", hold_parent_unbound());
    if (~config.signals & HELD_SIGNALS) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                     "sigdefer: S002: SigDeferSignals has no effect on %s: "
                     "SigDeferHold needs them",
                     names_of(p, ~config.signals & HELD_SIGNALS));
    }
}

/* On stdout, as what httpd itself prints. */
static void test_config(apr_pool_t *p, server_rec *s)
{
    const char *unbound = hold_parent_unbound();
    const status_setting_t *setting;
    apr_file_t *out = NULL;

    warn_of_settings(p, s);
    if (apr_file_open_stdout(&out, p) != APR_SUCCESS) {
        return;
    }
    if (ap_exists_config_define("DUMP_RUN_CFG")) {
        apr_file_printf(out, "SigDeferAcceptLock: %s\n", accept_description(p));
    }
    if (ap_exists_config_define("DUMP_SIGDEFER")) {
        for (setting = settings(p); setting->name; setting++) {
            apr_file_printf(out, "%s: %s\n", setting->name, setting->value);
        }
        apr_file_printf(out, "SigDeferBinding: %s\n",
                        unbound ? unbound : "works here");
    }
}

/* ---- The parent, running ------------------------------------------------ */

static int post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                       server_rec *s)
{
    apr_status_t rv;

    if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG) {
        return OK;
    }
    status_init(s, settings(pconf), config.enabled);
    if (!config.enabled) {
        ap_log_error(APLOG_MARK, APLOG_INFO, 0, s, "sigdefer: S003: off");
        return OK;
    }
    accept_report(ptemp);
    if (is_hold_on()) {
        rv = hold_board_create(s);
        if (rv == APR_SUCCESS) {
            hold_parent_init(pconf, s, config.hold_seconds);
        }
        else {
            ap_log_error(APLOG_MARK, APLOG_WARNING, rv, s,
                         "sigdefer: S004: no shared memory: a restart or stop "
                         "interrupts system calls of requests, and worker "
                         "and event cut them");
        }
    }
    ap_log_error(APLOG_MARK, APLOG_INFO, 0, s,
                 "sigdefer: S005: deferred signals %s; hold %s",
                 names_of(ptemp, deferred_signals()),
                 is_hold_on() ? apr_psprintf(ptemp, "%d s", config.hold_seconds)
                              : "off");
    return OK;
}

/* By then all listeners are there, and the processes that other modules start
 * in their post_config.
 */
static int before_children(apr_pool_t *pconf, apr_pool_t *plog,
                           apr_pool_t *ptemp, server_rec *s)
{
    if (ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_CREATE_PRE_CONFIG) {
        accept_start();
    }
    return OK;
}

static void child_status(server_rec *s, pid_t pid, ap_generation_t gen,
                         int slot, mpm_child_status state)
{
    if (state == MPM_CHILD_EXITED) {
        hold_board_report(s, config.hold_seconds);
        hold_board_free(s, pid);
        status_slots_fold(pid);
    }
}

static int monitor(apr_pool_t *p, server_rec *s)
{
    hold_board_report(s, config.hold_seconds);
    status_slots_sample();
    return DECLINED;
}

static void end_generation(server_rec *s, ap_generation_t gen)
{
    accept_end_generation(gen);
}

/* ---- The child ---------------------------------------------------------- */

static apr_status_t uninstall(void *unused)
{
    sigdefer_uninstall();
    return APR_SUCCESS;
}

/* At exit httpd unloads its modules, and a signal may still come: the code
 * stays.
 */
static void pin(server_rec *s)
{
    Dl_info self;

    if (!dladdr(&sigdefer_module, &self)
        /* cppcheck-suppress leakReturnValNotUsed; it is never to be closed */
        || !dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) {
        ap_log_error(APLOG_MARK, APLOG_DEBUG, 0, s,
                     "sigdefer: S006: part of httpd itself, not pinned");
    }
}

/* Late, so that what other modules register in their child_init is found and
 * kept, as if they had been there before.
 */
static void child_init(apr_pool_t *pchild, server_rec *s)
{
    apr_status_t rv;

    if (!config.enabled) {
        return;
    }
    pin(s);
    exclusive_child_init();
    main_server = s;
    status_slots_claim(s);
    rv = sigdefer_install(deferred_signals());
    if (rv != 0) {
        ap_log_error(
            APLOG_MARK, APLOG_ERR, rv, s,
            "sigdefer: S007: this child runs without deferred signals");
        return;
    }
    apr_pool_pre_cleanup_register(pchild, NULL, uninstall);
    if (is_hold_on()) {
        rv = hold_child_init(pchild, config.hold_seconds);
        is_holding = rv == APR_SUCCESS;
        if (rv != APR_SUCCESS) {
            ap_log_error(
                APLOG_MARK, APLOG_ERR, rv, s,
                "sigdefer: S008: this child cannot hold: a restart cuts "
                "what it serves");
        }
    }
    if (config.reap == SIGDEFER_REAP_SIGNAL) {
        rv = sigdefer_reap_on_signal();
        if (rv != 0) {
            ap_log_error(APLOG_MARK, APLOG_ERR, rv, s,
                         "sigdefer: S009: this child does not reap");
        }
    }
}

static void adopted(int signo, const struct sigaction *found)
{
    char name[NAMES_LENGTH];
    char address[24];
    const char *owner = NULL;
    Dl_info info;

    if (!(found->sa_flags & SA_SIGINFO) && found->sa_handler == SIG_DFL) {
        owner = "the default";
    }
    else if (!(found->sa_flags & SA_SIGINFO) && found->sa_handler == SIG_IGN) {
        owner = "ignore";
    }
    else if (dladdr((void *)found->sa_sigaction, &info) && info.dli_fname) {
        owner = apr_filepath_name_get(info.dli_fname);
    }
    else {
        apr_snprintf(address, sizeof(address), "%pp",
                     (void *)found->sa_sigaction);
        owner = address;
    }
    ap_log_error(APLOG_MARK, APLOG_INFO, 0, main_server,
                 "sigdefer: S010: SIG%s: handler of %s found in place of ours, "
                 "adopted",
                 names_of_signal(signo, name), owner);
}

/* TERM and HUP at each connection, the others in turn, within eight unless
 * there are more of them: a look is a system call.  Threads that take the same
 * turn do no harm.
 */
SIGDEFER_HOT static void look_behind(void)
{
    static volatile sigdefer_set_t others; /* to be looked at in this round */
    static volatile unsigned connections = 8; /* of this round: it is over */
    sigdefer_set_t set = others;

    if (++connections >= 8 && !set) {
        connections = 0;
        set = sigdefer_managed() & ~HELD_SIGNALS;
    }
    others = set & (set - 1);
    sigdefer_check(HELD_SIGNALS | (set & -set), adopted);
}

SIGDEFER_HOT static apr_status_t connection_ended(void *unused)
{
    if (is_holding) {
        hold_connection_ended();
    }
    if (config.reap == SIGDEFER_REAP_IDLE
        && apr_atomic_dec32(&connections_open) == 0) {
        /* nobody here waits for a program of his own now */
        sigdefer_reap();
    }
    return APR_SUCCESS;
}

/* First of all, so that nothing that has been accepted is ended. */
SIGDEFER_HOT static conn_rec *create_connection(apr_pool_t *p, server_rec *s,
                                                apr_socket_t *csd, long conn_id,
                                                void *sbh,
                                                apr_bucket_alloc_t *alloc)
{
    if (sigdefer_state() != SIGDEFER_ON) {
        return NULL;
    }
    if (is_holding) {
        hold_connection(csd);
    }
    if (config.reap == SIGDEFER_REAP_IDLE) {
        apr_atomic_inc32(&connections_open);
    }
    if (config.reap == SIGDEFER_REAP_IDLE || hold_has_loop()) {
        apr_pool_cleanup_register(p, NULL, connection_ended,
                                  apr_pool_cleanup_null);
    }
    look_behind();
    return NULL;
}

/* By then the MPM has counted it. */
SIGDEFER_HOT static int pre_connection(conn_rec *c, void *csd)
{
    hold_threaded_begun(c);
    return OK;
}

/* What the request has left open, nobody will close. */
SIGDEFER_HOT static apr_status_t request_ended(void *data)
{
    request_rec *r = data;
    unsigned unpaired;
    int depth;

    if (is_holding) {
        hold_request_ended(r);
    }
    depth = sigdefer_close_sections(&unpaired);
    if (depth > 0) {
        ap_log_rerror(
            APLOG_MARK, APLOG_WARNING, 0, r,
            "sigdefer: S011: %d critical section(s) left open at the end "
            "of \"%s %s\"; closed",
            depth, r->method, r->uri);
    }
    if (unpaired > 0) {
        ap_log_rerror(APLOG_MARK, APLOG_WARNING, 0, r,
                      "sigdefer: S012: %u leave(s) without an enter", unpaired);
    }
    return APR_SUCCESS;
}

/* First of all, so that the cleanup is the last: what others do when the
 * request ends is part of it.
 */
SIGDEFER_HOT static int post_read_request(request_rec *r)
{
    if (sigdefer_state() == SIGDEFER_ON && !r->main) {
        if (is_holding) {
            hold_request_begins(r);
        }
        apr_pool_cleanup_register(r->pool, r, request_ended,
                                  apr_pool_cleanup_null);
    }
    return DECLINED;
}

/* httpd keeps no connection alive while the MPM says that it is stopping, and
 * a child that the parent has asked to go is.
 */
SIGDEFER_HOT static int mpm_query(int query, int *result, apr_status_t *rv)
{
    if (query != AP_MPMQ_MPM_STATE || !hold_is_last_response()) {
        return DECLINED;
    }
    *result = AP_MPMQ_STOPPING;
    *rv = APR_SUCCESS;
    return OK;
}

/* ---- The module --------------------------------------------------------- */

static const sigdefer_api_t *sigdefer_api(void)
{
    static sigdefer_api_t api = { SIGDEFER_API_VERSION, 0,
                                  sigdefer_leave_slow,  sigdefer_restore,
                                  sigdefer_sigaction,   sigdefer_signal,
                                  sigdefer_pending,     sigdefer_state,
                                  sigdefer_stats };

    api.section_offset = sigdefer_section_offset();
    return &api;
}

static void register_hooks(apr_pool_t *p)
{
    /* what it starts there must find itself bound */
    static const char *const before[] = { "mod_cgid.c", NULL };
    static const char *const mpms[] = { "prefork.c", "worker.c", "event.c",
                                        "threaded.c", NULL };

    APR_REGISTER_OPTIONAL_FN(sigdefer_api);
    APR_REGISTER_OPTIONAL_FN(sigdefer_mpm_offer);
    accept_lock_provider_register(p);
    status_register_hooks();

    ap_hook_pre_config(pre_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_check_config(check_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_test_config(test_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_open_logs(before_mpm, NULL, mpms, APR_HOOK_REALLY_FIRST);
    ap_hook_open_logs(after_mpm, mpms, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_post_config(post_config, NULL, before, APR_HOOK_MIDDLE);
    ap_hook_post_config(before_children, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_child_status(child_status, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_end_generation(end_generation, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_monitor(monitor, NULL, NULL, APR_HOOK_MIDDLE);

    ap_hook_child_init(child_init, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_create_connection(create_connection, NULL, NULL,
                              APR_HOOK_REALLY_FIRST);
    ap_hook_pre_connection(pre_connection, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_post_read_request(post_read_request, NULL, NULL,
                              APR_HOOK_REALLY_FIRST);
    ap_hook_mpm_query(mpm_query, NULL, NULL, APR_HOOK_REALLY_FIRST);
}

AP_DECLARE_MODULE(sigdefer) = {
    STANDARD20_MODULE_STUFF,
    NULL, /* per-directory configuration: none */
    NULL,
    NULL, /* per-server configuration: the server's own */
    NULL,
    directives,
    register_hooks
};
