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
 * @file hold/hold.h
 * @brief The hold: nothing that is being served is cut by a restart or stop.
 *
 * clock.c      The time that all deadlines are in.
 * board.c      What parent and children tell each other in shared memory.
 * parent.c     When children go: restarts and stops are carried out gracefully,
 *              with a deadline, and no busy child gets a signal before it.
 * listeners.c  The listening sockets, as the parent has them.
 * child.c      Where a child can go: after what it serves, by ordinary code.
 * threaded.c   What is bound of worker and event, for their children.
 * cgid.c       mod_cgid's daemon is there for the children that use it.
 */

#ifndef SIGDEFER_HOLD_H
#define SIGDEFER_HOLD_H

#include <stdatomic.h>
#include <time.h>

#include "httpd.h"
#include "http_config.h"
#include "scoreboard.h"

/* ---- The clock --------------------------------------------------------- */

/** Milliseconds, CLOCK_MONOTONIC.  AS-safe. */
uint64_t hold_clock(void);

/* ---- The board --------------------------------------------------------- */

/** What a child is doing, as it says. */
typedef enum {
    HOLD_WAITING = 0, /* for a connection: may be woken */
    HOLD_IDLE,        /* for the next request of a connection */
    HOLD_SERVING      /* leave it alone */
} hold_state_e;

/** How many requests that are cut at the deadline are named in the log. */
#define HOLD_NAMED 4

typedef struct {
    int age_seconds;
    char method[16];
    char path[240];
} hold_request_t;

/**
 * One child.  Claimed by the child, freed by the parent when it has gone: a
 * slot of the scoreboard may be taken over while the old child still serves.
 *
 * state and asked are each written before the other is read, on both sides,
 * so that either the child sees that it is asked, or the parent sees that it
 * waits.
 */
typedef struct {
    _Atomic pid_t pid;         /* 0: free */
    atomic_int state;          /* by the child: a hold_state_e */
    atomic_int asked;          /* by the parent: the child is to go; the signal
                                * that it would have got */
    _Atomic uint64_t deadline; /* by the parent: ms of hold_clock(); 0: none */
    atomic_int killed;         /* by the parent: it did not go */
    _Atomic uint64_t held;     /* ms of hold_clock(): it was to go and served;
                                * by the child or the parent, the first */

    /* by the child at its deadline, noticed last; by the parent 0 again */
    atomic_int noticed;
    int depth; /* not 0: in a critical section, goes on */
    int cut;   /* requests that are cut */
    hold_request_t requests[HOLD_NAMED];
} hold_entry_t;

/** Of all children that have gone. */
typedef struct {
    _Atomic uint64_t held; /* served when they were to go */
    _Atomic uint64_t total_ms;
    _Atomic uint64_t longest_ms;
    _Atomic uint64_t cut;    /* requests, at the deadline */
    _Atomic uint64_t killed; /* did not end at the deadline */
} hold_counts_t;

/**
 * Make the board, or find the one that the first generation made.
 * @param s the main server
 * @return APR_SUCCESS or the status of apr_shm_create()
 *
 * Call from: post_config.
 */
apr_status_t hold_board_create(server_rec *s);

/** Claim an entry for this child; NULL if there is none. */
hold_entry_t *hold_board_claim(void);

/** The entry of a child, by its process id; NULL if it has none.  AS-safe. */
hold_entry_t *hold_board_find(pid_t pid);

/** All entries, for loops: the first, and how many.  AS-safe. */
hold_entry_t *hold_board_entries(int *count);

/** What the parent has counted; NULL if there is no board. */
const hold_counts_t *hold_board_counts(void);

/** A child that serves is to go; only the first time counts.  AS-safe. */
void hold_board_held(hold_entry_t *entry);

/** Log what children have left on the board; in the parent. */
void hold_board_report(server_rec *s, int hold_seconds);

/** The child has gone; logged if it had to be killed. */
void hold_board_free(server_rec *s, pid_t pid);

/**
 * Set a timer of CLOCK_MONOTONIC.  AS-safe.
 * @param first_ms milliseconds until it first fires; 0: it is stopped
 * @param interval_ms between then and each time after; 0: once
 */
