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
 * @file sigdefer/section.h
 * @brief What a thread knows of its signals, besides the two public words.
 */

#ifndef SIGDEFER_SECTION_H
#define SIGDEFER_SECTION_H

#include "queue.h"

/* Per thread, in initial-exec TLS, which is scarce in a module loaded late:
 * no more than what a handler must find without a call.  Written by the
 * thread and its handlers; volatile, since a handler may come at any moment.
 */
typedef struct {
    _Atomic(queue_t *) queue;        /* NULL: never hit inside a section */
    volatile sigdefer_set_t blocked; /* what a full queue made us block in
                                      * the section's context */
    volatile int ringing;            /* signal sent to ourselves, not yet
                                      * seen; 0: none */
    volatile int replaying;          /* a replay has more to do, if all
                                      * managed signals are blocked, too: a
                                      * siglongjmp() out of it leaves this
                                      * set, but not the mask */
    volatile int running;            /* frames of ours, at most: those that a
                                      * handler jumps over stay counted until
                                      * the thread says where it is */
} thread_t;

extern __thread thread_t section_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

int section_depth(void);
int section_is_pending(void);
void section_set_pending(int pending);

/**
 * Handle what is queued; outside of sections only.  In deliver.c.
 */
void section_replay(void);

/**
 * The thread that forked goes on in the child: same section, empty queue.
 */
void section_restart_in_child(void);

#endif /* SIGDEFER_SECTION_H */
