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
 * @file mod_sigdefer.h
 * @brief Critical sections in which signals are deferred.
 *
 * A critical section is bracketed by SIGDEFER_ENTER() and SIGDEFER_LEAVE()
 * (or the inline functions of the same names).  Sections nest.  A managed
 * signal that reaches a thread inside a section is queued with a copy of its
 * siginfo; when the thread leaves its outermost section, the queued signals
 * are handled, in order of arrival, as the kernel would have handled them.
 * Outside sections nothing changes: a signal is handled at once.
 *
 *     SIGDEFER_ENTER();
 *     ... memory that a signal handler must not find half changed ...
 *     SIGDEFER_LEAVE();
 *
 * Entering is an increment, leaving a decrement and a test of a word of the
 * calling thread: no call, no system call, no locked instruction.  Take a
 * lock that others hold first, and then enter: a section is never cut short,
 * so a wait inside it delays every signal.
 *
 * A signal is deferred if it is managed and has a handler or the default
 * action.  Managed are those that SigDeferSignals names, and every signal
 * that was registered with sigdefer_sigaction() or sigdefer_signal().  An
 * ignored signal stays ignored.
 *
 * Two ways to use this header:
 *
 * Linked.  Include it and call.  The module that does so must be loaded after
 * mod_sigdefer; httpd refuses to load it where mod_sigdefer is absent.
 *
 * Soft.  Define SIGDEFER_SOFT before the inclusion, in every file that
 * includes it, and call sigdefer_attach() in the optional_fn_retrieve hook.
 * The module then also loads and runs where mod_sigdefer is absent: sections
 * count but defer nothing, sigdefer_sigaction() is sigaction(), and
 * sigdefer_state() tells.  Sections are inline here, too.
 *
 *     static void retrieve(void) { sigdefer_attach(); }
 *     ap_hook_optional_fn_retrieve(retrieve, NULL, NULL, APR_HOOK_MIDDLE);
 *
 * What "safe" means below: MT-safe, any threads may call at the same time;
 * AS-safe, a signal handler may call; fork-safe, a forked child may call
 * without exec.
 */

#ifndef MOD_SIGDEFER_H
#define MOD_SIGDEFER_H

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Grows when something is added; what is there keeps its meaning. */
#define SIGDEFER_API_VERSION 1

#define SIGDEFER_DECLARE __attribute__((visibility("default")))

/**
 * The per-thread words of the section.
 *
 * Invariants: depth counts the sections that the thread is in; it is negative
 * only inside SIGDEFER_LEAVE(), before an unpaired leave is clamped.  Only
 * the owning thread changes depth, and never from a handler, since the
 * update is load, modify, store on some machines.  Only a handler of the
 * owning thread sets pending; only the replay clears it.
 * Neither is volatile: the barriers make the compiler read them afresh, and
 * a volatile access would cost an instruction more.
 */
typedef struct {
    int depth;   /* sections entered and not yet left */
    int pending; /* bit 0: leaving has something to do; a bit,
                  * since compilers test one in memory with one
                  * instruction, and a whole word with two */
} sigdefer_section_t;

/** What a section does for the caller; see sigdefer_state(). */
typedef enum {
    SIGDEFER_ABSENT = 0, /* mod_sigdefer is not loaded */
    SIGDEFER_OFF = 1,    /* loaded, but signals are not deferred in this
                          * process: SigDefer Off, or not a child */
    SIGDEFER_ON = 2      /* signals are deferred inside sections */
} sigdefer_state_e;

/** A place to come back to by siglongjmp(); see sigdefer_mark(). */
typedef struct {
    int depth;
} sigdefer_mark_t;

/** What happened in this process since its start; see sigdefer_stats(). */
typedef struct {
    uint64_t direct;          /* signals handled at once */
    uint64_t deferred;        /* signals queued inside a section */
    uint64_t replayed;        /* queued signals that were handled */
    uint64_t merged;          /* timer ticks found queued already */
    uint64_t ignored;         /* queued, and ignored by then: dropped */
    uint64_t handed_back;     /* given back to the kernel: blocked by the
                               * program since, or their thread has ended */
    uint64_t overflows;       /* times the queue was full and the kernel
                               * kept what came */
    uint64_t lost;            /* could be neither queued nor given back */
    uint64_t unpaired_leaves; /* leaves without an enter */
    uint64_t open_sections;   /* sections left open at the end of a request
                               * and closed by mod_sigdefer */
    uint64_t adopted;         /* handlers found in place of ours */
    uint64_t reaped;          /* children reaped by SigDeferReapChildren */
    uint64_t longest_ns;      /* longest deferral, nanoseconds */
} sigdefer_stats_t;

