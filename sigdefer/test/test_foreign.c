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

/* Handlers installed behind the engine's back: adopted, chained, given back.
 *
 * "first" is who was registered before, "foreign" goes behind our back and
 * calls on to what he found, "second" does so after him.
 */

#include "tap.h"

static volatile sig_atomic_t first_calls;
static volatile sig_atomic_t foreign_calls;
static volatile sig_atomic_t second_calls;
static volatile sig_atomic_t first_value;

static struct sigaction foreign_found;
static struct sigaction second_found;
static void (*plain_found)(int);

static int told;
static int told_signo;
static struct sigaction told_of;

static void reset_calls(void)
{
    first_calls = foreign_calls = second_calls = first_value = 0;
}

static void expect_calls(const char *what, int first, int foreign, int second)
{
    is(first_calls, first, "%s: calls of the first", what);
    is(foreign_calls, foreign, "%s: calls of the foreign one", what);
    is(second_calls, second, "%s: calls of the second", what);
}

static void first(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)context;
    ++first_calls;
    first_value = info->si_value.sival_int;
}

static void first_plain(int signo)
{
    (void)signo;
    ++first_calls;
}

/* Calls on as one does: a siginfo handler with all three, a plain one with
 * the signal.  Ends a loop that should not be.
 */
static void call_on(const struct sigaction *found, int calls, int signo,
                    siginfo_t *info, void *context)
{
    if (calls > 1000) {
        return;
    }
    if (found->sa_flags & SA_SIGINFO) {
        found->sa_sigaction(signo, info, context);
    }
    else if (found->sa_handler != SIG_DFL && found->sa_handler != SIG_IGN) {
        found->sa_handler(signo);
    }
}

static void foreign(int signo, siginfo_t *info, void *context)
{
    ++foreign_calls;
    call_on(&foreign_found, foreign_calls, signo, info, context);
}

static void second(int signo, siginfo_t *info, void *context)
{
    ++second_calls;
    call_on(&second_found, second_calls, signo, info, context);
}

/* Knows of no siginfo: calls on with the signal alone, whatever he found. */
static void foreign_plain(int signo)
{
    ++foreign_calls;
    if (foreign_calls <= 1000 && plain_found != SIG_DFL
        && plain_found != SIG_IGN) {
        plain_found(signo);
    }
}

static void foreign_alone(int signo)
{
    (void)signo;
    ++foreign_calls;
}

static void go_behind(int signo, void (*handler)(int, siginfo_t *, void *),
                      struct sigaction *found)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(signo, &action, found);
}

static void tell(int signo, const struct sigaction *found)
{
    ++told;
    told_signo = signo;
    told_of = *found;
}

static void check(void)
{
    sigdefer_check(sigdefer_managed(), tell);
}

static void (*in_kernel(int signo))(int, siginfo_t *, void *)
{
    struct sigaction action;

    sigaction(signo, NULL, &action);
    return action.sa_sigaction;
}

/* One signal outside of sections and one inside, each of which calls all in
 * the chain once, the one inside not before the section is left.
 */
static void expect_chain(const char *what, int foreigners, int seconds)
{
    reset_calls();
    send_value(SIGUSR1, 3);
    expect_calls(what, 1, foreigners, seconds);
    reset_calls();
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 4);
    expect_calls("deferred", 0, 0, 0);
    SIGDEFER_LEAVE();
    expect_calls(what, 1, foreigners, seconds);
    is(current_mask(), 0, "%s: no signal is blocked", what);
}

/* ---- Adopted ------------------------------------------------------------ */

/* A check finds a foreign handler, reports it, adopts it and puts ours in
 * front again; his signal is deferred, and he may call on.
 */
static void adopted(void)
{
    void (*ours)(int, siginfo_t *, void *);
    struct sigaction old;

    install();
    handle(SIGUSR1, first, 0, 0);
    ours = in_kernel(SIGUSR1);
    check();
    is(told, 0, "nobody to report at first");
    go_behind(SIGUSR1, foreign, &foreign_found);
    sigdefer_sigaction(SIGUSR1, NULL, &old);
    ok(old.sa_sigaction == foreign, "he is what his owner registered");
    check();
    is(told, 1, "reported");
    is(told_signo, SIGUSR1, "with the signal");
    ok(told_of.sa_sigaction == foreign, "and the handler");
    is(stats_now().adopted, 1, "counted");
    ok(in_kernel(SIGUSR1) == ours, "ours is in front again");
    sigdefer_sigaction(SIGUSR1, NULL, &old);
    ok(old.sa_sigaction == foreign, "he is the registered one");
    ok(old.sa_flags & SA_RESTART, "with his flags");
    expect_chain("adopted", 1, 0);
    is(first_value, 4, "the siginfo has come through");
    check();
    is(told, 1, "not reported again");
    is(stats_now().adopted, 1, "nor counted");
}

/* The same where the foreign handler is a plain one set by signal(), that
 * calls what signal() returned.
 */
static void adopted_plain(void)
{
    install();
    sigdefer_signal(SIGUSR1, first_plain);
    plain_found = signal(SIGUSR1, foreign_plain);
    check();
    is(told, 1, "reported");
    expect_chain("plain", 1, 0);
}

