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
 * @file sigdefer/os.h
 * @brief What the engine asks of the system beyond POSIX.  Linux has it all;
 *        os.c says what is lost elsewhere.  Everything here is AS-safe.
 */

#ifndef SIGDEFER_OS_H
#define SIGDEFER_OS_H

#include <sys/types.h>

#include "engine.h"

/**
 * The calling thread's id, and whether a thread of this process has an id.
 */
pid_t os_thread_id(void);
int os_thread_lives(pid_t thread_id);

/**
 * Between the signal sets of libc and ours, of which the kernel knows no
 * more than 64 signals.
 */
sigdefer_set_t os_set_of(const sigset_t *signals);
void os_set_add(sigset_t *signals, sigdefer_set_t set);
void os_set_remove(sigset_t *signals, sigdefer_set_t set);

/**
 * Give a signal back to the kernel with the siginfo that it came with: to the
 * calling thread, or to the process.
 * @return 0 or errno; EAGAIN: RLIMIT_SIGPENDING
 */
int os_resend_to_thread(const siginfo_t *info);
int os_resend_to_process(const siginfo_t *info);

/**
 * Whether a siginfo can be that of a pthread_kill() by this process.
 */
int os_is_from_here(const siginfo_t *info);

/**
 * The entry mark is a signal that no program blocks.  It is in the mask with
 * which the kernel calls us, and is taken out before we call anybody: where
 * it is missing, we have been called by another handler.
 */
void os_mark_add(sigset_t *mask);

/**
 * Take the mark out of the calling thread's mask.
 * @return 1: it was there; 0: it was not
 */
int os_mark_take(void);

/**
 * Whether a pointer that a handler was given can be read: a handler of the
 * plain kind that calls on hands us what happens to be in the registers.
 * @param frame the address of a local variable of the handler
 */
int os_in_signal_frame(const void *frame, const void *pointer);

#endif /* SIGDEFER_OS_H */
