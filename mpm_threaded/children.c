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

/* Children, as the parent has them: how many there are to be, and which slots
 * of the scoreboard they take.
 *
 * A slot whose child is on its way out may be taken over: the new child starts
 * threads as the old one's end.  The old one is then an "extra process" of
 * httpd's, so that it is not forgotten.
 *
 * A child that has been told to go in a hard restart keeps its deadline itself.
 * Those of older generations have been told to go when there was none; it is
 * kept for them here, by TERM, which means now to a child that is to go.
 */

#include <signal.h>
#include <unistd.h>

#include "httpd.h"
#include "http_log.h"
#include "http_main.h"

#include "hold/hold.h"
#include "mpm_threaded/threaded.h"

APLOG_USE_MODULE(mpm_threaded);

#define FORK_AGAIN_MS 10000 /* after fork() has failed */
#define BUSY_RATE 8         /* children a cycle that are worth a line */

/* From the deadline to KILL. */
#define KILL_MS 4000

/* Kept from one generation to the next, in the memory of the process. */
typedef struct child_t child_t;

struct child_t {
    child_t *next;
    pid_t pid;
    apr_uint64_t deadline; /* ms of hold_clock(); 0: none */
    int is_told;           /* TERM has been sent */
};

/* One bucket, as the scoreboard has it. */
typedef struct {
    int idle;     /* threads */
    int active;   /* threads, idle or not */
    int children; /* that are not on their way out */
    int wanted;   /* the most free slots that are looked for */
    int free_count;
    int free[MOST_SPAWNED]; /* slots, those without any thread first */
    int partly_count;
    int partly[MOST_SPAWNED];
} census_t;

static int is_healthy;          /* a child has come up with all its threads */
static apr_uint64_t fork_again; /* ms of hold_clock(): not before */

static process_score *score_of(int slot)
{
    return ap_get_scoreboard_process(slot);
}

/* ---- All that there are --------------------------------------------------- */

static void add_child(pid_t pid)
{
    retained_t *retained = threaded.retained;
    child_t *child = retained->unused;

    if (child) {
        retained->unused = child->next;
    }
    else {
        child = apr_palloc(ap_pglobal, sizeof(*child));
    }
    memset(child, 0, sizeof(*child));
    child->pid = pid;
    child->next = retained->children;
    retained->children = child;
}

static void remove_child(pid_t pid)
{
    retained_t *retained = threaded.retained;
    child_t **link = &retained->children;

    while (*link && (*link)->pid != pid) {
        link = &(*link)->next;
    }
    if (*link) {
        child_t *child = *link;

        *link = child->next;
        child->next = retained->unused;
        retained->unused = child;
    }
}

int children_left(void)
{
    return threaded.retained->children != NULL;
}

void children_set_deadline(apr_uint64_t deadline)
{
    child_t *child;

    for (child = threaded.retained->children; child; child = child->next) {
        if (child->deadline == 0) {
            child->deadline = deadline;
        }
    }
}

void children_keep_deadlines(void)
{
    apr_uint64_t now = hold_clock();
    child_t *child;

    for (child = threaded.retained->children; child; child = child->next) {
        if (child->deadline == 0 || now < child->deadline) {
            continue;
        }
        if (now >= child->deadline + KILL_MS) {
            ap_log_error(APLOG_MARK, APLOG_ERR, 0, ap_server_conf,
                         "threaded: T036: child %" APR_PID_T_FMT
                         " did not end at its deadline and is killed",
                         child->pid);
            kill(child->pid, SIGKILL);
        }
        else if (!child->is_told) {
            child->is_told = 1;
            kill(child->pid, SIGTERM);
        }
    }
}

/* ---- Begin and end of one ------------------------------------------------- */

static void note_started(int slot, pid_t pid)
{
    ap_generation_t generation = threaded.retained->mpm->my_generation;
    process_score *score = score_of(slot);

    score->pid = pid;
    score->generation = generation;
    score->quiescing = 0;
    add_child(pid);
    ap_run_child_status(ap_server_conf, pid, generation, slot,
                        MPM_CHILD_STARTED);
}

