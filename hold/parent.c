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

/* The parent's half: a hard restart (HUP) is carried out as a graceful one, a
 * stop (TERM) as a graceful stop, both with a deadline.
 *
 * httpd sets its signals' handlers anew for each generation, right before its
 * main loop, in a function of its own.  Its calls of sigaction() are bound, so
 * that what it sets is ours from the first moment, and its own handler is
 * called with the graceful signal in place of the hard one.  Before modules
 * are unloaded its own handlers are put back; what they note while the
 * configuration is read again is looked at when ours are set the next time.
 * So there is no moment at which a hard signal has its hard effect.
 *
 * Its calls of kill() are bound as well: before the deadline no signal is sent
 * to a child that serves.  It is asked on the board instead.
 *
 * A stop first lets nobody new in: a filter on the listening sockets drops
 * what would open a connection, while those that wait in the backlog are still
 * accepted.  When there are none left, the graceful stop begins.
 *
 * The time is kept by a timer that sends WINCH, for which the parent has a
 * handler anyway.
 */

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "httpd.h"
#include "http_config.h"
#include "http_log.h"
#include "mpm_common.h"
#include "unixd.h"

#include "hold/hold.h"
#include "mpm/bind.h"
#include "mpm/retained.h"

APLOG_USE_MODULE(sigdefer);

#define PARENT_KEY "mod_sigdefer_parent"

#define DRAIN_MS 10 /* between two looks at the backlog */
#define TICK_MS 100 /* between two looks at the deadlines */

/* From the deadline to KILL, for a child that is inside a section or cannot
 * be reached, and to the hard stop.
 */
#define KILL_MS 4000
#define LAST_MS 5000

/* A TERM that comes later than this after the first one means now. */
#define AGAIN_MS 1000

/* Outlives the module, which is unloaded at each restart.  Written in the
 * parent's handlers, which block each other, and in hold_parent_init().
 */
typedef struct {
    volatile sig_atomic_t stopping;  /* TERM, INT or WINCH has come */
    volatile sig_atomic_t draining;  /* and the backlog is not empty yet */
    volatile sig_atomic_t now;       /* no more holding */
    volatile uint64_t drain_until;   /* ms; then the stop begins anyway */
    volatile uint64_t stop_asked;    /* ms of the first TERM; 0: none */
    volatile uint64_t restart_asked; /* ms of a HUP; 0: none */
} retained_t;

static retained_t *retained;

/* Of this pass; r/o after hold_parent_init() but for the stock handlers. */
static pid_t parent_pid;
static int hold_seconds;
static timer_t timer;
static int has_timer;
static int (*stock_kill)(pid_t, int);
static int (*stock_sigaction)(int, const struct sigaction *,
                              struct sigaction *);
static void (*stock_stop)(int);
static void (*stock_restart)(int);

static const int parent_signals[] = { SIGTERM, SIGINT, AP_SIG_GRACEFUL_STOP,
                                      SIGHUP, AP_SIG_GRACEFUL };
#define PARENT_SIGNALS (sizeof(parent_signals) / sizeof(parent_signals[0]))

static uint64_t hold_ms(void)
{
    return (uint64_t)hold_seconds * 1000u;
}

static void set_tick(uint64_t ms)
{
    if (has_timer) {
        hold_set_timer(timer, ms, ms);
    }
}

/* ---- Children ----------------------------------------------------------- */

/* Everybody who is on the board: to go, by then if not before. */
static void set_deadline(uint64_t deadline)
{
    int count;
    hold_entry_t *entries = hold_board_entries(&count);
    int i;

    for (i = 0; i < count; i++) {
        uint64_t none = 0;

        if (atomic_load(&entries[i].pid) == 0) {
            continue;
        }
        if (atomic_load(&entries[i].state) == HOLD_SERVING) {
            hold_board_held(&entries[i]);
        }
        if (deadline <= hold_clock()) {
            atomic_store(&entries[i].deadline, deadline);
        }
        else {
            atomic_compare_exchange_strong(&entries[i].deadline, &none,
                                           deadline);
        }
    }
}

