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
 * What the kernel calls for a signal: a handler, SIG_DFL or SIG_IGN; NULL is
 * SIG_DFL, and also no such signal.  One system call, cheaper than
 * sigaction().
 */
typedef void os_handler_fn(int signo, siginfo_t *info, void *context);

os_handler_fn *os_handler_of(int signo);

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
 * Change the calling thread's mask, as pthread_sigmask() does, but the marks
 * below with it.
 * @return the mask before
 */
sigdefer_set_t os_change_mask(int how, sigdefer_set_t set);

/**
 * What the kernel keeps for the calling thread.
 */
sigdefer_set_t os_pending(void);

/**
 * Marks are signals that no program blocks; in the mask of a handler they say
 * who calls.  They go with the mask: a siglongjmp() leaves none behind.
 *
 * OS_MARK_KERNEL is in the mask with which the kernel calls us, and is taken
 * out before we call anybody.  OS_MARK_ADOPTED is there while a foreign
 * handler runs that we have adopted.
 */
#define OS_MARK_KERNEL 1
#define OS_MARK_ADOPTED 2

/**
 * Put the mark into the mask of an action for the kernel.
 */
void os_mark_kernel(sigset_t *mask);

/**
 * The marks in the calling thread's mask; OS_MARK_KERNEL is taken out.
 */
int os_marks_take(void);

/**
 * Put OS_MARK_ADOPTED into the calling thread's mask, or take it out.
 */
void os_mark_adopted(int on);

/**
 * Whether a pointer that a handler was given can be read: a handler of the
 * plain kind that calls on hands us what happens to be in the registers.
 * @param frame the address of a local variable of the handler
 */
int os_in_signal_frame(const void *frame, const void *pointer);

#endif /* SIGDEFER_OS_H */
