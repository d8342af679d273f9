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

/*
 * The handler "sigdefer-demo": what a module does with mod_sigdefer.h, in
 * its linked form, and pages that show it.
 *
 *   /                 the signal state of the child that answers
 *   /watch?seconds=3  a deferral, line by line as it happens
 *   /slow?seconds=5   a response that takes its time, to be interrupted
 *
 * Concurrency: the handler of SIGUSR2 may run in any thread.  What it notes
 * about an arrival goes to the watch of the thread it runs in, which only
 * that thread reads; what it counts for the whole process is atomic.
 */

#include "httpd.h"
#include "http_config.h"
#include "http_log.h"
#include "http_protocol.h"
#include "http_request.h"
#include "ap_mpm.h"
#include "apr_lib.h"
#include "apr_strings.h"

#include "mod_sigdefer.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* httpd finds the module by this name; the rest may be hidden. */
extern SIGDEFER_DECLARE module sigdefer_demo_module;

#define HTML "text/html; charset=utf-8"
#define TEXT "text/plain; charset=utf-8"

#define SECOND APR_INT64_C(1000000) /* all times are in microseconds */

#define SECONDS_MAX 30
#define ARRIVALS_MAX 16

/* One run of the handler. */
typedef struct {
    int64_t time; /* of now_us() */
    int depth;    /* the section depth that the handler found */
    int code;     /* the rest: what the siginfo said */
    int value;
    pid_t pid;
    uid_t uid;
} arrival_t;

/* What the handler tells the thread that watches.  Written by the handler in
 * that same thread, so volatile is enough: there is one reader, and it cannot
 * run in the middle of a write.
 */
typedef struct {
    volatile sig_atomic_t runs;                /* of the handler */
    volatile arrival_t arrivals[ARRIVALS_MAX]; /* the first of them */
} watch_t;

/* NULL: this thread does not watch.  Initial-exec, since the handler reads it
 * and other models may allocate at the first use in a thread.
 */
static __thread watch_t *volatile watching
    __attribute__((tls_model("initial-exec")));

/* Runs of the handler in this process, watched or not.  Written by the
 * handler, read by the page; relaxed, nothing else depends on it.
 */
static atomic_uint handled;

static const struct {
    int signo;
    const char *name;
} default_signals[] = {
    { SIGALRM, "ALRM" }, { SIGHUP, "HUP" },   { SIGINT, "INT" },
    { SIGQUIT, "QUIT" }, { SIGTERM, "TERM" }, { SIGUSR1, "USR1" },
    { SIGUSR2, "USR2" }, { SIGPROF, "PROF" },
};

static const char style[] =
    ":root{color-scheme:light dark;--fg:#1d2329;--bg:#fbfbf9;--soft:#5b6570;"
    "--line:#dcdfe2;--panel:#f1f2f0;--link:#0b5c9e;--on:#1a6e3c;"
    "--off:#9a4a00}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e4e7ea;--bg:#15181b;"
    "--soft:#9aa4ae;--line:#31373d;--panel:#1e2226;--link:#7fbdf0;"
    "--on:#6fcf97;--off:#f0a860}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:2rem 1.25rem 4rem;max-width:46rem;"
    "background:var(--bg);color:var(--fg);font:1rem/1.55 system-ui,"
    "sans-serif}\n"
    "h1{margin:0 0 .25rem;font-size:1.6rem;line-height:1.25}\n"
    "h2{margin:2.5rem 0 .5rem;font-size:1.1rem}\n"
    "p{margin:.5rem 0}a{color:var(--link)}\n"
    ".soft{color:var(--soft)}.on{color:var(--on)}.off{color:var(--off)}\n"
    "code,kbd,time{font:.9em ui-monospace,monospace}\n"
    "kbd{padding:.15em .4em;border-radius:4px;background:var(--panel);"
    "white-space:nowrap}\n"
    "dl.facts{display:grid;grid-template-columns:repeat(auto-fit,"
    "minmax(7rem,1fr));gap:1rem;margin:1.5rem 0 0;padding:1rem 1.25rem;"
    "border:1px solid var(--line);border-radius:8px;background:var(--panel)}\n"
    "dl.facts div{display:flex;flex-direction:column}\n"
    "dt{color:var(--soft);font-size:.85rem}\n"
    "dd{margin:0;font-size:1.15rem;font-variant-numeric:tabular-nums}\n"
    ".scroll{overflow-x:auto}td code{overflow-wrap:anywhere}\n"
    "table{width:100%;border-collapse:collapse}\n"
    "th,td{padding:.4rem .8rem .4rem 0;border-bottom:1px solid var(--line);"
    "text-align:left;vertical-align:baseline}\n"
    "thead th{color:var(--soft);font-size:.85rem;font-weight:400}\n"
    "tbody th{font-weight:600;white-space:nowrap}\n"
    "td.n{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}\n"
    "form{display:flex;flex-wrap:wrap;gap:.5rem;align-items:center;"
    "margin:.75rem 0}\n"
    "input,button{font:inherit;padding:.3rem .6rem;border-radius:6px;"
    "border:1px solid var(--soft);background:var(--bg);color:var(--fg)}\n"
    "input{width:4.5rem}button{cursor:pointer;background:var(--panel)}\n"
    "a:focus-visible,input:focus-visible,button:focus-visible{"
    "outline:2px solid var(--link);outline-offset:2px}\n"
    "ol.log{margin:1.5rem 0;padding:0;list-style:none}\n"
    "ol.log li{display:grid;grid-template-columns:5rem 1fr;gap:.75rem;"
    "align-items:baseline;"
    "padding:.4rem 0;border-bottom:1px solid var(--line)}\n"
    "ol.log time{color:var(--soft);text-align:right}\n";