void children_ended(int slot, pid_t pid, ap_generation_t generation)
{
    if (slot >= 0) {
        pid = score_of(slot)->pid;
        generation = score_of(slot)->generation;
    }
    remove_child(pid);
    ap_run_child_status(ap_server_conf, pid, generation, slot,
                        MPM_CHILD_EXITED);
    if (slot >= 0) {
        score_of(slot)->pid = 0;
    }
}

static void note_lost_slot(int slot, const process_score *score)
{
    ap_log_error(APLOG_MARK, APLOG_DEBUG, 0, ap_server_conf,
                 "threaded: T030: child %" APR_PID_T_FMT
                 " is on its way out, its slot is taken over",
                 score->pid);
    ap_run_child_status(ap_server_conf, score->pid, score->generation, slot,
                        MPM_CHILD_LOST_SLOT);
    ap_register_extra_mpm_process(score->pid, score->generation);
}

int children_make(int slot)
{
    bucket_t *bucket = &threaded.buckets[slot % threaded.bucket_count];
    /* before the new child writes its generation there */
    process_score last = *score_of(slot);
    pid_t parent = getpid();
    pid_t pid;

    if (threaded.retained->used_slots <= slot) {
        threaded.retained->used_slots = slot + 1;
    }
    if (threaded.is_one_process) {
        note_started(slot, getpid());
        child_run(slot, bucket, getppid());
    }
    if (hold_clock() < fork_again) {
        return 0;
    }
    pid = fork();
    if (pid == -1) {
        ap_log_error(APLOG_MARK, APLOG_ERR, errno, ap_server_conf,
                     "threaded: T031: fork: no further child for %d s",
                     FORK_AGAIN_MS / 1000);
        fork_again = hold_clock() + FORK_AGAIN_MS;
        return 0;
    }
    if (pid == 0) {
        child_run(slot, bucket, parent);
    }
    if (last.pid != 0) {
        note_lost_slot(slot, &last);
    }
    note_started(slot, pid);
    return 1;
}

static int threads_gone(int slot)
{
    int gone = 0;
    int i;

    for (i = 0; i < limits.threads_per_child; i++) {
        int status = ap_get_scoreboard_worker_from_indexes(slot, i)->status;

        gone += status == SERVER_DEAD || status == SERVER_GRACEFUL;
    }
    return gone;
}

static int is_free(int slot)
{
    return score_of(slot)->pid == 0;
}

static int is_becoming_free(int slot)
{
    return score_of(slot)->quiescing && threads_gone(slot) > 0;
}

int children_start(int count)
{
    int (*const takes[])(int) = { is_free, is_becoming_free };
    size_t i;
    int slot;

    for (i = 0; i < sizeof(takes) / sizeof(takes[0]); i++) {
        for (slot = 0; count > 0 && slot < limits.max_servers; slot++) {
            if (takes[i](slot) && children_make(slot)) {
                count--;
            }
        }
    }
    return count;
}

/* ---- As many as are needed ------------------------------------------------ */

/* A thread that starts counts as idle: more children would only slow it down.
 */
static void look_at_slot(census_t *census, int slot)
{
    const process_score *process = score_of(slot);
    int is_new = !process->quiescing
                 && process->generation
                        == threaded.retained->mpm->my_generation;
    int gone = threads_gone(slot);
    int active = 0;
    int i;

    for (i = 0; process->pid != 0 && i < limits.threads_per_child; i++) {
        int status = ap_get_scoreboard_worker_from_indexes(slot, i)->status;

        active += status >= SERVER_READY && status < SERVER_GRACEFUL;
        census->idle += is_new && status <= SERVER_READY
                        && status != SERVER_DEAD;
    }
    census->active += active;
    census->children += process->pid != 0 && !process->quiescing;
    if (active == limits.threads_per_child) {
        is_healthy = 1;
    }
    if (process->pid != 0 && !process->quiescing) {
        return;
    }
    if (gone == limits.threads_per_child) {
        if (census->free_count < census->wanted) {
            census->free[census->free_count++] = slot;
        }
    }
    else if (gone > 0 && census->partly_count < census->wanted) {
        census->partly[census->partly_count++] = slot;
    }
}