/** The functions below as a table, for soft users; see sigdefer_attach(). */
typedef struct {
    unsigned version;         /* SIGDEFER_API_VERSION of mod_sigdefer */
    ptrdiff_t section_offset; /* of a thread's sigdefer_section_t from its
                               * thread pointer, the same in all threads */
    void (*leave_slow)(void);
    void (*restore)(sigdefer_mark_t mark);
    int (*sigaction)(int signo, const struct sigaction *act,
                     struct sigaction *oact);
    void (*(*signal)(int signo, void (*handler)(int)))(int);
    int (*pending)(sigset_t *set);
    sigdefer_state_e (*state)(void);
    void (*stats)(sigdefer_stats_t *stats);
} sigdefer_api_t;

/* The compiler keeps the accesses of a section inside it.  The machine needs
 * no fence: a handler runs on the thread that it interrupts.
 */
#define SIGDEFER_BARRIER() __asm__ __volatile__("" : : : "memory")

/* What the offset of the section words counts from. */
static inline char *sigdefer_thread_pointer(void)
{
#if defined(__x86_64__)
    char *self;

    /* the first word of the thread control block is its own address */
    __asm__("mov %%fs:0, %0" : "=r"(self));
    return self;
#else
    return (char *)__builtin_thread_pointer();
#endif
}

#ifndef SIGDEFER_SOFT

extern SIGDEFER_DECLARE __thread sigdefer_section_t sigdefer_section
    __attribute__((tls_model("initial-exec")));

#define SIGDEFER_SECTION (&sigdefer_section)

/**
 * The rest of SIGDEFER_LEAVE(): handles what is queued if the outermost
 * section has been left, clamps and counts a leave without an enter.
 * Not to be called directly.
 */
SIGDEFER_DECLARE void sigdefer_leave_slow(void);

/**
 * Register a handler for deferral, as sigaction() would register it: plain or
 * siginfo handler, mask, SA_NODEFER, SA_RESETHAND, SA_RESTART, SA_ONSTACK,
 * SIG_DFL and SIG_IGN keep their meaning, and the handler runs outside of
 * sections only.
 * (SA_NODEFER lets a handler interrupt itself, in its own sections, too: one
 * that raises its signal again and again uses up the stack, as without us.)
 *
 * The signal need not be one of SigDeferSignals; real-time signals are taken,
 * too.  Where sigdefer_state() is not SIGDEFER_ON the call is sigaction().
 * @param signo the signal
 * @param act the new action, or NULL to leave it
 * @param oact set to the action as its owner had registered it, or NULL
 * @return 0, or EINVAL: not a signal, one that cannot be caught, or a
 *         synchronous one (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS)
 *         or SIGABRT, which are never deferred; ENOMEM: no memory for a
 *         further action
 *
 * MT-safe, AS-safe, fork-safe.
 */
SIGDEFER_DECLARE int sigdefer_sigaction(int signo, const struct sigaction *act,
                                        struct sigaction *oact);

/**
 * Register a plain handler for deferral; system calls are restarted.
 * @param signo the signal
 * @param handler a handler, SIG_DFL or SIG_IGN
 * @return the handler that was registered before, or SIG_ERR with errno set
 *         to what sigdefer_sigaction() returns
 *
 * MT-safe, AS-safe, fork-safe.
 */
SIGDEFER_DECLARE void (*sigdefer_signal(int signo, void (*handler)(int)))(int);

/**
 * Go back to a mark, on the target side of a siglongjmp(): the depth is what
 * it was at the mark, and if that is 0, what was queued is handled now.
 * @param mark what sigdefer_mark() returned in this thread
 *
 * MT-safe, fork-safe; AS-safe as siglongjmp() itself is.
 */