/* Async-signal-safe. */
static int64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * SECOND + ts.tv_nsec / 1000;
}

/* Returns at the time, or as soon as a signal has arrived. */
static void wait_until(int64_t time)
{
    struct timespec ts;

    ts.tv_sec = time / SECOND;
    ts.tv_nsec = time % SECOND * 1000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

/* One that came just before the wait is noticed a tenth of a second later. */
static void wait_for_signal(int64_t end)
{
    int64_t look = now_us() + SECOND / 10;

    wait_until(end < look ? end : look);
}

static void usr2_handler(int signo, siginfo_t *info, void *context)
{
    watch_t *watch = watching;

    (void)signo;
    (void)context;
    atomic_fetch_add_explicit(&handled, 1, memory_order_relaxed);
    if (watch && watch->runs < ARRIVALS_MAX) {
        volatile arrival_t *arrival = &watch->arrivals[watch->runs];

        arrival->time = now_us();
        arrival->depth = sigdefer_depth();
        arrival->code = info->si_code;
        arrival->value = info->si_value.sival_int;
        arrival->pid = info->si_pid;
        arrival->uid = info->si_uid;
    }
    if (watch) {
        ++watch->runs;
    }
}

static void page_begin(request_rec *r, const char *title)
{
    ap_rvputs(r,
              "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
              "<meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" "
              "content=\"width=device-width, initial-scale=1\">\n"
              "<title>",
              ap_escape_html(r->pool, title),
              "</title>\n"
              "<link rel=\"icon\" href=\"data:,\">\n"
              "<style>\n",
              style, "</style>\n</head>\n<body>\n", NULL);
}

static void page_end(request_rec *r)
{
    ap_rputs("</main>\n</body>\n</html>\n", r);
}

static const char *state_name(void)
{
    return sigdefer_state() == SIGDEFER_ON ? "on" : "off";
}

static void show_facts(request_rec *r)
{
    int generation = 0;

    ap_mpm_query(AP_MPMQ_GENERATION, &generation);
    ap_rputs("<dl class=\"facts\">\n", r);
    ap_rprintf(r, "<div><dt>Deferral</dt><dd class=\"%s\">%s</dd></div>\n",
               state_name(), state_name());
    ap_rprintf(r, "<div><dt>Depth</dt><dd>%d</dd></div>\n", sigdefer_depth());
    ap_rprintf(r, "<div><dt>Pending</dt><dd>%d</dd></div>\n",
               sigdefer_pending(NULL));
    ap_rprintf(r, "<div><dt>MPM</dt><dd>%s</dd></div>\n",
               ap_escape_html(r->pool, ap_show_mpm()));
    ap_rprintf(r, "<div><dt>Generation</dt><dd>%d</dd></div>\n", generation);
    ap_rputs("</dl>\n", r);
}

static void show_form(request_rec *r, const char *path, const char *label,
                      int seconds)
{
    ap_rprintf(r,
               "<form action=\"%s\">\n"
               "<label for=\"%s\">Seconds</label>\n"
               "<input id=\"%s\" name=\"seconds\" type=\"number\" min=\"1\" "
               "max=\"%d\" value=\"%d\" required>\n"
               "<button>%s</button>\n</form>\n",
               path, path + 1, path + 1, SECONDS_MAX, seconds, label);
}

static void show_experiments(request_rec *r)
{
    int threaded = 0;

    ap_mpm_query(AP_MPMQ_IS_THREADED, &threaded);
    ap_rputs("<section>\n<h2>Watch a deferral</h2>\n"
             "<p>A request enters a section, sends itself a signal, and "
             "leaves the section when the time is over. Only then does the "
             "handler run.</p>\n",
             r);
    show_form(r, "/watch", "Watch", 3);
    ap_rputs("</section>\n<section>\n<h2>Interrupt a response</h2>\n"
             "<p>The first line names the child that answers. Send it "
             "<kbd>kill -TERM PID</kbd> while it writes: the response still "
             "comes to its END.</p>\n",
             r);
    show_form(r, "/slow", "Start", 5);
    ap_rprintf(r,
               "</section>\n<section>\n<h2>From a terminal</h2>\n"
               "<p><kbd>kill -USR2 %d</kbd> runs a handler of this module in "
               "this child, at once or, while a section is open, when it is "
               "left.%s Runs so far: %u.</p>\n</section>\n",
               (int)getpid(),
               threaded ? " The threads of this MPM block signals: the handler "
                          "runs only while somebody watches a deferral."
                        : "",
               atomic_load_explicit(&handled, memory_order_relaxed));
}

/* The default, ignored, or the file whose code handles the signal. */
static const char *owner(request_rec *r, const struct sigaction *act)
{
    Dl_info info;

    /* The two handler members share their place on every Unix. */
    if (act->sa_handler == SIG_DFL) {
        return "default";
    }
    if (act->sa_handler == SIG_IGN) {
        return "ignored";
    }
    if (!dladdr((void *)act->sa_handler, &info) || !info.dli_fname) {
        return "a handler of unknown origin";
    }
    return apr_psprintf(
        r->pool, "<code>%s</code>",
        ap_escape_html(r->pool, apr_filepath_name_get(info.dli_fname)));
}

static void show_signals(request_rec *r)
{
    struct sigaction kernel;
    struct sigaction registered;
    sigset_t blocked;
    apr_size_t i;

    sigemptyset(&blocked);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    ap_rputs("<section>\n<h2>Signals managed by default</h2>\n"
             "<p>Whom the kernel calls, and what was registered for the "
             "signal: mod_sigdefer stands in front and calls on.</p>\n"
             "<div class=\"scroll\">\n<table>\n"
             "<thead><tr><th scope=\"col\">Signal</th>"
             "<th scope=\"col\">In the kernel</th>"
             "<th scope=\"col\">Registered</th>"
             "<th scope=\"col\">In this thread</th></tr></thead>\n"
             "<tbody>\n",
             r);
    for (i = 0; i < sizeof(default_signals) / sizeof(*default_signals); ++i) {
        int signo = default_signals[i].signo;

        if (sigaction(signo, NULL, &kernel)
            || sigdefer_sigaction(signo, NULL, &registered)) {
            continue;
        }
        ap_rvputs(r, "<tr><th scope=\"row\">", default_signals[i].name,
                  "</th><td>", owner(r, &kernel), "</td><td>",
                  owner(r, &registered), "</td><td>",
                  sigismember(&blocked, signo) ? "blocked" : "open",
                  "</td></tr>\n", NULL);
    }
    ap_rputs("</tbody>\n</table>\n</div>\n</section>\n", r);
}

static void show_counter(request_rec *r, const char *name, uint64_t count,
                         const char *meaning)
{
    ap_rprintf(r,
               "<tr><th scope=\"row\">%s</th>"
               "<td class=\"n\">%" APR_UINT64_T_FMT "</td><td>%s</td></tr>\n",
               name, count, meaning);
}

static void show_counters(request_rec *r)
{
    sigdefer_stats_t stats;

    sigdefer_stats(&stats);
    ap_rputs("<section>\n<h2>Since this child started</h2>\n"
             "<div class=\"scroll\">\n<table>\n<tbody>\n",
             r);
    show_counter(r, "direct", stats.direct, "handled at once");
    show_counter(r, "deferred", stats.deferred, "queued inside a section");
    show_counter(r, "replayed", stats.replayed, "queued, and handled since");
    show_counter(r, "merged", stats.merged, "timer ticks found queued already");
    show_counter(r, "ignored", stats.ignored,
                 "queued, and ignored by the time of the replay");
    show_counter(r, "handed back", stats.handed_back,
                 "given back to the kernel");
    show_counter(r, "overflows", stats.overflows,
                 "times the queue was full and the kernel kept the rest");
    show_counter(r, "lost", stats.lost, "could not be kept");
    show_counter(r, "unpaired leaves", stats.unpaired_leaves,
                 "leaves without an enter");
    show_counter(r, "open sections", stats.open_sections,
                 "left open at the end of a request, and closed");
    show_counter(r, "adopted", stats.adopted,
                 "handlers that were found in place of ours");
    show_counter(r, "reaped", stats.reaped,
                 "child processes reaped for the administrator");
    show_counter(r, "longest", stats.longest_ns / 1000,
                 "microseconds of the longest deferral");
    ap_rputs("</tbody>\n</table>\n</div>\n</section>\n", r);
}

static int state_page(request_rec *r)
{
    page_begin(r, "mod_sigdefer: the signal state of a child");
    ap_rprintf(r,
               "<header>\n<h1>Signals in child %d</h1>\n"
               "<p class=\"soft\">What mod_sigdefer does in the process that "
               "answers this request. <a href=\"/\">Read it again</a>; "
               "another child may answer then.</p>\n"
               "</header>\n<main>\n",
               (int)getpid());
    show_facts(r);
    show_experiments(r);
    show_signals(r);
    show_counters(r);
    page_end(r);
    return OK;
}

/* A line of the log, sent at once. */
static void __attribute__((format(printf, 3, 4)))
log_line(request_rec *r, int64_t start, const char *format, ...)
{
    va_list args;

    ap_rprintf(r, "<li><time>%.3f s</time><span>",
               (double)(now_us() - start) / SECOND);
    va_start(args, format);
    ap_vrprintf(r, format, args);
    va_end(args);
    ap_rputs("</span></li>\n", r);
    ap_rflush(r);
}

static void log_arrivals(request_rec *r, const watch_t *watch, int64_t start,
                         int64_t sent, int value)
{
    int i;

    for (i = 0; i < watch->runs && i < ARRIVALS_MAX; ++i) {
        const volatile arrival_t *arrival = &watch->arrivals[i];

        if (arrival->code == SI_QUEUE && arrival->pid == getpid()
            && arrival->value == value) {
            log_line(r, start,
                     "The handler ran at %.6f s, at depth %d: USR2 "
                     "with the value %d from this child, deferred for "
                     "%.6f s.",
                     (double)(arrival->time - start) / SECOND, arrival->depth,
                     arrival->value, (double)(arrival->time - sent) / SECOND);
        }
        else {
            log_line(r, start,
                     "The handler ran at %.6f s, at depth %d: USR2 "
                     "from process %d of user %d.",
                     (double)(arrival->time - start) / SECOND, arrival->depth,
                     (int)arrival->pid, (int)arrival->uid);
        }
    }
    if (i < watch->runs) {
        log_line(r, start, "Further runs of the handler: %d.",
                 (int)watch->runs - i);
    }
}

/* Tell of the signals that wait when their number has changed. */
static int log_pending(request_rec *r, const watch_t *watch, int64_t start,
                       int known)
{
    sigset_t set;
    int pending = sigdefer_pending(&set);

    if (pending != known) {
        log_line(r, start,
                 "Signals that wait: %d, %s. Runs of the handler so far: %d.",
                 pending,
                 sigismember(&set, SIGUSR2) == 1 ? "USR2 among them"
                                                 : "USR2 not among them",
                 (int)watch->runs);
    }
    return pending;
}

static void watch_section(request_rec *r, int seconds)
{
    watch_t watch = { 0 };
    union sigval value;
    int64_t start = now_us();
    int64_t end = start + seconds * SECOND;
    int64_t send_at = start + SECOND / (seconds == 1 ? 2 : 1);
    int64_t now = start;
    int64_t sent = 0;
    int pending = 0;
    int rc;

    /* Any number would do; one that nobody can expect proves more. */
    value.sival_int = (int)(start % 10000);
    watching = &watch;

    sigdefer_enter();
    log_line(r, start,
             "Entered a section: depth %d. Now is the time for "
             "<kbd>kill -USR2 %d</kbd>, too.",
             sigdefer_depth(), (int)getpid());
    while (now < end && !r->connection->aborted) {
        if (!sent && now >= send_at) {
            sent = now_us();
            rc = pthread_sigqueue(pthread_self(), SIGUSR2, value);
            log_line(r, start,
                     rc ? "The kernel refused USR2 with the value %d."
                        : "Sent myself USR2 with the value %d.",
                     value.sival_int);
        }
        pending = log_pending(r, &watch, start, pending);

        wait_for_signal(sent ? end : send_at);
        now = now_us();
    }
    log_line(r, start, "Leaving the section. Runs of the handler so far: %d.",
             (int)watch.runs);
    sigdefer_leave();

    log_arrivals(r, &watch, start, sent, value.sival_int);
    watching = NULL;
}

static int watch_page(request_rec *r, int seconds)
{
    sigset_t usr2;
    sigset_t mask;

    page_begin(r, "mod_sigdefer: a deferral");
    ap_rprintf(r,
               "<header>\n<h1>A deferral in child %d</h1>\n"
               "<p class=\"soft\">Deferral is <strong class=\"%s\">%s"
               "</strong> in this child. Times since the section was "
               "entered.</p>\n</header>\n<main>\n<ol class=\"log\">\n",
               (int)getpid(), state_name(), state_name());

    /* The worker threads of threaded MPMs block signals.  One that waits for
     * the process since is handled here, before the section is entered.
     */
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &usr2, &mask);
    watch_section(r, seconds);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);

    ap_rprintf(r,
               "</ol>\n<p><a href=\"/watch?seconds=%d\">Once more</a>, or "
               "<a href=\"/\">back to the state of a child</a></p>\n",
               seconds);
    page_end(r);
    return OK;
}