void hold_set_timer(timer_t timer, uint64_t first_ms, uint64_t interval_ms);

/* ---- The parent -------------------------------------------------------- */

/**
 * Bind what the parent's half needs.  What cannot be bound is logged, with
 * what that leaves open.
 *
 * Call from: post_config of the pass that is going to run.
 */
void hold_parent_init(apr_pool_t *pconf, server_rec *s, int seconds);

/** Whose children these are; 0: hold_parent_init() has not run. */
pid_t hold_parent_pid(void);

/**
 * Try whether the parent's half can be bound here.
 * @return NULL: it can; else why not, for people
 *
 * Call from: test_config.
 */
const char *hold_parent_unbound(void);

/* ---- Programs that requests have started -------------------------------- */

/** TERM to those of this child that are in its process group.  AS-safe. */
void hold_end_programs(void);

/* ---- The listening sockets --------------------------------------------- */

/**
 * Find those of this pass.
 *
 * Call from: post_config of the pass that is going to run.
 */
void hold_listeners_find(void);

/**
 * Keep them while the configuration is read again.
 *
 * Call from: a cleanup of pconf.
 */
void hold_listeners_keep(void);

/**
 * Have httpd take over those of the last pass, where it would make new ones at
 * the same address; nothing if none have been kept.
 *
 * Call from: open_logs, before the MPM.
 */
void hold_listeners_offer(apr_pool_t *pconf);

/**
 * Those that have not been taken over are shut down, so that nobody connects to
 * them any more.
 *
 * Call from: open_logs, after the MPM.
 */
void hold_listeners_settle(void);

/** Whether nothing waits to be accepted.  AS-safe. */
int hold_listeners_are_idle(void);

/**
 * Let nobody new in: what waits to be accepted stays, and what would open a
 * connection is dropped, to be tried again by its sender.  And let them in
 * again.  AS-safe.
 */
void hold_listeners_shut(void);
void hold_listeners_open(void);

/* ---- The child --------------------------------------------------------- */

/**
 * Start holding in this child; sigdefer_install() has run.
 * @param pchild the child's pool
 * @param seconds from the first terminating signal to the deadline
 * @return APR_SUCCESS, or the status of the timer that could not be made; the
 *         child then ends as on a stock httpd
 *
 * Call from: child_init.
 */
apr_status_t hold_child_init(apr_pool_t *pchild, int seconds);

/**
 * A connection has been accepted, or has ended.
 * @param csd its socket
 *
 * Call from: create_connection, before anything else can fail, in the thread
 * that is going to serve; a cleanup of its pool, if hold_has_loop().
 */
void hold_connection(apr_socket_t *csd);
void hold_connection_ended(void);

/**
 * Whether the child serves one connection at a time, in a loop that is to be
 * ended; else the MPM tells its threads.
 */
int hold_has_loop(void);

/**
 * A request has been read, or is about to lose its memory.
 *
 * Call from: post_read_request; a cleanup of its pool.
 */
void hold_request_begins(request_rec *r);
void hold_request_ended(request_rec *r);

/**
 * Whether the response that is being made is to be the last one of its
 * connection.
 */
int hold_is_last_response(void);

/* ---- worker and event -------------------------------------------------- */

/**
 * Bind what the children of worker and event need, if one of them is the MPM.
 * What cannot be bound is logged, with what that leaves open.
 *
 * Call from: post_config.
 */
void hold_threaded_init(server_rec *s);

/** TERM has reached this child.  AS-safe. */
void hold_threaded_termed(void);

/**
 * A connection is counted by the MPM, if it is one that has been accepted: not
 * only clients have connections.
 *
 * Call from: pre_connection, first of all.
 */
void hold_threaded_begun(const conn_rec *c);

/* ---- mod_cgid ---------------------------------------------------------- */

/**
 * Bind what mod_cgid's daemon needs, if mod_cgid is loaded.
 * @param seconds that children wait for a daemon to come
 * @return APR_SUCCESS, or what bind_import() returns
 *
 * Call from: post_config, before mod_cgid's.
 */
apr_status_t hold_cgid_init(apr_pool_t *pconf, int seconds);

#endif /* SIGDEFER_HOLD_H */