/* A foreign handler that does not call on is the only one. */
static void adopted_alone(void)
{
    install();
    handle(SIGUSR1, first, 0, 0);
    signal(SIGUSR1, foreign_alone);
    check();
    reset_calls();
    raise(SIGUSR1);
    expect_calls("alone", 0, 1, 0);
    SIGDEFER_ENTER();
    raise(SIGUSR1);
    expect_calls("inside", 0, 1, 0);
    SIGDEFER_LEAVE();
    expect_calls("left", 0, 2, 0);
}

/* Where the default was registered, a foreign handler that calls on does not
 * end the process: what it found was no default to it, but there is nobody
 * behind it.
 */
static void adopted_over_default(void)
{
    install();
    go_behind(SIGUSR1, foreign, &foreign_found);
    check();
    reset_calls();
    is(told, 1, "reported");
    SIGDEFER_ENTER();
    raise(SIGUSR1);
    expect_calls("inside", 0, 0, 0);
    sigdefer_signal(SIGUSR1, foreign_alone);
    SIGDEFER_LEAVE();
    expect_calls("left", 0, 1, 0);
}

/* Whether the second and the first were each called once and the adopted one
 * at most once: he may be left out, but not looped through.
 */
static int no_loop(void)
{
    int fine = second_calls == 1 && first_calls == 1 && foreign_calls <= 1;

    if (!fine) {
        diag("calls: %d of the first, %d of the foreign one, %d of the second",
             (int)first_calls, (int)foreign_calls, (int)second_calls);
    }
    return fine;
}

/* Two foreign handlers, one after the other, each calling on. */
static void adopted_twice(void)
{
    install();
    handle(SIGUSR1, first, 0, 0);
    go_behind(SIGUSR1, foreign, &foreign_found);
    check();
    go_behind(SIGUSR1, second, &second_found);
    check();
    is(told, 1, "reported once for the signal");
    is(stats_now().adopted, 2, "both counted");
    reset_calls();
    send_value(SIGUSR1, 3);
    ok(no_loop(), "no loop, and the first is last in the chain");
    reset_calls();
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 4);
    expect_calls("inside", 0, 0, 0);
    SIGDEFER_LEAVE();
    ok(no_loop(), "the same out of the queue");
}

/* One that installs itself again and again, and each time notes what it has
 * found, as a language runtime does at each request.
 */
static void again_and_again(void)
{
    int i;

    install();
    handle(SIGUSR1, first, 0, 0);
    for (i = 0; i < 100; ++i) {
        go_behind(SIGUSR1, foreign, &foreign_found);
        check();
    }
    is(told, 1, "reported once");
    expect_chain("again and again", 1, 0);
    /* caught in front, before the next check */
    go_behind(SIGUSR1, foreign, &foreign_found);
    reset_calls();
    send_value(SIGUSR1, 5);
    expect_calls("in front", 1, 1, 0);
    check();
    expect_chain("and once more", 1, 0);
}

/* A handler that is registered after all, by its right name, replaces the
 * adopted one.
 */
static void replaced(void)
{
    install();
    handle(SIGUSR1, first, 0, 0);
    go_behind(SIGUSR1, foreign, &foreign_found);
    check();
    handle(SIGUSR1, second, 0, 0);
    reset_calls();
    send_value(SIGUSR1, 3);
    expect_calls("replaced", 0, 0, 1);
    check();
    is(told, 1, "which is nothing to report");
}

/* A signal that is ignored behind our back is ignored. */
static void ignored(void)
{
    install();
    handle(SIGUSR1, first, 0, 0);
    SIGDEFER_ENTER();
    raise(SIGUSR1);
    signal(SIGUSR1, SIG_IGN);
    check();
    SIGDEFER_LEAVE();
    ok(proc_set("SigIgn") & SIGDEFER_BIT(SIGUSR1), "ignored by the kernel");
    is(first_calls, 0, "and by the queue");
    handle(SIGUSR1, first, 0, 0);
    raise(SIGUSR1);
    is(first_calls, 1, "until it gets a handler");
}

static void default_behind(void)
{
    handle(SIGUSR1, first, 0, 0);
    signal(SIGUSR1, SIG_DFL);
    check();
    SIGDEFER_ENTER();
    raise(SIGUSR1);
    SIGDEFER_LEAVE();
}

/* One that is set to its default behind our back has its default, outside of
 * sections.
 */
static void defaulted(void)
{
    int status;

    install();
    status = status_of(default_behind);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1,
       "ended by the default");
}

/* ---- In front, not noticed ---------------------------------------------- */

/* A foreign handler that no check has found yet runs at once, since nobody
 * can know; what it calls on to is deferred and called once.
 */
static void in_front(void)
{
    install();
    handle(SIGUSR1, first, 0, 0);
    go_behind(SIGUSR1, foreign, &foreign_found);
    reset_calls();
    send_value(SIGUSR1, 3);
    expect_calls("outside", 1, 1, 0);
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 4);
    expect_calls("inside", 1, 2, 0);
    SIGDEFER_LEAVE();
    expect_calls("left", 2, 2, 0);
    is(first_value, 4, "with the siginfo");
    ok(in_kernel(SIGUSR1) == foreign, "he is still in front");
    is(current_mask(), 0, "no signal is blocked");
}

