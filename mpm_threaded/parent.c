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

/* The parent: it opens what children need, waits for signals and for children
 * that end, and begins the next generation or the end.
 *
 * The hold.  A hard restart is carried out as a graceful one, and a stop as a
 * graceful stop; AP_MPM_PODX_RESTART tells the children that they have a
 * deadline then.  No signal is sent before it is over.  A stop first lets nobody new in, and lets the
 * children accept what waits in the backlog.  With mod_sigdefer all this has
 * happened before a signal is noted here, so that a hard one is a hard one.
 */

#include "apr_portable.h"
#include "apr_strings.h"
#include "httpd.h"
#include "http_core.h"
#include "http_log.h"
#include "http_main.h"
#include "util_mutex.h"

#include "hold/hold.h"
#include "mpm_threaded/threaded.h"

APLOG_USE_MODULE(mpm_threaded);

#define DRAIN_MS 10 /* between two looks at the backlog */
#define HURRY_MS 5  /* between two looks for free slots, after a restart */
#define LOOK_MS 100 /* between two looks whether children are left, at a stop */

/* A TERM that comes later than this after the first one means now. */
#define AGAIN_MS 1000

/* After a graceful restart, so many cycles pass before more children are
 * started each time.
 */
#define CALM_CYCLES 10

/* Children that are killed one after another and replaced at once. */
#define MOST_REPLACED 3

static int is_given_up; /* a child says that it makes no sense to go on */

/* 0: never. */
static apr_uint64_t in_seconds(int seconds)
{
    return seconds > 0 ? hold_clock() + (apr_uint64_t)seconds * 1000u : 0;
}

/* ---- Opening -------------------------------------------------------------- */

static int fail(server_rec *s, apr_status_t rv, const char *what)
{
    ap_log_error(APLOG_MARK, s ? APLOG_CRIT : APLOG_CRIT | APLOG_STARTUP, rv, s,
                 "threaded: T020: %s", what);
    return !OK;
}

/* Longer, if there are more buckets than ever; a new one takes the highest
 * rate, to catch up with the others.
 */
static void fit_spawn_rates(int count)
{
    retained_t *retained = threaded.retained;
    int old_count = retained->mpm->num_buckets;
    int highest = 1;
    int i;

    if (retained->spawn_rates_size < count) {
        int *rates = apr_palloc(ap_pglobal, count * sizeof(*rates));

        if (retained->spawn_rates) {
            memcpy(rates, retained->spawn_rates,
                   retained->spawn_rates_size * sizeof(*rates));
        }
        retained->spawn_rates = rates;
        retained->spawn_rates_size = count;
    }
    for (i = 0; i < old_count && i < count; i++) {
        if (retained->spawn_rates[i] > highest) {
            highest = retained->spawn_rates[i];
        }
    }
    for (i = old_count; i < count; i++) {
        retained->spawn_rates[i] = highest;
    }
    retained->mpm->num_buckets = count;
    if (retained->mpm->max_buckets < count) {
        retained->mpm->max_buckets = count;
    }
}

/* The lock is only for those who poll: accept() itself wakes one of many. */
static int open_bucket(bucket_t *bucket, int number, server_rec *s)
{
    apr_pool_t *pconf = threaded.pconf;
    apr_status_t rv;

    if (!threaded.is_one_process) {
        rv = ap_mpm_podx_open(pconf, &bucket->pod);
        if (rv != APR_SUCCESS) {
            return fail(s, rv, "no pipe to the children can be made");
        }
        /* who has been woken by what another one takes must not wait for it */
        apr_file_pipe_timeout_set(bucket->pod->pod_in, 0);
    }
    if (ap_listeners->next) {
        rv = threaded.accept.create(&bucket->mutex, NULL, AP_ACCEPT_MUTEX_TYPE,
                                    apr_itoa(pconf, number), ap_server_conf,
                                    pconf, 0);
        if (rv != APR_SUCCESS) {
            return fail(s, rv, "the accept lock cannot be made");
        }
    }
    return OK;
}