/* TERM to those whose deadline has passed; they end in their handler.  KILL
 * is the last resort.  Returns whether any deadline is left to keep.
 */
static int keep_deadlines(uint64_t now)
{
    int count;
    hold_entry_t *entries = hold_board_entries(&count);
    int left = 0;
    int i;

    for (i = 0; i < count; i++) {
        pid_t pid = atomic_load(&entries[i].pid);
        uint64_t deadline = atomic_load(&entries[i].deadline);

        if (pid != 0 && deadline != 0) {
            left = 1;
            if (now >= deadline + KILL_MS) {
                atomic_store(&entries[i].killed, 1);
                stock_kill(pid, SIGKILL);
            }
            else if (now >= deadline) {
                stock_kill(pid, SIGTERM);
            }
        }
    }
    return left;
}

/* With which one, on a stock httpd: the graceful one stands for it. */
static int hard_signal(int signo)
{
    if (retained->stop_asked) {
        return SIGTERM;
    }
    return retained->restart_asked ? SIGHUP : signo;
}

/* kill(), as httpd calls it. */
static int bound_kill(pid_t pid, int signo)
{
    hold_entry_t *entry;

    if (signo == 0 || signo == SIGKILL || getpid() != parent_pid
        || retained->now || !(entry = hold_board_find(pid))) {
        return stock_kill(pid, signo);
    }
    atomic_store(&entry->asked, hard_signal(signo));
    if (atomic_load(&entry->state) == HOLD_SERVING) {
        hold_board_held(entry);
        return 0;
    }
    /* a child that waits goes in the same way, whatever it is sent */
    return stock_kill(pid, SIGTERM);
}

/* ---- Signals to the parent ---------------------------------------------- */

/* GracefulShutdownTimeout, or ours. */
static uint64_t graceful_ms(void)
{
    return ap_graceful_shutdown_timeout > 0
               ? (uint64_t)ap_graceful_shutdown_timeout * 1000u
               : hold_ms();
}

static void begin_drain(void)
{
    retained->stopping = 1;
    retained->draining = 1;
    retained->drain_until = hold_clock() + graceful_ms();
    hold_listeners_shut();
    set_tick(DRAIN_MS);
}

/* httpd's own time-out ends in TERM for everybody, programs of requests as
 * well, which would make a response that is cut look like a whole one: the
 * children are to be gone by then.
 */
static void begin_stop(void)
{
    retained->draining = 0;
    if (retained->stop_asked == 0 && ap_graceful_shutdown_timeout > 0) {
        set_deadline(hold_clock() + graceful_ms() - 2 * (uint64_t)TICK_MS);
    }
    stock_stop(AP_SIG_GRACEFUL_STOP);
}

static void stop_now(void)
{
    retained->now = 1;
    retained->draining = 0;
    set_deadline(hold_clock());
    stock_stop(SIGTERM);
}

static void tick(void)
{
    uint64_t now = hold_clock();
    uint64_t stop_at = retained->stop_asked ? retained->stop_asked + hold_ms()
                                            : 0;
    int left;

    if (retained->draining
        && (hold_listeners_are_idle() || now >= retained->drain_until)) {
        begin_stop();
    }
    if (stop_at && now >= stop_at + LAST_MS && !retained->now) {
        stop_now();
    }
    left = keep_deadlines(now);
    set_tick(retained->draining ? DRAIN_MS : left || stop_at ? TICK_MS : 0);
}

static void stop(int signo)
{
    uint64_t now = hold_clock();

    if (signo != AP_SIG_GRACEFUL_STOP) {
        if (retained->stop_asked == 0) {
            retained->stop_asked = now;
            ap_graceful_shutdown_timeout = 0;
            set_deadline(now + hold_ms());
            set_tick(retained->draining ? DRAIN_MS : TICK_MS);
        }
        else if (now - retained->stop_asked >= AGAIN_MS) {
            stop_now();
        }
    }
    if (!retained->stopping) {
        begin_drain();
    }
}

