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

/**
 * @file mpm_threaded/threaded.h
 * @brief The MPM "threaded": the thread that accepts a connection serves it.
 *
 * threaded.c   The module's record, its hooks and what it answers.
 * limits.c     How many processes and threads there may be: directives.
 * parent.c     The parent: start, restart, stop.
 * children.c   Children, as the parent has them.
 * child.c      A child's main thread: when the child goes.
 * workers.c    A child's other threads: who accepts, and who sleeps.
 *
 * The parent talks to its children through one pipe for each bucket of
 * listeners, from which each child takes one byte.  It sends no signal before
 * their deadline.
 */

#ifndef MPM_THREADED_H
#define MPM_THREADED_H

#include "httpd.h"
#include "http_config.h"
#include "ap_listen.h"
#include "ap_mpm.h"
#include "mpm_common.h"
#include "scoreboard.h"
#include "unixd.h"

#include "mpm/offer.h"

/* Children that are started at a time, at most. */
#define MOST_SPAWNED 32

/* ---- What all of it knows ----------------------------------------------- */

/** Listeners of their own, a pipe and a lock: for a share of the children. */
typedef struct {
    ap_listen_rec *listeners;
    ap_pod_t *pod;           /* NULL with -X */
    apr_proc_mutex_t *mutex; /* NULL: there is one listener */
} bucket_t;

/** Outlives the module, which is unloaded at each restart. */
typedef struct {
    ap_unixd_mpm_retained_data *mpm;
    int server_limit; /* 0: not known yet; never changed */
    int thread_limit;
    int used_slots;           /* of the scoreboard, from the first on */
    int is_continued;         /* children live on into the next generation */
    struct child_t *children; /* of all generations */
    struct child_t *unused;   /* to be used again */
    int is_sick;              /* a child has met with a shortage */
    int told_of_limit;        /* MaxRequestWorkers has been reached */
    int told_of_near_limit;   /* nearly so */
    int calm_cycles;          /* to go, before more are started each time */
    int *spawn_rates;         /* by bucket: children of the next cycle */
    int spawn_rates_size;
} retained_t;

/** What is configured; set anew on each pass. */
typedef struct {
    int start_servers;
    int server_limit;
    int thread_limit;
    int threads_per_child;
    int min_spare_threads;
    int max_spare_threads;
    int max_workers;
    int max_servers; /* max_workers, in children */
} limits_t;

/** r/o after the MPM's open_logs, but for what retained leads to. */
typedef struct {
    retained_t *retained;
    apr_pool_t *pconf;
    bucket_t *buckets;
    int bucket_count;
    int is_one_process; /* -X */

    /* How an MPM locks around accept: httpd's calls, or mod_sigdefer's. */
    mpm_accept_calls_t accept;

    /* The hold: children that are to go have so long. */
    int hold_seconds;
    int is_held_by_us; /* a hard restart or stop is none; else mod_sigdefer
                        * sees to that, or has been told not to */
} threaded_t;

extern threaded_t threaded;
extern limits_t limits;

/* ---- Limits -------------------------------------------------------------- */

extern const command_rec threaded_directives[];

/** Defaults, before the configuration is read. */
void limits_reset(void);

/**
 * Correct what contradicts itself, with a warning.
 * @param s for the log; NULL: the console
 */
void limits_check(server_rec *s);

/** There is at least a child for each bucket, and room for one more. */
void limits_fit_buckets(int count);

/* ---- The parent ---------------------------------------------------------- */

/** Listeners, pipes and locks, before the logs are opened. */
int parent_open(apr_pool_t *plog, server_rec *s);

/** Run one generation: until a restart (OK) or the end (DONE). */
int parent_run(apr_pool_t *plog, server_rec *s);

/* ---- Children, as the parent has them ------------------------------------ */

/**
 * Start so many, as far as there are free slots.
 * @return how many could not be started
 */
int children_start(int count);

/**
 * Start a child in a slot of the scoreboard.
 * @return whether there is one now
 */
int children_make(int slot);

/** Compare idle threads with what is wanted, once a second. */
void children_maintain(void);

/**
 * A child has ended.
 * @param slot -1: it has none any more, and the others tell of it
 */
void children_ended(int slot, pid_t pid, ap_generation_t generation);

/** Whether there are any, of whatever generation. */
int children_left(void);

/** Those that have no deadline yet have this one, in ms of hold_clock(). */
void children_set_deadline(apr_uint64_t deadline);

/** TERM to those whose deadline has passed, and KILL later. */
void children_keep_deadlines(void);

/**
 * No child has come up healthy, and one is sick.
 * @return whether the server is to be given up
 */
int children_are_hopeless(void);

/* ---- The child ----------------------------------------------------------- */

/** What a child does from fork to exit. */
void child_run(int slot, bucket_t *bucket, pid_t parent)
    __attribute__((noreturn));

/* ---- Its workers --------------------------------------------------------- */

/** Why the workers want the child to go. */
typedef enum {
    WORKERS_STAY = 0,
    WORKERS_ARE_DONE,     /* MaxConnectionsPerChild */
    WORKERS_LACK,         /* no descriptors, no memory */
    WORKERS_CANNOT_ACCEPT /* the accept lock or the poll has failed */
} workers_wish_e;

/**
 * Get ready in a child.
 * @param slot of the scoreboard
 * @param wake_fd an eventfd: written to when the main thread has to look
 * @param tick_fd a timerfd: workers_hand_on() is to be called when it fires
 * @return APR_SUCCESS, or the status of what could not be made
 *
 * Call from: the main thread, once, after child_init.
 */
apr_status_t workers_init(int slot, const bucket_t *bucket, int wake_fd,
                          int tick_fd, apr_pool_t *pool);

/**
 * Start those whose place on the scoreboard is free.
 * @param missing how many are still not there
 * @return APR_SUCCESS, or the status of the one that could not be started
 *
 * Call from, as all that follow: the main thread.
 */
apr_status_t workers_start(apr_threadattr_t *attributes, int *missing);

/** Leadership has been vacant for long: wake a follower. */
void workers_hand_on(void);

workers_wish_e workers_wish(void);

/** Accept no more; all that are idle end. */
void workers_leave(void);

/**
 * One that waits for a connection, and idle connections: see that they end.
 * @return whether any still waits for a connection
 */
int workers_wake(void);

/** How many threads there are. */
int workers_left(void);

/**
 * Shut down the connections that are served.
 * @return how many
 */
int workers_cut(void);

/** Collect the threads; all have ended. */
void workers_join(void);

#endif /* MPM_THREADED_H */
