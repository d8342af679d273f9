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

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "action.h"
#include "queue.h"
#include "section.h"
#include "stats.h"

#define SIGNALS 64

/* What a handler has registered is kept for ever: a signal on another thread
 * may just be reading it.  There are as many as there are different actions,
 * not as there are registrations.
 */
typedef struct action_block_t action_block_t;
struct action_block_t {
    action_block_t *next; /* r/o after publication */
    atomic_int used;      /* actions taken; may count beyond the end */
    struct {
        atomic_int ready; /* release after, acquire before action */
        struct sigaction action;
    } entries[24];
};

#define BLOCK_ENTRIES \
    ((int)(sizeof(((action_block_t *)0)->entries) \
           / sizeof(((action_block_t *)0)->entries[0])))

typedef _Atomic(const struct sigaction *) action_ref_t;

static _Atomic(action_block_t *) blocks;

/* Written under the lock below, but for action_reset(); read by handlers. */
static action_ref_t registered[SIGNALS + 1];
static action_ref_t behind[SIGNALS + 1]; /* before the first adoption */
static _Atomic sigdefer_set_t managed;   /* registered[] is set */
static _Atomic sigdefer_set_t adopted;   /* registered is a foreign one */
static sigdefer_set_t reported;          /* under the lock */

static _Atomic sigdefer_set_t guarded;
static _Atomic(sigdefer_guard_fn *) guard;
static int guard_flags; /* under the lock */

/* Registered with us before there was an engine to manage it. */
static _Atomic sigdefer_set_t wanted;

static atomic_int installed;
static atomic_int process; /* the one that defers; renewed by a fork */

static const struct sigaction default_action;
static const struct sigaction ignore_action = { .sa_handler = SIG_IGN };

/* Between registrations only, never in our handler: a handler that registers
 * cannot meet a holder on its own thread, since he has all signals blocked.
 */
static atomic_flag lock = ATOMIC_FLAG_INIT;

static void block_all(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
}

static void lock_registrations(sigset_t *before)
{
    block_all(before);
    while (atomic_flag_test_and_set(&lock)) {
        sched_yield();
    }
}

