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
 * @file sigdefer/action.h
 * @brief Who is registered for which signal, and what the kernel has.
 *
 * For each managed signal the kernel has our handler, with the mask and flags
 * of the registered action, so that it calls us as it would have called him.
 * A registered action is never changed, only replaced by another: a handler
 * reads one pointer and needs no lock.
 */

#ifndef SIGDEFER_ACTION_H
#define SIGDEFER_ACTION_H

#include "os.h"

/**
 * Our handler, as action.c gives it to the kernel; in deliver.c.
 */
void deliver_signal(int signo, siginfo_t *info, void *context);

/**
 * Whether this process defers: installed, and not a child by vfork(), which
 * runs in our memory.
 */
int action_in_force(void);
int action_is_our_process(void);

/** Who has called our handler, and so, whose turn it is. */
typedef enum {
    ACTION_REGISTERED, /* the kernel, or somebody in front of us whom
                        * no check has found yet */
    ACTION_BEHIND,     /* the adopted handler, which has gone in front
                        * again: what stood before it */
    ACTION_CALLED      /* the adopted handler, called by us: the same,
                        * but part of its run, and no arrival */
} action_turn_e;

action_turn_e action_turn(int signo);

/**
 * The action whose turn it is, as it is registered now; NULL if there is none.
 */
const struct sigaction *action_of(int signo, action_turn_e turn);

/**
 * Whether the registered action is a foreign one that was found.
 */
int action_is_adopted(int signo);

/**
 * Whether the kernel calls us first for a signal.
 */
int action_is_in_front(int signo);

/**
 * SA_RESETHAND: the default, unless somebody has registered another since.
 */
void action_reset(int signo, const struct sigaction *action);

/**
 * Put our handler in front again after the default action has been carried
 * out and the process lives on.
 */
void action_put_in_front(int signo);

/**
 * Let a guard see the signal.
 * @return 1: dealt with
 */
int action_guard(int signo);

/**
 * Whether a registered action runs the default.
 */
static inline int action_is_default(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_DFL;
}

static inline int action_is_ignore(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_IGN;
}

#endif /* SIGDEFER_ACTION_H */