static void on_stop(int signo, siginfo_t *info, void *context)
{
    int saved_errno = errno;

    (void)context;
    if (getpid() != parent_pid) {
        stock_stop(signo); /* a child that has not set its own yet */
    }
    else if (signo == AP_SIG_GRACEFUL_STOP && info->si_code == SI_TIMER) {
        tick();
    }
    else {
        stop(signo);
    }
    errno = saved_errno;
}

static void on_restart(int signo, siginfo_t *info, void *context)
{
    int saved_errno = errno;

    (void)info;
    (void)context;
    if (getpid() != parent_pid) {
        stock_restart(signo);
    }
    else {
        if (signo == SIGHUP && retained->restart_asked == 0) {
            retained->restart_asked = hold_clock();
        }
        stock_restart(AP_SIG_GRACEFUL);
    }
    errno = saved_errno;
}

/* What httpd's own handlers have noted while ours were away. */
static void catch_up(int signo)
{
    ap_unixd_mpm_retained_data *mpm = ap_unixd_mpm_get_retained_data();

    if (signo == SIGTERM && (mpm->shutdown_pending || retained->stopping)) {
        int was_hard = mpm->is_ungraceful || retained->stop_asked;

        mpm->shutdown_pending = 0;
        mpm->is_ungraceful = 0;
        retained->stopping = 0;
        retained->stop_asked = 0;
        stop(was_hard ? SIGTERM : AP_SIG_GRACEFUL_STOP);
    }
    else if (signo == SIGHUP && mpm->restart_pending && mpm->is_ungraceful) {
        mpm->is_ungraceful = 0;
        retained->restart_asked = hold_clock();
    }
    else if (signo == AP_SIG_GRACEFUL_STOP) {
        /* not before there is our handler for it: the deadlines of the
         * generation before, and a stop under way
         */
        set_tick(retained->draining ? DRAIN_MS : TICK_MS);
    }
}

static int is_parent_signal(int signo)
{
    size_t i;

    for (i = 0; i < PARENT_SIGNALS; i++) {
        if (parent_signals[i] == signo) {
            return 1;
        }
    }
    return 0;
}

/* sigaction(), as httpd calls it. */
static int bound_sigaction(int signo, const struct sigaction *act,
                           struct sigaction *oact)
{
    struct sigaction ours;
    size_t i;
    int rv;

    if (!act || getpid() != parent_pid || !is_parent_signal(signo)
        || (act->sa_flags & SA_SIGINFO) || act->sa_handler == SIG_DFL
        || act->sa_handler == SIG_IGN) {
        return stock_sigaction(signo, act, oact);
    }
    memset(&ours, 0, sizeof(ours));
    ours.sa_mask = act->sa_mask;
    for (i = 0; i < PARENT_SIGNALS; i++) {
        sigaddset(&ours.sa_mask, parent_signals[i]);
    }
    ours.sa_flags = act->sa_flags | SA_SIGINFO;
    if (signo == SIGHUP || signo == AP_SIG_GRACEFUL) {
        stock_restart = act->sa_handler;
        ours.sa_sigaction = on_restart;
    }
    else {
        stock_stop = act->sa_handler;
        ours.sa_sigaction = on_stop;
    }
    rv = stock_sigaction(signo, &ours, oact);
    if (rv == 0) {
        catch_up(signo);
    }
    return rv;
}

/* ---- Begin and end of a pass -------------------------------------------- */