int parent_open(apr_pool_t *plog, server_rec *s)
{
    const ap_unixd_mpm_retained_data *mpm = threaded.retained->mpm;
    ap_listen_rec **listeners;
    apr_status_t rv;
    int count = 0; /* as ListenCoresBucketsRatio says */
    int i;

    if (ap_setup_listeners(ap_server_conf) < 1) {
        return fail(s, 0, "there is no socket to listen on");
    }
    if (threaded.is_one_process) {
        count = 1;
    }
    else if (mpm->was_graceful) {
        count = mpm->num_buckets; /* children of the old ones still accept */
    }
    rv = ap_duplicate_listeners(threaded.pconf, ap_server_conf, &listeners,
                                &count);
    if (rv != APR_SUCCESS) {
        return fail(s, rv, "the listeners cannot be duplicated");
    }
    threaded.buckets = apr_pcalloc(threaded.pconf,
                                   count * sizeof(*threaded.buckets));
    threaded.bucket_count = count;
    for (i = 0; i < count; i++) {
        threaded.buckets[i].listeners = listeners[i];
        if (open_bucket(&threaded.buckets[i], i, s) != OK) {
            return !OK;
        }
    }
    fit_spawn_rates(count);
    return OK;
}

/* ---- Running -------------------------------------------------------------- */

/* All children of this generation. */
static void tell(ap_podx_restart_t what)
{
    int i;

    for (i = 0; i < threaded.bucket_count; i++) {
        ap_mpm_podx_killpg(threaded.buckets[i].pod, limits.max_servers, what);
    }
}

static void clear_slot(int slot, int is_sick)
{
    int i;

    for (i = 0; i < limits.threads_per_child; i++) {
        ap_update_child_status_from_indexes(slot, i, SERVER_DEAD, NULL);
    }
    children_ended(slot, 0, 0);
    ap_get_scoreboard_process(slot)->quiescing = 0;
    if (is_sick) {
        threaded.retained->spawn_rates[slot % threaded.bucket_count] = 1;
    }
}

/* A child of an older generation may fail for want of what has gone since. */
static int is_fatal(int slot)
{
    return slot < 0
           || ap_get_scoreboard_process(slot)->generation
                  == threaded.retained->mpm->my_generation;
}

/* Whoever it was.  Returns the slot, or -1. */
static int collect(apr_proc_t *proc, apr_exit_why_e why, int status)
{
    int slot = ap_find_child_by_pid(proc);
    int told = ap_process_child_status(proc, why, status);
    ap_generation_t generation;

    if (told == APEXIT_CHILDFATAL && is_fatal(slot)) {
        is_given_up = 1;
        threaded.retained->mpm->shutdown_pending = 1;
    }
    else if (told == APEXIT_CHILDFATAL || told == APEXIT_CHILDSICK) {
        threaded.retained->is_sick = 1;
    }
    if (slot >= 0) {
        clear_slot(slot, told == APEXIT_CHILDSICK);
    }
    else if (ap_unregister_extra_mpm_process(proc->pid, &generation)) {
        children_ended(-1, proc->pid, generation);
    }
    else if (apr_proc_other_child_alert(proc, APR_OC_REASON_DEATH, status)
                 != APR_SUCCESS
             && threaded.retained->mpm->was_graceful) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, ap_server_conf,
                     "threaded: T021: process %" APR_PID_T_FMT
                     " has ended and is not known",
                     proc->pid);
    }
    return slot;
}

/* Until a child has ended, or a second has passed, if there is no hurry. */
static void await_child(apr_proc_t *proc, apr_exit_why_e *why, int *status,
                        int is_hurry)
{
    apr_status_t rv;

    if (!is_hurry) {
        ap_wait_or_timeout(why, status, proc, threaded.pconf, ap_server_conf);
        return;
    }
    rv = apr_proc_wait_all_procs(proc, status, why, APR_NOWAIT, threaded.pconf);
    if (!APR_STATUS_IS_CHILD_DONE(rv)) {
        proc->pid = -1;
        apr_sleep(apr_time_from_msec(HURRY_MS));
    }
}

