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

/* A signal's way: the kernel calls deliver_signal().  Inside a section it is
 * queued; outside, its registered action runs in the frame, with the mask and
 * on the stack that the kernel made for it.  When the outermost section is
 * left, section_replay() sends the first queued signal to its own thread once
 * more; that one is a doorbell only.  It brings us back here, now outside,
 * with a frame in which the queue is worked off in order of arrival.
 *
 * What a handler of ours may touch: the two words of the section and the
 * thread_t of its own thread, its queue, the atomic tables of action.c and
 * the counters.  No lock, no log, no memory.  errno is kept.  On the way that
 * does not defer nothing asks the kernel; on the way that does, one getpid().
 *
 * While a replay has more to do, its handlers run with all managed signals
 * blocked, so that what arrives comes after what is queued, and a section in
 * a handler does not begin a second replay.  The last one runs with its true
 * mask, unless something has arrived meanwhile.  That mask is the replay's only lasting mark: a handler that leaves
 * by siglongjmp() takes it along, and the rest of the queue waits for the
 * next leave, the next signal or the next sigdefer_close_sections().
 */

#include <pthread.h>
#include <string.h>
#include <ucontext.h>

#include "action.h"
#include "section.h"
#include "stats.h"

/* Returns the mask before. */
static sigdefer_set_t block_managed(void)
{
    return os_change_mask(SIG_BLOCK, sigdefer_managed());
}

/* The kernel does it, so that the process ends, or stops, as it would have
 * without us.
 */
static void run_default(int signo)
{
    struct sigaction def;
    sigdefer_set_t before;

    if (signo == SIGCHLD || signo == SIGCONT || signo == SIGURG
        || signo == SIGWINCH) {
        return;
    }
    memset(&def, 0, sizeof(def));
    def.sa_handler = SIG_DFL;
    sigaction(signo, &def, NULL);
    pthread_kill(pthread_self(), signo);
    before = os_change_mask(SIG_UNBLOCK, SIGDEFER_BIT(signo));
    /* after a stop, or if we are the init of a container */
    os_change_mask(SIG_SETMASK, before);
    action_put_in_front(signo);
}

static void run(const struct sigaction *action, int signo, siginfo_t *info,
                void *context)
{
    int marked = action_is_adopted(signo)
                 && action == action_of(signo, ACTION_REGISTERED);

    if (!action || action_is_ignore(action)) {
        stats_count(ignored);
    }
    else if (action_is_default(action)) {
        run_default(signo);
    }
    else {
        if (action->sa_flags & SA_RESETHAND) {
            action_reset(signo, action);
        }
        if (marked) {
            os_mark_adopted(1);
        }
        if (action->sa_flags & SA_SIGINFO) {
            action->sa_sigaction(signo, info, context);
        }
        else {
            action->sa_handler(signo);
        }
        if (marked) {
            os_mark_adopted(0);
        }
    }
}

/* The action is read now, not when the signal arrived: its owner may have put
 * another handler in place, or none.
 */
static void run_queued(queue_entry_t *entry, sigdefer_set_t interrupted,
                       int is_last, void *context)
{
    int signo = entry->info.si_signo;
    const struct sigaction *action = action_of(signo, entry->turn);
    sigdefer_set_t mask = interrupted;
    uint64_t waited;

    if (action) {
        mask |= os_set_of(&action->sa_mask);
    }
    if (!action || !(action->sa_flags & SA_NODEFER)) {
        mask |= SIGDEFER_BIT(signo);
    }
    /* the true mask would let in what has arrived before the handler begins */
    if (!is_last || (os_pending() & sigdefer_managed() & ~mask)) {
        mask |= sigdefer_managed();
    }
    waited = queue_clock() - entry->arrived;
    stats_count(replayed);
    stats_count_signal(signo, run);
    stats_add(total_ns, waited);
    stats_raise(&stats->longest_ns, waited);
    os_change_mask(SIG_SETMASK, mask);
    run(action, signo, &entry->info, context);
}

/* Work off the queue in a handler's frame, with what has just arrived, if
 * anything has, as its last.  That one is put into the queue, too: a handler
 * that leaves by siglongjmp() would take it along.  There is room, since one
 * has been taken out before.
 *
 * What is blocked in the interrupted context is left alone: the program has
 * blocked it since, or the kernel has made a frame for it below ours, which
 * has not begun and will find it.  The two cannot be told apart here.
 */
