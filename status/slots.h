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
 * @file status/slots.h
 * @brief Statistics in shared memory: a slot for each child, and what is left
 *        of those that have gone.
 *
 * A slot is written by its child alone.  When the child has gone, the parent
 * adds the slot to the totals and clears it; between an odd and the next even
 * number of folds it is in both or in neither, so that who reads meanwhile
 * reads again.  Nobody ever waits for anybody.
 */

#ifndef SIGDEFER_STATUS_SLOTS_H
#define SIGDEFER_STATUS_SLOTS_H

#include "httpd.h"
#include "apr_tables.h"

#include "mpm/accept_stats.h"
#include "sigdefer/stats.h"

/* The last minutes: one sample whenever the parent looks after its children,
 * which is about every ten seconds, and no more often than this.
 */
#define STATUS_SAMPLES 60
#define STATUS_SAMPLE_SECONDS 5

/** One child, or what is left of several. */
typedef struct {
    _Atomic pid_t pid; /* 0: free */
    _Atomic int generation;
    _Atomic apr_time_t started; /* 0: about to be written */
    stats_t engine;
    accept_stats_t accept;
} status_child_t;

typedef struct {
    _Atomic apr_time_t when; /* 0: none yet */
    _Atomic uint64_t received;
    _Atomic uint64_t deferred;
} status_sample_t;

/** What was there at one moment; private memory of who has read it. */
typedef struct {
    int is_there; /* 0: no statistics, all the rest is 0 */
    apr_time_t started;
    uint64_t restarts;
    uint64_t ended; /* children that have gone */
    status_child_t total;
    apr_array_header_t *children; /* of status_child_t */
    apr_array_header_t *samples;  /* of status_sample_t, oldest first */
} status_snapshot_t;

/**
 * Make the memory, or find the one that the first generation made.
 * @param s the main server
 * @return APR_SUCCESS or the status of apr_shm_create()
 *
 * Call from: post_config of the pass that is going to run.
 */
apr_status_t status_slots_create(server_rec *s);

/**
 * Claim a slot for this child, and count there.
 *
 * Call from: child_init.
 */
void status_slots_claim(server_rec *s);

/**
 * A child has gone: its slot becomes part of the totals.
 *
 * Call from: child_status, in the parent.
 */
void status_slots_fold(pid_t pid);

/**
 * Take a sample, if it is time.
 *
 * Call from: monitor, in the parent.
 */
void status_slots_sample(void);

/**
 * Read it all.
 * @param p for what is read
 *
 * Call from: anywhere.
 */
void status_slots_read(status_snapshot_t *snapshot, apr_pool_t *p);

#endif /* SIGDEFER_STATUS_SLOTS_H */