/* What is still to be started after a restart is started as slots become free,
 * for a second; then it depends on how many threads are idle.
 */
static void watch_children(int to_start)
{
    const ap_unixd_mpm_retained_data *mpm = threaded.retained->mpm;
    apr_uint64_t calm_at = in_seconds(1);
    int killed = 0;

    while (!mpm->restart_pending && !mpm->shutdown_pending) {
        apr_exit_why_e why;
        apr_proc_t proc;
        int status;
        int is_hurry = to_start > 0 && hold_clock() < calm_at;
        int slot;

        await_child(&proc, &why, &status, is_hurry);
        children_keep_deadlines();
        if (proc.pid != -1) {
            slot = collect(&proc, why, status);
            if (slot < 0 || is_given_up) {
                continue;
            }
            if (to_start > 0 && slot < limits.max_servers) {
                to_start -= children_make(slot);
            }
            if (!APR_PROC_CHECK_SIGNALED(why) || ++killed > MOST_REPLACED) {
                continue;
            }
            to_start++; /* at once, if it is not one of many */
        }
        else {
            killed = 0;
        }
        if (to_start > 0) {
            to_start = children_start(to_start);
            to_start = is_hurry ? to_start : 0;
        }
        else {
            children_maintain();
            if (children_are_hopeless()) {
                is_given_up = 1;
                return;
            }
        }
    }
}

static void log_start(apr_pool_t *plog, server_rec *s)
{
    const bucket_t *bucket = &threaded.buckets[0];

    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, ap_server_conf,
                 "threaded: T022: %s configured -- resuming normal operations",
                 ap_get_server_description());
    ap_log_error(APLOG_MARK, APLOG_INFO, 0, ap_server_conf,
                 "threaded: T023: built: %s", ap_get_server_built());
    ap_log_command_line(plog, s);
    ap_log_mpm_common(s);
    ap_log_error(APLOG_MARK, APLOG_DEBUG, 0, ap_server_conf,
                 "threaded: T024: Accept mutex: %s",
                 bucket->mutex ? threaded.accept.name(bucket->mutex) : "none");
}

/* ---- Restart -------------------------------------------------------------- */

/* Where the hold has been switched off, what is served is cut. */
static void restart(void)
{
    ap_unixd_mpm_retained_data *mpm = threaded.retained->mpm;
    int is_hard = mpm->is_ungraceful;

    mpm->my_generation++;
    ap_scoreboard_image->global->running_generation = mpm->my_generation;
    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, ap_server_conf,
                 "threaded: T025: %s: the children %s",
                 is_hard ? "SIGHUP" : AP_SIG_GRACEFUL_STRING,
                 !is_hard                 ? "finish what they serve"
                 : threaded.is_held_by_us ? "finish what they serve, within "
                                            "the hold time"
                                          : "are ended");
    tell(is_hard ? AP_MPM_PODX_RESTART : AP_MPM_PODX_GRACEFUL);
    if (is_hard && !threaded.is_held_by_us) {
        ap_reclaim_child_processes(1, children_ended);
        return;
    }
    if (is_hard) {
        children_set_deadline(in_seconds(threaded.hold_seconds));
    }
    mpm->is_ungraceful = 0;
    threaded.retained->is_continued = 1;
}

/* ---- Stop ----------------------------------------------------------------- */

/* Clients that would come now are refused, after they have tried again.  If all
 * threads are busy this may last, and another signal ends it.
 */
static void drain(apr_uint64_t deadline)
{
    hold_listeners_find();
    hold_listeners_shut();
    while (!hold_listeners_are_idle()
           && !threaded.retained->mpm->shutdown_pending
           && (deadline == 0 || hold_clock() < deadline)) {
        apr_sleep(apr_time_from_msec(DRAIN_MS));
    }
}

