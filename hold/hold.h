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
 * @brief The hold: a child that serves finishes first and leaves by ordinary
 *        code, whatever signal asks it to go.
 *
 * child.c  What a child does about a terminating signal.
 * board.c  What it leaves behind for the parent to log.
 */

#ifndef SIGDEFER_HOLD_H
#define SIGDEFER_HOLD_H

#include "httpd.h"
#include "http_config.h"
#include "scoreboard.h"

/* ---- The child --------------------------------------------------------- */

/**
 * Start holding in this child; sigdefer_install() has run.
 * @param pchild the child's pool
 * @param seconds from the first terminating signal to the deadline
 * @return APR_SUCCESS, or the status of the timer that could not be made; the
 *         child then ends as on a stock httpd
 *
 * Call from: child_init of a prefork child.
 */
apr_status_t hold_child_init(apr_pool_t *pchild, int seconds);

/**
 * A connection has been accepted; it has ended when its pool is cleared.
 * @param p the connection's pool
 * @param csd its socket
 * @param slot the child's place in the scoreboard
 *
 * Call from: create_connection, before anything else can fail.
 */
void hold_connection(apr_pool_t *p, apr_socket_t *csd, int slot);

/**
 * A request has been read, or has ended (NULL): what the log names if the
 * deadline cuts it.
 */
void hold_request(const request_rec *r);

/**
 * Close quickly if the child has been asked to go.
 *
 * Call from: pre_close_connection.
 */
void hold_before_close(conn_rec *c);

/* ---- The board --------------------------------------------------------- */

/** Why a child was at its deadline; one a slot, in shared memory. */
typedef struct {
    volatile pid_t pid;        /* set last by the child, cleared by the parent
                                * when it has logged; 0: nothing to tell */
    int hold_seconds;
    int age_seconds;           /* of the request */
    int depth;                 /* not 0: inside a critical section, goes on */
    char method[16];           /* empty: no request had been read */
    char path[256];
} hold_notice_t;

/**
 * Make the board, or find the one that the first generation made.
 * @param s the main server
 * @return APR_SUCCESS or the status of apr_shm_create(); without a board
 *         nothing is logged at a deadline
 *
 * Call from: post_config.
 */
apr_status_t hold_board_create(server_rec *s);

/**
 * The child's own notice.  AS-safe.
 * @return NULL if there is no board or no such slot
 */
hold_notice_t *hold_board_notice(int slot);

/**
 * Log what a child has left on the board.
 * @param slot one slot, or -1 for all
 *
 * Call from: child_status and monitor, in the parent.
 */
void hold_board_report(server_rec *s, int slot);

#endif /* SIGDEFER_HOLD_H */