static void replay(int is_fresh, action_turn_e turn, siginfo_t *info,
                   ucontext_t *context)
{
    queue_t *queue = section_thread.queue;
    sigdefer_set_t blocked = section_thread.blocked;
    sigdefer_set_t interrupted = os_set_of(&context->uc_sigmask) & ~blocked;
    sigdefer_set_t frame = block_managed();
    queue_entry_t entry;
    int found;

    if (!is_fresh) {
        section_thread.ringing = 0;
    }
    /* the handlers see, and may change, the mask of the program */
    os_set_remove(&context->uc_sigmask, blocked);
    /* a section in a handler has a context of its own to block */
    section_thread.blocked = 0;
    section_thread.replaying = 1;
    found = queue && queue_pop(queue, ~interrupted, &entry);
    if (found && is_fresh && queue_push(queue, info, turn)) {
        is_fresh = 0;
        stats_count(deferred);
        stats_count_signal(info->si_signo, deferred);
    }
    while (found) {
        queue_entry_t next;
        int is_last = !is_fresh && !queue_peek(queue, ~interrupted, &next);

        if (is_last) {
            section_thread.replaying = 0;
            section_set_pending(sigdefer_pending(NULL) > 0);
        }
        run_queued(&entry, interrupted, is_last, context);
        if (is_last) {
            break; /* what came since has been handled */
        }
        block_managed();
        found = queue_pop(queue, ~interrupted, &entry);
    }
    if (!found) {
        section_thread.replaying = 0;
        section_set_pending(sigdefer_pending(NULL) > 0);
    }
    section_thread.blocked = blocked & ~os_set_of(&context->uc_sigmask);
    os_set_add(&context->uc_sigmask, section_thread.blocked);
    os_change_mask(SIG_SETMASK, frame);
    if (is_fresh) {
        stats_count(direct);
        stats_count_signal(info->si_signo, run);
        run(action_of(info->si_signo, turn), info->si_signo, info, context);
    }
}

/* What the program has blocked since it arrived goes back to the kernel, so
 * that it comes when it is unblocked.  Not if the kernel has a later one of
 * its number, which would come first; that one will find the queue.  All
 * managed signals are blocked meanwhile.
 */
static void hand_back(sigdefer_set_t blocked)
{
    queue_t *queue = section_thread.queue;
    queue_entry_t entry;

    blocked &= ~os_pending();
    while (queue && queue_peek(queue, blocked, &entry)
           && os_resend_to_thread(&entry.info) == 0) {
        queue_pop(queue, blocked, &entry);
        stats_count(handed_back);
    }
}

/* A signal of the set to ring with: that of the first in the queue, unless
 * the kernel keeps one of its number, which would come first.
 */
static int choose_bell(int first, sigdefer_set_t set)
{
    set &= ~os_pending();
    return set == 0 || (set & SIGDEFER_BIT(first)) ? first
                                                   : __builtin_ctzll(set) + 1;
}

/* The bell's signal is unblocked, so that it is answered before the call
 * returns.  Another of its number that comes in the last moment may be merged
 * with it, and does what it should have done.
 */
static int ring(int signo)
{
    int turns = 0;
    int rv;

    if (!action_is_in_front(signo)) {
        return 0; /* someone else would take it for a signal */
    }
    section_thread.ringing = signo;
    rv = pthread_kill(pthread_self(), signo);
    /* an emulator may be late with it */
    while (rv == 0 && section_thread.ringing && turns++ < 1000
           && (os_pending() & SIGDEFER_BIT(signo))) {
        continue;
    }
    section_thread.ringing = 0;
    return rv == 0;
}

/* Have the queue worked off with all other managed signals blocked: what
 * comes, or what a full queue has left to the kernel, comes after it.
 * program is the mask of the program; returns what it is afterwards, since a
 * handler may change it.
 */
static sigdefer_set_t ring_for(int first, sigdefer_set_t program)
{
    sigdefer_set_t managed = sigdefer_managed();
    int bell = choose_bell(first, managed & ~program);
    sigdefer_set_t ringing = (program | managed) & ~SIGDEFER_BIT(bell);

    section_thread.blocked = ringing & ~program;
    os_change_mask(SIG_SETMASK, ringing);
    if (section_is_pending() && !ring(bell)) {
        /* without a frame of the kernel's, then */
        ucontext_t context;

        memset(&context, 0, sizeof(context));
        sigemptyset(&context.uc_sigmask);
        os_set_add(&context.uc_sigmask, ringing);
        replay(0, ACTION_REGISTERED, NULL, &context);
    }
    program = block_managed() & ~section_thread.blocked;
    section_thread.blocked = 0;
    return program;
}

void section_replay(void)
{
    sigdefer_set_t managed = sigdefer_managed();
    sigdefer_set_t overflowed = section_thread.blocked;
    sigdefer_set_t program = block_managed();
    queue_entry_t first;

    if (section_thread.replaying && (program & managed) == managed) {
        return; /* the frame below us goes on */
    }
    section_thread.replaying = 0;
    section_thread.blocked = 0;
    if ((program & overflowed) == overflowed) {
        /* else not here: a handler returned just before the queue was full */
        program &= ~overflowed;
    }
    if (section_thread.running == 0) {
        hand_back(program);
    }
    section_set_pending(sigdefer_pending(NULL) > 0);
    if (section_thread.queue
        && queue_peek(section_thread.queue, ~program, &first)) {
        program = ring_for(first.info.si_signo, program);
    }
    os_change_mask(SIG_SETMASK, program);
    queue_hand_on();
}