/* A signal to stop has come, again.  Returns whether that means now. */
static int is_urgent(apr_uint64_t *asked, apr_uint64_t *deadline)
{
    apr_uint64_t now = hold_clock();

    threaded.retained->mpm->shutdown_pending = 0;
    if (!threaded.is_held_by_us) {
        return 1;
    }
    if (*asked == 0) {
        *asked = now;
        *deadline = in_seconds(threaded.hold_seconds);
        return 0;
    }
    return now - *asked >= AGAIN_MS;
}

/* Until there are no children, of whatever generation, or time is up. */
static void await_children(apr_uint64_t asked, apr_uint64_t deadline)
{
    const ap_unixd_mpm_retained_data *mpm = threaded.retained->mpm;

    while (children_left() && (deadline == 0 || hold_clock() < deadline)) {
        apr_sleep(apr_time_from_msec(LOOK_MS));
        ap_relieve_child_processes(children_ended);
        if (mpm->shutdown_pending && is_urgent(&asked, &deadline)) {
            return;
        }
    }
}

static void log_stop(int is_hard)
{
    ap_remove_pid(threaded.pconf, ap_pid_fname);
    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, ap_server_conf,
                 "threaded: T026: caught %s, shutting down%s",
                 is_hard ? "SIGTERM" : AP_SIG_GRACEFUL_STOP_STRING,
                 is_hard ? "" : " gracefully");
}

static void stop(void)
{
    ap_unixd_mpm_retained_data *mpm = threaded.retained->mpm;
    int is_hard = mpm->is_ungraceful;
    apr_uint64_t asked = is_hard ? hold_clock() : 0;
    apr_uint64_t deadline = in_seconds(is_hard ? threaded.hold_seconds
                                               : ap_graceful_shutdown_timeout);

    if (!is_hard && !is_given_up) {
        log_stop(is_hard);
    }
    if (!is_hard || threaded.is_held_by_us) {
        mpm->shutdown_pending = 0;
        if (threaded.is_held_by_us) {
            drain(deadline);
        }
        ap_close_listeners();
        tell(is_hard ? AP_MPM_PODX_RESTART : AP_MPM_PODX_GRACEFUL);
        await_children(asked, deadline);
    }
    tell(AP_MPM_PODX_RESTART);
    ap_reclaim_child_processes(1, children_ended);
    if (is_hard && !is_given_up) {
        log_stop(is_hard);
    }
}

/* ---- A generation --------------------------------------------------------- */

int parent_run(apr_pool_t *plog, server_rec *s)
{
    retained_t *retained = threaded.retained;
    ap_unixd_mpm_retained_data *mpm = retained->mpm;
    int to_start;

    is_given_up = 0;
    ap_log_pid(threaded.pconf, ap_pid_fname);
    if (!mpm->was_graceful) {
        if (ap_run_pre_mpm(s->process->pool, SB_SHARED) != OK) {
            mpm->mpm_state = AP_MPMQ_STOPPING;
            return !OK;
        }
        ap_scoreboard_image->global->running_generation = mpm->my_generation;
    }
    ap_unixd_mpm_set_signals(threaded.pconf, threaded.is_one_process);
    limits_fit_buckets(threaded.bucket_count);
    retained->calm_cycles = mpm->was_graceful ? CALM_CYCLES : 0;
    to_start = children_start(limits.start_servers);
    log_start(plog, s);
    mpm->mpm_state = AP_MPMQ_RUNNING;

    watch_children(mpm->was_graceful ? to_start : 0);

    mpm->mpm_state = AP_MPMQ_STOPPING;
    retained->is_continued = 0;
    if (mpm->shutdown_pending || is_given_up) {
        stop();
        return DONE;
    }
    if (threaded.is_one_process) {
        return DONE;
    }
    restart();
    return OK;
}