/* The same for a plain one. */
static void in_front_plain(void)
{
    install();
    sigdefer_signal(SIGUSR1, first_plain);
    plain_found = signal(SIGUSR1, foreign_plain);
    reset_calls();
    raise(SIGUSR1);
    expect_calls("outside", 1, 1, 0);
    SIGDEFER_ENTER();
    raise(SIGUSR1);
    expect_calls("inside", 1, 2, 0);
    SIGDEFER_LEAVE();
    expect_calls("left", 2, 2, 0);
}

/* A second one in front of an adopted one. */
static void in_front_of_adopted(void)
{
    install();
    handle(SIGUSR1, first, 0, 0);
    go_behind(SIGUSR1, foreign, &foreign_found);
    check();
    go_behind(SIGUSR1, second, &second_found);
    reset_calls();
    send_value(SIGUSR1, 3);
    ok(no_loop(), "no loop outside");
    reset_calls();
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 4);
    is(second_calls, 1, "at once inside");
    is(first_calls + foreign_calls, 0, "those behind are deferred");
    SIGDEFER_LEAVE();
    ok(no_loop(), "no loop when it is left");
}

/* ---- Uninstalled -------------------------------------------------------- */

static int same(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_sigaction == b->sa_sigaction && a->sa_flags == b->sa_flags
           && set_of(&a->sa_mask) == set_of(&b->sa_mask);
}

/* The uninstall gives the kernel back what it had, to the last flag. */
static void given_back(void)
{
    struct sigaction action;
    struct sigaction before[SIGRTMAX + 1];
    struct sigaction after;
    int different = 0;
    int signo;

    memset(before, 0, sizeof(before));
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = first;
    action.sa_flags = (int)(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
    sigaddset(&action.sa_mask, SIGWINCH);
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGTERM, first_plain);
    for (signo = 1; signo <= SIGRTMAX; ++signo) {
        sigaction(signo, NULL, &before[signo]);
    }
    install();
    handle(SIGHUP, second, SA_RESTART, 0);
    sigdefer_uninstall();
    for (signo = 1; signo <= SIGRTMAX; ++signo) {
        if (signo != SIGHUP && sigaction(signo, NULL, &after) == 0) {
            different += !same(&before[signo], &after);
        }
    }
    is(different, 0, "all actions are as before the install");
    ok(in_kernel(SIGHUP) == second, "or as registered since");
    is(sigdefer_managed(), 0, "nothing is managed");
}

/* A late signal: somebody in front calls ours after the uninstall, and ours
 * calls on to the saved action only.
 */
static void late_signal(void)
{
    install();
    handle(SIGUSR1, first, 0, 0);
    go_behind(SIGUSR1, foreign, &foreign_found);
    sigdefer_uninstall();
    ok(in_kernel(SIGUSR1) == foreign, "who stood in front still does");
    reset_calls();
    send_value(SIGUSR1, 3);
    expect_calls("late", 1, 1, 0);
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 4);
    expect_calls("not deferred", 2, 2, 0);
    SIGDEFER_LEAVE();
    expect_calls("nor replayed", 2, 2, 0);
}

/* An adopted handler is given back to the kernel, and calls on without a
 * loop.
 */
static void adopted_given_back(void)
{
    install();
    handle(SIGUSR1, first, 0, 0);
    go_behind(SIGUSR1, foreign, &foreign_found);
    check();
    sigdefer_uninstall();
    ok(in_kernel(SIGUSR1) == foreign, "he is in the kernel");
    reset_calls();
    send_value(SIGUSR1, 3);
    expect_calls("late", 1, 1, 0);
}

/* What waits when the engine is uninstalled is handled. */
static void handled_before_uninstall(void)
{
    install();
    handle(SIGUSR1, first, 0, 0);
    sigdefer_uninstall();
    install();
    sigdefer_sigaction(SIGUSR1, NULL, &foreign_found);
    ok(foreign_found.sa_sigaction == first, "registered as it was");
    SIGDEFER_ENTER();
    send_value(SIGUSR1, 3);
    is(first_calls, 0, "deferred after a second install");
    SIGDEFER_LEAVE();
    is(first_calls, 1, "and handled");
}

static const tap_test_t tests[] = {
    TAP_TEST(adopted),
    TAP_TEST(adopted_plain),
    TAP_TEST(adopted_alone),
    TAP_TEST(adopted_over_default),
    TAP_TEST(adopted_twice),
    TAP_TEST(again_and_again),
    TAP_TEST(replaced),
    TAP_TEST(ignored),
    TAP_TEST(defaulted),
    TAP_TEST(in_front),
    TAP_TEST(in_front_plain),
    TAP_TEST(in_front_of_adopted),
    TAP_TEST(given_back),
    TAP_TEST(late_signal),
    TAP_TEST(adopted_given_back),
    TAP_TEST(handled_before_uninstall),
};

TAP_MAIN_EXACT(tests)