/* Let the kernel keep what comes until the replay.  Each handler does so that
 * returns while this lasts: one that it has interrupted would bring back the
 * old mask.
 */
static void hold_back(ucontext_t *context)
{
    sigdefer_set_t managed = sigdefer_managed();

    if (!section_thread.blocked) {
        stats_count(overflows);
    }
    section_thread.blocked |= managed & ~os_set_of(&context->uc_sigmask);
    os_set_add(&context->uc_sigmask, managed);
}

/* The thread's first.  If a signal arrives between claim and exchange, its
 * handler has been through here, and its queue is the one.
 */
static queue_t *own_queue(void)
{
    queue_t *claimed = queue_claim();
    queue_t *none = NULL;

    if (atomic_compare_exchange_strong(&section_thread.queue, &none, claimed)) {
        return claimed;
    }
    if (claimed) {
        queue_release(claimed);
    }
    return none;
}

static void defer(const siginfo_t *info, action_turn_e turn,
                  ucontext_t *context)
{
    queue_t *queue = section_thread.queue;
    unsigned queued;

    if (!queue) {
        queue = own_queue();
    }
    if (queue && queue_has_tick(queue, info)) {
        stats_count(merged);
    }
    else if (queue && queue_push(queue, info, turn)) {
        stats_count(deferred);
        stats_count_signal(info->si_signo, deferred);
    }
    else if (context) {
        hold_back(context);
        if (os_resend_to_thread(info) == 0) {
            stats_count(handed_back);
        }
        else {
            stats_count(lost);
        }
    }
    else {
        stats_count(lost);
    }
    section_set_pending(1);
    queued = queue ? queue_count(queue, NULL) : 0;
    stats_raise(&stats->queue_highest, queued);
    if (context && (section_thread.blocked || queued >= QUEUE_HIGH)) {
        hold_back(context);
    }
}

/* Whether what a handler has been given is the kernel's, and can be read. */
static int is_frame(const void *local, int signo, const siginfo_t *info,
                    const void *context)
{
    return os_in_signal_frame(local, info) && os_in_signal_frame(local, context)
           && info->si_signo == signo;
}

/* A signal that reaches the thread inside a section, or with something queued,
 * or the bell.
 */
static void arrive(action_turn_e turn, siginfo_t *info, ucontext_t *context,
                   int is_bell)
{
    if (section_depth() > 0) {
        if (!is_bell) {
            defer(info, turn, context);
        }
    }
    else if (context) {
        replay(!is_bell, turn, info, context);
    }
    else {
        /* a handler of the plain kind calls us: what it interrupted is not
         * known, so what is queued waits for the next leave
         */
        stats_count(direct);
        stats_count_signal(info->si_signo, run);
        run(action_of(info->si_signo, turn), info->si_signo, info, context);
    }
}

void deliver_signal(int signo, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    action_turn_e turn;
    int is_bell = section_thread.ringing == signo
                  && is_frame(&saved_errno, signo, info, context)
                  && os_is_from_here(info);

    if (!is_bell && action_guard(signo)) {
        stats_count_signal(signo, received);
        stats_count_signal(signo, held);
        errno = saved_errno;
        return;
    }
    section_thread.running++;
    turn = action_turn(signo);
    if (!is_bell && turn != ACTION_CALLED) {
        stats_count_signal(signo, received);
    }
    if (turn == ACTION_CALLED || !action_in_force()
        || (section_depth() <= 0 && !section_is_pending()
            && !section_thread.ringing)
        || !action_is_our_process()) {
        stats_count(direct);
        if (turn != ACTION_CALLED) {
            stats_count_signal(signo, run);
        }
        run(action_of(signo, turn), signo, info, context);
    }
    else if (is_frame(&saved_errno, signo, info, context)) {
        arrive(turn, info, context, is_bell);
    }
    else {
        siginfo_t unknown;

        memset(&unknown, 0, sizeof(unknown));
        unknown.si_signo = signo;
        unknown.si_code = SI_USER;
        arrive(turn, &unknown, NULL, 0);
    }
    section_thread.running--;
    errno = saved_errno;
}

void sigdefer_call_registered(int signo)
{
    const struct sigaction *action = action_of(signo, ACTION_REGISTERED);
    siginfo_t info;
    ucontext_t context;

    if (!action || action_is_default(action)) {
        return;
    }
    memset(&info, 0, sizeof(info));
    info.si_signo = signo;
    info.si_code = SI_USER;
    memset(&context, 0, sizeof(context));
    run(action, signo, &info, &context);
}