static void count_bucket(census_t *census, int bucket)
{
    int most = MOST_SPAWNED / threaded.bucket_count;
    int used = threaded.retained->used_slots;
    int slot;
    int i;

    memset(census, 0, sizeof(*census));
    census->wanted = threaded.retained->spawn_rates[bucket];
    if (census->wanted > most) {
        census->wanted = most;
    }
    for (slot = bucket; slot < limits.max_servers;
         slot += threaded.bucket_count) {
        if (slot >= used && census->free_count == census->wanted) {
            break; /* nobody is there */
        }
        look_at_slot(census, slot);
    }
    for (i = 0; i < census->partly_count && census->free_count < census->wanted;
         i++) {
        census->free[census->free_count++] = census->partly[i];
    }
}

/* Once each, until it is stopped. */
static void tell_of_limit(const census_t *census)
{
    retained_t *retained = threaded.retained;
    int *told = census->idle == 0 ? &retained->told_of_limit
                                  : &retained->told_of_near_limit;

    if (census->active < limits.max_workers / threaded.bucket_count) {
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, ap_server_conf,
                     "threaded: T032: scoreboard is full, not at "
                     "MaxRequestWorkers");
    }
    else if (!*told) {
        *told = 1;
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, ap_server_conf,
                     "threaded: T033: server %s MaxRequestWorkers setting, "
                     "consider raising it",
                     census->idle == 0 ? "reached"
                                       : "is within MinSpareThreads of");
    }
}

static void start_more(const census_t *census, int bucket)
{
    int *rate = &threaded.retained->spawn_rates[bucket];
    int i;

    if (census->free_count == 0) {
        tell_of_limit(census);
        *rate = 1;
        return;
    }
    if (*rate >= BUSY_RATE) {
        ap_log_error(APLOG_MARK, APLOG_INFO, 0, ap_server_conf,
                     "threaded: T034: server seems busy: %d children are "
                     "started, there are %d, with %d idle threads",
                     census->free_count, census->children, census->idle);
    }
    for (i = 0; i < census->free_count; i++) {
        children_make(census->free[i]);
    }
    if (threaded.retained->calm_cycles > 0) {
        threaded.retained->calm_cycles--;
    }
    else if (*rate < MOST_SPAWNED / threaded.bucket_count) {
        *rate *= 2;
    }
}

static void maintain_bucket(int bucket)
{
    int count = threaded.bucket_count;
    census_t census;

    count_bucket(&census, bucket);
    if (census.idle < limits.min_spare_threads / count) {
        start_more(&census, bucket);
        return;
    }
    threaded.retained->spawn_rates[bucket] = 1;
    if (census.idle > limits.max_spare_threads / count) {
        ap_mpm_podx_signal(threaded.buckets[bucket].pod, AP_MPM_PODX_GRACEFUL);
    }
}

static void fit_used_slots(void)
{
    int *used = &threaded.retained->used_slots;

    while (*used > 0 && score_of(*used - 1)->pid == 0) {
        --*used;
    }
}

void children_maintain(void)
{
    int i;

    fit_used_slots();
    for (i = 0; i < threaded.bucket_count; i++) {
        maintain_bucket(i);
    }
}

int children_are_hopeless(void)
{
    if (!threaded.retained->is_sick) {
        return 0;
    }
    if (is_healthy) {
        threaded.retained->is_sick = 0; /* it may pass */
        return 0;
    }
    ap_log_error(APLOG_MARK, APLOG_ALERT, 0, ap_server_conf,
                 "threaded: T035: no child has come up, for want of resources "
                 "or another reason that it has logged: httpd gives up");
    return 1;
}