static int slow_page(request_rec *r, int seconds)
{
    int64_t start = now_us();
    int step;

    ap_rprintf(r, "Child %d answers for %d seconds. Try: kill -TERM %d\n",
               (int)getpid(), seconds, (int)getpid());
    for (step = 1; step <= seconds * 2; ++step) {
        int64_t next = start + step * SECOND / 2;

        if (ap_rflush(r) < 0) {
            return OK;
        }
        while (now_us() < next) {
            wait_until(next);
        }
        ap_rprintf(r, "%d.%d s\n", step / 2, step % 2 * 5);
    }
    ap_rputs("END\n", r);
    return OK;
}

/* Nothing, or "seconds=" and a whole number within the bounds. */
static int parse_seconds(const char *args, int *seconds)
{
    static const char key[] = "seconds=";
    const char *digits;

    if (!args) {
        return 1;
    }
    if (strncmp(args, key, sizeof(key) - 1) != 0) {
        return 0;
    }
    digits = args + sizeof(key) - 1;
    if (!*digits || strlen(digits) > 2
        || strspn(digits, "0123456789") != strlen(digits)) {
        return 0;
    }
    *seconds = (int)strtol(digits, NULL, 10);
    return *seconds >= 1 && *seconds <= SECONDS_MAX;
}