SIGDEFER_DECLARE void sigdefer_restore(sigdefer_mark_t mark);

/**
 * The signals that wait for the calling thread to leave its section.
 * @param set filled with their numbers, or NULL
 * @return how many are queued
 *
 * MT-safe, AS-safe, fork-safe (a forked child starts with none).
 */
SIGDEFER_DECLARE int sigdefer_pending(sigset_t *set);

/**
 * What a section does for the caller.
 * @return SIGDEFER_ABSENT (soft use only), SIGDEFER_OFF or SIGDEFER_ON
 *
 * MT-safe, AS-safe, fork-safe.
 */
SIGDEFER_DECLARE sigdefer_state_e sigdefer_state(void);

/**
 * Read the counters of this process.
 * @param stats filled in; each counter is exact, but they are not read at
 *        one moment
 *
 * MT-safe, AS-safe, fork-safe (a forked child goes on counting from its
 * parent's figures).
 */
SIGDEFER_DECLARE void sigdefer_stats(sigdefer_stats_t *stats);

/**
 * A section entered and left by calls, under the names that Apache 1.3 had
 * for them, for callers that cannot use the inline forms.
 *
 * MT-safe, AS-safe if paired within the handler, fork-safe.
 */
SIGDEFER_DECLARE void ap_block_alarms(void);
SIGDEFER_DECLARE void ap_unblock_alarms(void);

#else /* SIGDEFER_SOFT */