static void unlock_registrations(const sigset_t *before)
{
    atomic_flag_clear(&lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

sigdefer_set_t sigdefer_default_set(void)
{
    return SIGDEFER_BIT(SIGALRM) | SIGDEFER_BIT(SIGHUP) | SIGDEFER_BIT(SIGINT)
           | SIGDEFER_BIT(SIGQUIT) | SIGDEFER_BIT(SIGTERM)
           | SIGDEFER_BIT(SIGUSR1) | SIGDEFER_BIT(SIGUSR2)
           | SIGDEFER_BIT(SIGPROF);
}

int sigdefer_can_defer(int signo)
{
    sigset_t libc;

    switch (signo) {
    case SIGKILL:
    case SIGSTOP:
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
    case SIGABRT:
        return 0;
    default:
        /* libc refuses what is no signal, and those it keeps for itself */
        sigemptyset(&libc);
        return signo >= 1 && signo <= SIGNALS && sigaddset(&libc, signo) == 0;
    }
}

SIGDEFER_HOT sigdefer_set_t sigdefer_managed(void)
{
    return atomic_load(&managed);
}

SIGDEFER_HOT sigdefer_state_e sigdefer_state(void)
{
    return atomic_load(&installed) ? SIGDEFER_ON : SIGDEFER_OFF;
}

int action_in_force(void)
{
    return atomic_load_explicit(&installed, memory_order_relaxed);
}

int action_is_our_process(void)
{
    return atomic_load_explicit(&process, memory_order_relaxed) == getpid();
}

const struct sigaction *action_of(int signo, action_turn_e turn)
{
    return atomic_load(turn == ACTION_REGISTERED ? &registered[signo]
                                                 : &behind[signo]);
}

static const struct sigaction *registered_action(int signo)
{
    return action_of(signo, ACTION_REGISTERED);
}

const struct sigaction *sigdefer_registered(int signo)
{
    return registered_action(signo);
}

/* The flags that mean something to us; libc adds one of its own. */
#define FLAGS \
    (SA_SIGINFO | SA_NODEFER | SA_RESETHAND | SA_RESTART | SA_ONSTACK \
     | SA_NOCLDSTOP | SA_NOCLDWAIT)

static int same_action(const struct sigaction *a, const struct sigaction *b)
{
    /* sa_handler and sa_sigaction share their place */
    return a->sa_sigaction == b->sa_sigaction
           && ((a->sa_flags ^ b->sa_flags) & FLAGS) == 0
           && os_set_of(&a->sa_mask) == os_set_of(&b->sa_mask);
}

static action_block_t *add_block(action_block_t *first)
{
    action_block_t *block = mmap(NULL, sizeof(*block), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (block == MAP_FAILED) {
        return NULL;
    }
    block->next = first;
    if (!atomic_compare_exchange_strong(&blocks, &first, block)) {
        munmap(block, sizeof(*block));
        return first;
    }
    return block;
}

/* The one copy of an action that is like this; NULL if there is no memory.
 * Lock-free, and AS-safe as far as mmap() is.
 */
static const struct sigaction *keep(const struct sigaction *action)
{
    action_block_t *first = atomic_load(&blocks);
    action_block_t *block;
    int i;

    if (same_action(action, &default_action)) {
        return &default_action;
    }
    for (block = first; block; block = block->next) {
        for (i = 0; i < BLOCK_ENTRIES; i++) {
            if (atomic_load(&block->entries[i].ready)
                && same_action(&block->entries[i].action, action)) {
                return &block->entries[i].action;
            }
        }
    }
    for (;;) {
        if (first) {
            i = atomic_fetch_add(&first->used, 1);
            if (i < BLOCK_ENTRIES) {
                first->entries[i].action = *action;
                atomic_store(&first->entries[i].ready, 1);
                return &first->entries[i].action;
            }
        }
        first = add_block(first);
        if (!first) {
            return NULL;
        }
    }
}

static int is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO)
           && action->sa_sigaction == deliver_signal;
}

/* Give the kernel our handler in the shape of the registered action. */
static int put_in_front(int signo, const struct sigaction *action)
{
    struct sigaction ours;

    if (action_is_ignore(action)) {
        return sigaction(signo, action, NULL) == 0 ? 0 : errno;
    }
    memset(&ours, 0, sizeof(ours));
    ours.sa_sigaction = deliver_signal;
    ours.sa_mask = action->sa_mask;
    ours.sa_flags = SA_SIGINFO | (action->sa_flags & FLAGS & ~SA_RESETHAND);
    if (action_is_default(action)) {
        ours.sa_flags |= SA_RESTART | SA_ONSTACK;
    }
    if (atomic_load(&guarded) & SIGDEFER_BIT(signo)) {
        ours.sa_flags |= guard_flags;
    }
    if (atomic_load(&adopted) & SIGDEFER_BIT(signo)) {
        os_mark_kernel(&ours.sa_mask);
    }
    return sigaction(signo, &ours, NULL) == 0 ? 0 : errno;
}

void action_put_in_front(int signo)
{
    put_in_front(signo, registered_action(signo));
}

void action_reset(int signo, const struct sigaction *action)
{
    atomic_compare_exchange_strong(&registered[signo], &action,
                                   &default_action);
}

int action_guard(int signo)
{
    sigdefer_guard_fn *look;

    if (!(atomic_load(&guarded) & SIGDEFER_BIT(signo))) {
        return 0;
    }
    look = atomic_load(&guard);
    return look && look(signo);
}

/* As long as nobody has been adopted for a signal, what is registered is
 * right whoever calls us: a foreign handler in front of us that we have not
 * noticed yet means that one when it calls on.  An adopted one stands behind
 * us, and may call us, too.
 */
action_turn_e action_turn(int signo)
{
    struct sigaction in_kernel;
    int marks;

    if (!action_is_adopted(signo)) {
        return ACTION_REGISTERED;
    }
    marks = os_marks_take();
    if (marks & OS_MARK_KERNEL) {
        return ACTION_REGISTERED;
    }
    if (marks & OS_MARK_ADOPTED) {
        return ACTION_CALLED;
    }
    return sigaction(signo, NULL, &in_kernel) == 0
                   && in_kernel.sa_sigaction
                          == registered_action(signo)->sa_sigaction
               ? ACTION_BEHIND
               : ACTION_REGISTERED;
}

int action_is_adopted(int signo)
{
    return (atomic_load(&adopted) & SIGDEFER_BIT(signo)) != 0;
}

int action_is_in_front(int signo)
{
    return os_handler_of(signo) == deliver_signal;
}

static void restart_in_child(void)
{
    atomic_store(&process, getpid());
    atomic_flag_clear(&lock);
    section_restart_in_child();
}

/* Ours in front of what the kernel has; the lock is held. */
static int manage(int signo)
{
    struct sigaction found;
    const struct sigaction *action;
    int rv;

    if (sigaction(signo, NULL, &found) != 0) {
        return errno;
    }
    action = keep(&found);
    if (!action) {
        return ENOMEM;
    }
    atomic_store(&registered[signo], action);
    atomic_store(&behind[signo], NULL);
    rv = put_in_front(signo, action);
    if (rv == 0) {
        atomic_fetch_or(&managed, SIGDEFER_BIT(signo));
    }
    return rv;
}

int sigdefer_install(sigdefer_set_t set)
{
    static int watches_forks;
    sigset_t before;
    int signo;
    int rv;

    if (atomic_load(&installed)) {
        return EALREADY;
    }
    for (signo = 1; signo <= SIGNALS; signo++) {
        if ((set & SIGDEFER_BIT(signo)) && !sigdefer_can_defer(signo)) {
            return EINVAL;
        }
    }
    rv = queue_pool_init();
    if (rv == 0 && !watches_forks) {
        rv = pthread_atfork(NULL, NULL, restart_in_child);
        watches_forks = rv == 0;
    }
    if (rv != 0) {
        return rv;
    }
    lock_registrations(&before);
    atomic_store(&process, getpid());
    atomic_store(&installed, 1);
    set |= atomic_load(&wanted);
    for (signo = 1; rv == 0 && signo <= SIGNALS; signo++) {
        if (set & SIGDEFER_BIT(signo)) {
            rv = manage(signo);
        }
    }
    unlock_registrations(&before);
    if (rv != 0) {
        sigdefer_uninstall();
    }
    return rv;
}

void sigdefer_uninstall(void)
{
    sigset_t before;
    int signo;

    if (!atomic_load(&installed)) {
        return;
    }
    if (section_depth() == 0) {
        section_replay();
    }
    lock_registrations(&before);
    for (signo = 1; signo <= SIGNALS; signo++) {
        struct sigaction in_kernel;

        if ((atomic_load(&managed) & SIGDEFER_BIT(signo))
            && sigaction(signo, NULL, &in_kernel) == 0 && is_ours(&in_kernel)) {
            sigaction(signo, registered_action(signo), NULL);
        }
    }
    atomic_store(&managed, 0);
    atomic_store(&guarded, 0);
    atomic_store(&installed, 0);
    unlock_registrations(&before);
}

/* What its owner registered last: in the kernel, if he went behind our back. */
static void registered_by_owner(int signo, struct sigaction *action)
{
    const struct sigaction *ours = registered_action(signo);

    if (ours && sigaction(signo, NULL, action) == 0 && is_ours(action)) {
        *action = *ours;
    }
}

int sigdefer_sigaction(int signo, const struct sigaction *act,
                       struct sigaction *oact)
{
    const struct sigaction *action;
    struct sigaction old;
    sigset_t before;
    int rv = 0;

    if (!sigdefer_can_defer(signo)) {
        return EINVAL;
    }
    if (!atomic_load(&installed)) {
        if (act) {
            atomic_fetch_or(&wanted, SIGDEFER_BIT(signo));
        }
        return sigaction(signo, act, oact) == 0 ? 0 : errno;
    }
    lock_registrations(&before);
    if (!(atomic_load(&managed) & SIGDEFER_BIT(signo))) {
        if (act) {
            rv = manage(signo);
        }
        else {
            rv = sigaction(signo, NULL, oact) == 0 ? 0 : errno;
            oact = NULL;
        }
    }
    if (rv == 0 && oact) {
        registered_by_owner(signo, &old);
    }
    if (rv == 0 && act) {
        action = keep(act);
        if (action) {
            atomic_store(&registered[signo], action);
            atomic_fetch_and(&adopted, ~SIGDEFER_BIT(signo));
            rv = put_in_front(signo, action);
        }
        else {
            rv = ENOMEM;
        }
    }
    unlock_registrations(&before);
    if (rv == 0 && oact) {
        *oact = old;
    }
    return rv;
}

void (*sigdefer_signal(int signo, void (*handler)(int)))(int)
{
    struct sigaction act;
    struct sigaction oact;
    int rv;

    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_handler = handler;
    act.sa_flags = SA_RESTART;
    rv = handler == SIG_ERR ? EINVAL : sigdefer_sigaction(signo, &act, &oact);
    if (rv != 0) {
        errno = rv;
        return SIG_ERR;
    }
    return oact.sa_handler;
}

void sigdefer_guard(sigdefer_set_t set, sigdefer_guard_fn *look, int flags)
{
    sigset_t before;
    int signo;

    lock_registrations(&before);
    atomic_store(&guard, look);
    guard_flags = flags;
    atomic_store(&guarded, look ? set : 0);
    for (signo = 1; signo <= SIGNALS; signo++) {
        if (set & atomic_load(&managed) & SIGDEFER_BIT(signo)) {
            action_put_in_front(signo);
        }
    }
    unlock_registrations(&before);
}

/* Take what the kernel has for the registered action; the lock is held.
 * What was registered by then stays reachable, for his sake.
 */
static void adopt(int signo, const struct sigaction *found)
{
    const struct sigaction *before = registered_action(signo);
    const struct sigaction *action = keep(found);

    if (!action) {
        return; /* he stays in front; the next check tries */
    }
    if (action != before) {
        if (!(atomic_load(&adopted) & SIGDEFER_BIT(signo))) {
            atomic_store(&behind[signo], before);
        }
        atomic_store(&registered[signo], action);
        atomic_fetch_or(&adopted, SIGDEFER_BIT(signo));
        stats_count(adopted);
    }
    put_in_front(signo, action);
}

static int is_as_we_left_it(int signo, const struct sigaction *found)
{
    return is_ours(found)
           || (action_is_ignore(found)
               && action_is_ignore(registered_action(signo)));
}

/* Look again, with the lock held; returns whether it is the first time. */
static int adopt_if_changed(int signo, struct sigaction *found)
{
    int news = 0;
    sigset_t before;

    lock_registrations(&before);
    if (sigaction(signo, NULL, found) == 0 && !is_as_we_left_it(signo, found)) {
        adopt(signo, found);
        news = !(reported & SIGDEFER_BIT(signo));
        reported |= SIGDEFER_BIT(signo);
    }
    unlock_registrations(&before);
    return news;
}

SIGDEFER_HOT void sigdefer_check(sigdefer_set_t set, sigdefer_adopted_fn *tell)
{
    for (set &= atomic_load(&managed); set; set &= set - 1) {
        int signo = __builtin_ctzll(set) + 1;
        os_handler_fn *handler = os_handler_of(signo);
        struct sigaction found;

        if (handler == deliver_signal
            || (handler == ignore_action.sa_sigaction
                && action_is_ignore(registered_action(signo)))) {
            continue;
        }
        if (adopt_if_changed(signo, &found) && tell) {
            tell(signo, &found);
        }
    }
    queue_hand_on();
}