/* Before modules are unloaded, so that nothing points to them. */
static apr_status_t end_pass(void *unused)
{
    struct sigaction found;
    struct sigaction stock;
    size_t i;

    (void)unused;
    if (getpid() != parent_pid) {
        return APR_SUCCESS;
    }
    if (retained->restart_asked) {
        set_deadline(retained->restart_asked + hold_ms());
        retained->restart_asked = 0;
    }
    set_tick(0);
    hold_listeners_keep();
    if (retained->stopping) {
        hold_listeners_open(); /* if the stop goes on, nobody again */
    }
    for (i = 0; i < PARENT_SIGNALS; i++) {
        int signo = parent_signals[i];

        if (stock_sigaction(signo, NULL, &found) != 0
            || !(found.sa_flags & SA_SIGINFO)
            || (found.sa_sigaction != on_stop
                && found.sa_sigaction != on_restart)) {
            continue;
        }
        memset(&stock, 0, sizeof(stock));
        stock.sa_handler = found.sa_sigaction == on_stop ? stock_stop
                                                         : stock_restart;
        stock.sa_flags = found.sa_flags & ~SA_SIGINFO;
        stock_sigaction(signo, &stock, NULL);
    }
    if (has_timer) {
        timer_delete(timer);
        has_timer = 0;
    }
    bind_undo();
    return APR_SUCCESS;
}

pid_t hold_parent_pid(void)
{
    return parent_pid;
}

/* Bound to what they are bound to already, nothing changes. */
const char *hold_parent_unbound(void)
{
    void *action = bind_original("sigaction");
    void *killing = bind_original("kill");

    if (!action || !killing
        || bind_import((const void *)ap_unixd_mpm_set_signals, "sigaction",
                       action)
               != APR_SUCCESS) {
        return "restarts and stops are hard ones: httpd cannot be bound here";
    }
    return bind_import((const void *)ap_mpm_safe_kill, "kill", killing)
                   == APR_SUCCESS
               ? NULL
               : "a restart interrupts system calls of requests: kill() of "
                 "httpd cannot be bound here";
}

void hold_parent_init(apr_pool_t *pconf, server_rec *s, int seconds)
{
    struct sigevent event;
    apr_status_t rv;

    retained = retained_data(PARENT_KEY, sizeof(*retained));
    parent_pid = getpid();
    hold_seconds = seconds;
    stock_kill = (int (*)(pid_t, int))bind_original("kill");
    stock_sigaction = (int (*)(int, const struct sigaction *,
                               struct sigaction *))bind_original("sigaction");
    if (!stock_kill || !stock_sigaction) {
        ap_log_error(
            APLOG_MARK, APLOG_WARNING, APR_ENOTIMPL, s,
            "sigdefer: S030: nothing of httpd can be bound: restarts and "
            "stops are hard ones, and cut what is served");
        return;
    }
    hold_listeners_find();
    memset(&event, 0, sizeof(event));
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = AP_SIG_GRACEFUL_STOP;
    has_timer = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    if (!has_timer) {
        ap_log_error(
            APLOG_MARK, APLOG_WARNING, errno, s,
            "sigdefer: S031: no timer: restarts and stops are hard ones, "
            "and cut what is served");
        return;
    }
    apr_pool_cleanup_register(pconf, NULL, end_pass, apr_pool_cleanup_null);
    rv = bind_import((const void *)ap_unixd_mpm_set_signals, "sigaction",
                     (void *)bound_sigaction);
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, s,
                     "sigdefer: S032: sigaction() of httpd cannot be bound: "
                     "restarts and stops are hard ones; children finish what "
                     "they serve for 9 s at most");
        return;
    }
    rv = bind_import((const void *)ap_mpm_safe_kill, "kill",
                     (void *)bound_kill);
    if (rv != APR_SUCCESS) {
        ap_log_error(
            APLOG_MARK, APLOG_WARNING, rv, s,
            "sigdefer: S033: kill() of httpd cannot be bound: signals of "
            "the parent interrupt system calls of requests");
    }
    rv = hold_cgid_init(pconf, seconds);
    if (rv != APR_SUCCESS) {
        ap_log_error(
            APLOG_MARK, APLOG_WARNING, rv, s,
            "sigdefer: S034: mod_cgid cannot be bound: a restart cuts CGI "
            "requests that its daemon has just been sent");
    }
    hold_threaded_init(s);
}
