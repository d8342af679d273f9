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
 * @file sigdefer/engine.h
 * @brief What a process that hosts the engine calls: mod_sigdefer.c in a
 *        child, the C tests in a plain program.  libc and POSIX only.
 *
 * The public calls are in mod_sigdefer.h; they work, as sigaction() does,
 * before sigdefer_install() and after sigdefer_uninstall(), too.
 */

#ifndef SIGDEFER_ENGINE_H
#define SIGDEFER_ENGINE_H

#include "mod_sigdefer.h"

/**
 * What runs at each connection or request stands together in the object: what
 * it costs is less its instructions than the pages that they are on, which a
 * child that has been away finds in no cache and in no TLB.
 */
#define SIGDEFER_HOT __attribute__((hot))

/** One signal per bit: signal n is bit n - 1.  No signal is above 64. */
typedef uint64_t sigdefer_set_t;

#define SIGDEFER_BIT(signo) ((sigdefer_set_t)1 << ((signo)-1))

/**
 * The signals that are managed by default.
 * @return ALRM HUP INT QUIT TERM USR1 USR2 PROF
 */
sigdefer_set_t sigdefer_default_set(void);

/**
 * Whether a signal can be deferred at all: it can be caught, and it is not
 * synchronous and not ABRT.
 * @return 1 or 0
 */
int sigdefer_can_defer(int signo);

/**
 * Start deferring in this process.  The actions found are kept as the
 * registered ones; ignored signals stay ignored.  All signals are blocked in
 * the calling thread meanwhile.
 * @param set the signals to manage, besides those that were registered with
 *        sigdefer_sigaction() already
 * @return 0; EALREADY; EINVAL: a signal in set cannot be deferred; ENOMEM
 *
 * Not MT-safe, not AS-safe.  A forked child goes on with an empty queue.
 */
int sigdefer_install(sigdefer_set_t set);

/**
 * Stop deferring: the registered actions are given back to the kernel, where
 * ours still stand.  A handler of ours that a foreign one calls afterwards
 * only calls on.  The code must stay mapped.
 *
 * Not MT-safe, not AS-safe.
 */
void sigdefer_uninstall(void);

/**
 * Told of a foreign handler that was found in place of ours and adopted.
 * @param signo the signal
 * @param found the action found
 */
typedef void sigdefer_adopted_fn(int signo, const struct sigaction *found);

/**
 * Look whether somebody went behind our back: adopt his action as the
 * registered one and put ours in front again.  Also hands on what threads
 * that ended inside a section left queued.
 * @param set the signals to look at; one system call each
 * @param adopted called at the first adoption of each signal, or NULL
 *
 * MT-safe, fork-safe, not AS-safe.
 */
void sigdefer_check(sigdefer_set_t set, sigdefer_adopted_fn *adopted);

/**
 * The signals that are managed now.
 */
sigdefer_set_t sigdefer_managed(void);

/**
 * Sees a signal before its registered action, inside and outside of sections.
 * Called in the handler: only what is AS-safe.
 * @return 1: the signal has been dealt with, go no further; 0: go on
 */
typedef int sigdefer_guard_fn(int signo);

/**
 * Put a guard in front of signals: it is called at once, wherever the signal
 * arrives, and whoever stands in front of or behind us.
 * @param set the guarded signals; they must be managed
 * @param guard the guard, or NULL to take it away
 * @param flags SA_RESTART: system calls that they interrupt are restarted,
 *        even if the registered action has not asked for it; or 0
 *
 * Not MT-safe, not AS-safe.
 */
void sigdefer_guard(sigdefer_set_t set, sigdefer_guard_fn *guard, int flags);

/**
 * What is registered for a signal, whatever the kernel has.
 * @return NULL if it is not managed
 *
 * MT-safe, AS-safe.
 */
const struct sigaction *sigdefer_registered(int signo);

/**
 * Call the handler that is registered for a signal, if there is one: for a
 * host whose guard deals with the signal, once it may run.
 *
 * Not MT-safe, not AS-safe.
 */
void sigdefer_call_registered(int signo);

/**
 * Close the sections that the calling thread has left open, and handle what
 * was queued; for the end of a request.
 * @param unpaired leaves without an enter in this process, of any thread, that
 *        no call has told of yet
 * @return the depth found
 *
 * MT-safe, fork-safe.
 */
int sigdefer_close_sections(unsigned *unpaired);

/**
 * Where a thread's section words are, from its thread pointer; the same in
 * all threads.
 */
ptrdiff_t sigdefer_section_offset(void);

/** SigDeferReapChildren. */
typedef enum {
    SIGDEFER_REAP_OFF = 0,
    SIGDEFER_REAP_SIGNAL, /* at once, in a SIGCHLD handler */
    SIGDEFER_REAP_IDLE    /* when sigdefer_reap() is called */
} sigdefer_reap_e;

/**
 * Install the SIGCHLD handler of SIGDEFER_REAP_SIGNAL; the handler that was
 * there is called after it.  The signal is unblocked in the calling thread.
 * @return 0, or what sigdefer_sigaction() returns
 *
 * Not MT-safe.
 */
int sigdefer_reap_on_signal(void);

/**
 * Reap all children of the process that have ended.  errno is kept.
 * @return how many
 *
 * MT-safe, AS-safe, fork-safe.
 */
int sigdefer_reap(void);

#endif /* SIGDEFER_ENGINE_H */