#ifdef __cplusplus
}
#endif
#include "apr_optional.h"
#ifdef __cplusplus
extern "C" {
#endif

/** What mod_sigdefer registers with APR; sigdefer_attach() retrieves it. */
APR_DECLARE_OPTIONAL_FN(const sigdefer_api_t *, sigdefer_api, (void));

/* One of each in a module, whatever the number of files that include this. */
#define SIGDEFER_SHARED __attribute__((weak, visibility("hidden")))

SIGDEFER_SHARED __thread sigdefer_section_t sigdefer_soft_section
    __attribute__((tls_model("initial-exec")));

/* The section words in use: our own above, or those of mod_sigdefer. */
SIGDEFER_SHARED ptrdiff_t sigdefer_soft_offset;

/* NULL: mod_sigdefer is absent. */
SIGDEFER_SHARED const sigdefer_api_t *sigdefer_soft_api;

/* Runs when the module is loaded, so that a section entered before
 * sigdefer_attach() finds the module's own words.
 */
__attribute__((constructor)) static void sigdefer_soft_init(void)
{
    if (!sigdefer_soft_api) {
        sigdefer_soft_offset = (char *)&sigdefer_soft_section
                               - sigdefer_thread_pointer();
    }
}

#define SIGDEFER_SECTION \
    ((sigdefer_section_t *)(sigdefer_thread_pointer() + sigdefer_soft_offset))

/**
 * Find mod_sigdefer.  Outside of sections only.
 * @return SIGDEFER_ABSENT, or what sigdefer_state() returns in this process;
 *         in the parent that is SIGDEFER_OFF
 *
 * Call from: the optional_fn_retrieve hook.  Not MT-safe, not AS-safe.
 */
static inline sigdefer_state_e sigdefer_attach(void)
{
    APR_OPTIONAL_FN_TYPE(sigdefer_api) *api = APR_RETRIEVE_OPTIONAL_FN(
        sigdefer_api);

    sigdefer_soft_api = api ? api() : NULL;
    if (!sigdefer_soft_api) {
        sigdefer_soft_init();
        return SIGDEFER_ABSENT;
    }
    sigdefer_soft_offset = sigdefer_soft_api->section_offset;
    return sigdefer_soft_api->state();
}

static inline void sigdefer_leave_slow(void)
{
    if (sigdefer_soft_api) {
        sigdefer_soft_api->leave_slow();
    }
    else if (sigdefer_soft_section.depth < 0) {
        sigdefer_soft_section.depth = 0;
    }
}

static inline int sigdefer_sigaction(int signo, const struct sigaction *act,
                                     struct sigaction *oact)
{
    if (sigdefer_soft_api) {
        return sigdefer_soft_api->sigaction(signo, act, oact);
    }
    return sigaction(signo, act, oact) == 0 ? 0 : errno;
}

static inline void (*sigdefer_signal(int signo, void (*handler)(int)))(int)
{
    if (sigdefer_soft_api) {
        /* cppcheck-suppress CastIntegerToAddressAtReturn; misreads its type */
        return sigdefer_soft_api->signal(signo, handler);
    }
    return signal(signo, handler);
}

static inline void sigdefer_restore(sigdefer_mark_t mark)
{
    if (sigdefer_soft_api) {
        sigdefer_soft_api->restore(mark);
    }
    else {
        sigdefer_soft_section.depth = mark.depth;
    }
}

static inline int sigdefer_pending(sigset_t *set)
{
    if (sigdefer_soft_api) {
        return sigdefer_soft_api->pending(set);
    }
    if (set) {
        sigemptyset(set);
    }
    return 0;
}

static inline sigdefer_state_e sigdefer_state(void)
{
    return sigdefer_soft_api ? sigdefer_soft_api->state() : SIGDEFER_ABSENT;
}

static inline void sigdefer_stats(sigdefer_stats_t *stats)
{
    static const sigdefer_stats_t none = {
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    };

    *stats = none;
    if (sigdefer_soft_api) {
        sigdefer_soft_api->stats(stats);
    }
}

#endif /* SIGDEFER_SOFT */

/**
 * Enter a critical section.  Sections nest.
 *
 * MT-safe (each thread has its own depth), AS-safe if left within the
 * handler, fork-safe: the child of a fork() is in the section, too.
 */
static inline void sigdefer_enter(void)
{
    ++SIGDEFER_SECTION->depth;
    SIGDEFER_BARRIER();
}

/**
 * Leave a critical section; the outermost leave handles what was queued.
 * A leave without an enter changes nothing and is counted.
 *
 * If a signal arrives before the decrement, it is queued, and the test sees
 * it; if it arrives after, depth is 0 and it is handled at once.
 *
 * MT-safe, AS-safe if entered within the handler, fork-safe.
 */
static inline void sigdefer_leave(void)
{
    sigdefer_section_t *section = SIGDEFER_SECTION;

    SIGDEFER_BARRIER();
    if (__builtin_expect(--section->depth < 0, 0)) {
        sigdefer_leave_slow();
    }
    SIGDEFER_BARRIER();
    if (__builtin_expect(section->pending & 1, 0)) {
        sigdefer_leave_slow();
    }
}

#define SIGDEFER_ENTER() sigdefer_enter()
#define SIGDEFER_LEAVE() sigdefer_leave()

/**
 * How many sections the calling thread is in.
 *
 * MT-safe, AS-safe, fork-safe.
 */
static inline int sigdefer_depth(void)
{
    return SIGDEFER_SECTION->depth;
}

/**
 * Note the depth where sigsetjmp() is called, for sigdefer_restore() where it
 * returns a second time.
 *
 *     sigdefer_mark_t mark = sigdefer_mark();
 *
 *     if (sigsetjmp(env, 1)) {
 *         sigdefer_restore(mark);
 *     }
 *
 * Save the signal mask with sigsetjmp(), as for any jump out of a handler.
 * @return the mark, for this thread only
 *
 * MT-safe, AS-safe, fork-safe.
 */
static inline sigdefer_mark_t sigdefer_mark(void)
{
    sigdefer_mark_t mark;

    mark.depth = SIGDEFER_SECTION->depth;
    return mark;
}

#ifdef SIGDEFER_SOFT
static inline void ap_block_alarms(void)
{
    sigdefer_enter();
}

static inline void ap_unblock_alarms(void)
{
    sigdefer_leave();
}
#endif

/* The Zend Engine's names for a section, for code written against them.
 * Include this header last: it replaces what zend_signal.h defines.
 */
#ifdef SIGDEFER_ZEND_NAMES
#undef HANDLE_BLOCK_INTERRUPTIONS
#undef HANDLE_UNBLOCK_INTERRUPTIONS
#define HANDLE_BLOCK_INTERRUPTIONS() SIGDEFER_ENTER()
#define HANDLE_UNBLOCK_INTERRUPTIONS() SIGDEFER_LEAVE()
#endif

#ifdef __cplusplus
}
#endif

#endif /* MOD_SIGDEFER_H */
