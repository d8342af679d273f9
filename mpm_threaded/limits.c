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

/* How many processes and threads there may be.  What is out of range is
 * refused where it stands; what contradicts something else is corrected when
 * all has been read, as in the other MPMs, and a warning says so.
 */

#include "apr_lib.h"
#include "apr_strings.h"
#include "httpd.h"
#include "http_core.h"
#include "http_log.h"

#include "mpm_threaded/threaded.h"

APLOG_USE_MODULE(mpm_threaded);

#define MOST_SERVERS 20000
#define MOST_THREADS 20000
#define MOST_WORKERS 400000000 /* of both */

/* As worker has them, so that one MPM can take the place of the other. */
#define DEFAULT_START_SERVERS 3
#define DEFAULT_SERVER_LIMIT 16
#define DEFAULT_THREAD_LIMIT 64
#define DEFAULT_THREADS_PER_CHILD 25
#define DEFAULT_MIN_SPARE_THREADS 75
#define DEFAULT_MAX_SPARE_THREADS 250

limits_t limits;

void limits_reset(void)
{
    limits.start_servers = DEFAULT_START_SERVERS;
    limits.server_limit = DEFAULT_SERVER_LIMIT;
    limits.thread_limit = DEFAULT_THREAD_LIMIT;
    limits.threads_per_child = DEFAULT_THREADS_PER_CHILD;
    limits.min_spare_threads = DEFAULT_MIN_SPARE_THREADS;
    limits.max_spare_threads = DEFAULT_MAX_SPARE_THREADS;
    limits.max_workers = DEFAULT_SERVER_LIMIT * DEFAULT_THREADS_PER_CHILD;
    limits.max_servers = DEFAULT_SERVER_LIMIT;
}

/* ---- What is corrected ------------------------------------------------------
 */

#define WARN(s, ...) \
    ap_log_error(APLOG_MARK, \
                 (s) ? APLOG_WARNING : APLOG_WARNING | APLOG_STARTUP, 0, s, \
                 "threaded: " __VA_ARGS__)

/* The scoreboard is made once, for as many as there could be. */
static void keep_first(const char *directive, int *limit, int *first,
                       server_rec *s)
{
    if (*first == 0) {
        *first = *limit;
    }
    else if (*limit != *first) {
        WARN(s,
             "T001: %s stays %d: %d takes effect when httpd is stopped and "
             "started",
             directive, *first, *limit);
        *limit = *first;
    }
}

void limits_check(server_rec *s)
{
    retained_t *retained = threaded.retained;
    int threads;

    keep_first("ServerLimit", &limits.server_limit, &retained->server_limit, s);
    keep_first("ThreadLimit", &limits.thread_limit, &retained->thread_limit, s);
    if (limits.threads_per_child > limits.thread_limit) {
        WARN(s,
             "T002: ThreadsPerChild %d is more than ThreadLimit allows, "
             "decreased to %d",
             limits.threads_per_child, limits.thread_limit);
        limits.threads_per_child = limits.thread_limit;
    }
    threads = limits.threads_per_child;
    if (limits.max_workers < threads) {
        WARN(s,
             "T003: MaxRequestWorkers %d is less than one child has threads, "
             "increased to %d",
             limits.max_workers, threads);
        limits.max_workers = threads;
    }
    if (limits.max_workers % threads != 0) {
        WARN(s,
             "T004: MaxRequestWorkers %d is no multiple of ThreadsPerChild "
             "%d, decreased to %d",
             limits.max_workers, threads,
             limits.max_workers - limits.max_workers % threads);
        limits.max_workers -= limits.max_workers % threads;
    }
    if (limits.max_workers / threads > limits.server_limit) {
        WARN(s,
             "T005: MaxRequestWorkers %d takes %d children, more than "
             "ServerLimit allows, decreased to %d",
             limits.max_workers, limits.max_workers / threads,
             limits.server_limit * threads);
        limits.max_workers = limits.server_limit * threads;
    }
    limits.max_servers = limits.max_workers / threads;
    if (limits.start_servers > limits.max_servers) {
        WARN(s,
             "T006: StartServers %d is more than MaxRequestWorkers allows, "
             "decreased to %d",
             limits.start_servers, limits.max_servers);
        limits.start_servers = limits.max_servers;
    }
}

static int at_least(int number, int least)
{
    return number < least ? least : number;
}

/* One idle thread more than the last bucket needs means that all others have
 * a child; one child more than that may come before one is ended.
 */
void limits_fit_buckets(int count)
{
    int threads = limits.threads_per_child;

    limits.max_servers = at_least(limits.max_servers, count);
    limits.start_servers = at_least(limits.start_servers, count);
    limits.min_spare_threads = at_least(limits.min_spare_threads,
                                        threads * (count - 1) + count);
    limits.max_spare_threads = at_least(limits.max_spare_threads,
                                        limits.min_spare_threads
                                            + (threads + 1) * count);
}

/* ---- Directives ------------------------------------------------------------
 */

typedef struct {
    int *number;
    int most;
} range_t;

static const range_t start_servers = { &limits.start_servers, MOST_SERVERS };
static const range_t server_limit = { &limits.server_limit, MOST_SERVERS };
static const range_t thread_limit = { &limits.thread_limit, MOST_THREADS };
static const range_t threads_per_child = { &limits.threads_per_child,
                                           MOST_THREADS };
static const range_t min_spare = { &limits.min_spare_threads, MOST_WORKERS };
static const range_t max_spare = { &limits.max_spare_threads, MOST_WORKERS };
static const range_t max_workers = { &limits.max_workers, MOST_WORKERS };

static const char *set_number(cmd_parms *cmd, void *dummy, const char *arg)
{
    const char *error = ap_check_cmd_context(cmd, GLOBAL_ONLY);
    const range_t *range = cmd->info;
    apr_int64_t value;
    char *end;

    if (error) {
        return error;
    }
    errno = 0;
    value = apr_strtoi64(arg, &end, 10);
    if (!apr_isdigit(*arg) || *end || errno || value < 1
        || value > range->most) {
        return apr_psprintf(cmd->pool,
                            "%s: '%s' is out of range; legal are 1 "
                            "to %d",
                            cmd->cmd->name, arg, range->most);
    }
    *range->number = (int)value;
    return NULL;
}

#define NUMBER(name, range, help) \
    AP_INIT_TAKE1(name, set_number, (void *)&(range), RSRC_CONF, help)

const command_rec threaded_directives[] = {
    LISTEN_COMMANDS,
    NUMBER("StartServers", start_servers,
           "how many child processes there are at the start (default 3)"),
    NUMBER("MinSpareThreads", min_spare,
           "children are started while fewer threads are idle (default 75)"),
    NUMBER("MaxSpareThreads", max_spare,
           "children are ended while more threads are idle (default 250)"),
    NUMBER("MaxRequestWorkers", max_workers,
           "how many connections are served at a time (default 400)"),
    NUMBER("MaxClients", max_workers, "the old name of MaxRequestWorkers"),
    NUMBER("ThreadsPerChild", threads_per_child,
           "how many threads a child has (default 25)"),
    NUMBER("ServerLimit", server_limit,
           "how many children there can ever be (default 16)"),
    NUMBER("ThreadLimit", thread_limit,
           "how large ThreadsPerChild can ever be (default 64)"),
    AP_GRACEFUL_SHUTDOWN_TIMEOUT_COMMAND,
    { NULL }
};