static int timed_page(request_rec *r, const char *type, int seconds,
                      int (*page)(request_rec *r, int seconds))
{
    if (!parse_seconds(r->args, &seconds)) {
        apr_table_setn(
            r->notes, "error-notes",
            apr_psprintf(r->pool,
                         "The query may be <code>seconds=</code> and a whole "
                         "number from 1 to %d.",
                         SECONDS_MAX));
        return HTTP_BAD_REQUEST;
    }
    ap_set_content_type(r, type);
    return r->header_only ? OK : page(r, seconds);
}

static int demo_handler(request_rec *r)
{
    if (!r->handler || strcmp(r->handler, "sigdefer-demo") != 0) {
        return DECLINED;
    }
    ap_allow_standard_methods(r, REPLACE_ALLOW, M_GET, -1);
    if (r->method_number != M_GET) {
        return HTTP_METHOD_NOT_ALLOWED;
    }
    apr_table_setn(r->headers_out, "Cache-Control", "no-store");
    /* Browsers show plain text line by line only if they need not guess. */
    apr_table_setn(r->headers_out, "X-Content-Type-Options", "nosniff");
    if (!strcmp(r->uri, "/")) {
        ap_set_content_type(r, HTML);
        return state_page(r);
    }
    if (!strcmp(r->uri, "/watch")) {
        return timed_page(r, HTML, 3, watch_page);
    }
    if (!strcmp(r->uri, "/slow")) {
        return timed_page(r, TEXT, 5, slow_page);
    }
    return HTTP_NOT_FOUND;
}

/* Before mod_sigdefer's own child_init this is a plain sigaction(), and the
 * handler is taken over there: the order of the two does not matter.
 */
static void demo_child_init(apr_pool_t *p, server_rec *s)
{
    struct sigaction act = { 0 };
    int rc;

    (void)p;
    act.sa_sigaction = usr2_handler;
    act.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&act.sa_mask);
    rc = sigdefer_sigaction(SIGUSR2, &act, NULL);
    if (rc) {
        ap_log_error(APLOG_MARK, APLOG_ERR, rc, s,
                     "sigdefer demo: no handler for USR2");
    }
}

static void demo_register_hooks(apr_pool_t *p)
{
    (void)p;
    ap_hook_child_init(demo_child_init, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_handler(demo_handler, NULL, NULL, APR_HOOK_MIDDLE);
}

AP_DECLARE_MODULE(sigdefer_demo) = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL,
    demo_register_hooks,     0
};
