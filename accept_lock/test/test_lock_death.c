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

/* A process is killed at each instruction of acquire, hold and release, alone
 * and with others asleep: the lock goes on, and the death of a holder is told
 * once.
 */

#include "accept_lock/test/locks.h"

/* What the process that is killed has come to; in shared memory. */
static volatile enum {
    BEFORE,
    ACQUIRING,
    HOLDING,
    RELEASING,
    AFTER
} * phase;

/* Whether the next one has been told as it must: surely of the death of a
 * holder, surely not of another, either way in the middle of acquire or
 * release.
 */
static int is_told_right(unsigned how)
{
    const int is_told = (how & ACCEPT_LOCK_RECOVERED) != 0;

    return *phase == HOLDING                     ? is_told
           : *phase == BEFORE || *phase == AFTER ? !is_told
                                                 : 1;
}

/* Whether the lock can be had at once, and nobody is told of a death. */
static int is_sound(subject_t *s)
{
    unsigned how;

    if (accept_lock_try(s->lock, &how) != APR_SUCCESS) {
        return 0;
    }
    accept_lock_release(s->lock);
    return !(how & ACCEPT_LOCK_RECOVERED);
}

static void go_through(accept_lock_t *lock)
{
    unsigned how;

    *phase = ACQUIRING;
    accept_lock_acquire(lock, &how);
    *phase = HOLDING;
    *phase = RELEASING;
    accept_lock_release(lock);
    *phase = AFTER;
}

/* ---- Alone -------------------------------------------------------------- */

static int dies_alone(subject_t *s, int steps, step_e *end)
{
    pid_t pid;
    unsigned how;

    *phase = BEFORE;
    pid = fork_stepped(s->lock, go_through);
    *end = step_on(pid, steps);
    kill_and_reap(pid, SIGKILL);
    if (accept_lock_try(s->lock, &how) != APR_SUCCESS) {
        diag("%s: still locked", s->label);
        return 0;
    }
    accept_lock_release(s->lock);
    return is_told_right(how) && is_sound(s);
}

/* ---- With one asleep ---------------------------------------------------- */

static waiter_t *waiter;

/* Whether the waiter gets the lock in 100 ms; it has ended then. */
static int is_served(pid_t pid)
{
    const int64_t from = now_ms();
    const int is_in_time = await(waiter->got == 2) && now_ms() - from < 100;

    if (!is_in_time) {
        diag("served after %d ms", (int)(now_ms() - from));
        kill(pid, SIGKILL);
    }
    end_of(pid);
    return is_in_time;
}

static void hold_and_release(accept_lock_t *lock)
{
    *phase = RELEASING;
    accept_lock_release(lock);
    *phase = AFTER;
}

static void acquire_and_hand(accept_lock_t *lock)
{
    unsigned how;

    accept_lock_acquire(lock, &how);
    *phase = HOLDING;
    raise(SIGSTOP);
    hold_and_release(lock);
}

/* The holder is killed on its way out; one is asleep. */
static int dies_releasing(subject_t *s, int steps, step_e *end)
{
    int status;
    pid_t other;
    pid_t pid;

    *phase = BEFORE;
    pid = fork_stepped(s->lock, acquire_and_hand);
    ptrace(PTRACE_CONT, pid, NULL, NULL);
    waitpid(pid, &status, 0);
    other = fork_waiter(s->lock, waiter);
    *end = step_on(pid, steps);
    kill_and_reap(pid, SIGKILL);
    return is_served(other) && is_told_right(waiter->how) && is_sound(s);
}

/* ---- Woken, with another asleep ----------------------------------------- */

/* The first of two that are asleep is killed after it has been woken.  With
 * does_barge the lock is taken before it comes to, and released when it is
 * dead.
 */
static int dies_woken(subject_t *s, int steps, step_e *end, int does_barge)
{
    int has_barged = 0;
    unsigned how;
    pid_t other;
    pid_t pid;

    *phase = BEFORE;
    accept_lock_acquire(s->lock, &how);
    pid = fork_stepped(s->lock, go_through);
    while (step_on(pid, 1000) == STEP_STOPPED) {
        continue;
    }
    other = fork_waiter(s->lock, waiter);
    accept_lock_release(s->lock);
    if (does_barge) {
        has_barged = accept_lock_try(s->lock, &how) == APR_SUCCESS;
    }
    /* The step that has led into the wait ends when it is woken. */
    *end = step_wakes(pid);
    if (*end == STEP_STOPPED) {
        *end = step_on(pid, steps);
    }
    kill_and_reap(pid, SIGKILL);
    if (has_barged) {
        accept_lock_release(s->lock);
    }
    return is_served(other) && is_told_right(waiter->how) && is_sound(s);
}

static int dies_woken_alone(subject_t *s, int steps, step_e *end)
{
    return dies_woken(s, steps, end, 0);
}

static int dies_woken_barged(subject_t *s, int steps, step_e *end)
{
    return dies_woken(s, steps, end, 1);
}

/* ---- Everywhere --------------------------------------------------------- */

/* What stands in front in the scope of threads is private to the process, so
 * there it is enough to try some.
 */
static int stride_of(const subject_t *s)
{
    return s->scope == ACCEPT_LOCK_THREADS ? 7 : 1;
}

static void everywhere(subject_t *s, const char *what, int at_least,
                       int (*dies)(subject_t *, int, step_e *))
{
    const int stride = stride_of(s);
    step_e end = STEP_STOPPED;
    int wrong = 0;
    int steps;

    for (steps = 0; end == STEP_STOPPED && wrong < 3; steps += stride) {
        if (!dies(s, steps, &end)) {
            diag("%s, %s: not after %d", s->label, what, steps);
            wrong++;
        }
    }
    ok(wrong == 0 && steps >= at_least,
       "%s, %s: at one in %d of %d instructions", s->label, what, stride,
       steps);
}

static void set_up(void)
{
    phase = shared_memory(sizeof(*phase));
    waiter = shared_memory(sizeof(*waiter));
}

static void alone(subject_t *s)
{
    everywhere(s, "alone", 10, dies_alone);
}

static void releasing(subject_t *s)
{
    everywhere(s, "releasing", 10, dies_releasing);
}

static void woken(subject_t *s)
{
    everywhere(s, "woken", 10, dies_woken_alone);
}

static void barged(subject_t *s)
{
    if (strcmp(s->provider->name, "pthread") == 0) {
        /* its unlock forgets who is asleep until the one woken has come to */
        skip("libc's own mutex loses this wake-up");
        return;
    }
    /* fcntl sleeps on in the kernel, where no step can be made */
    everywhere(s, "woken, but another was faster", 1, dies_woken_barged);
}

static void with_all_stepped(void (*body)(subject_t *))
{
    if (!may_trace()) {
        skip("needs ptrace(), and no sanitizer");
        return;
    }
    set_up();
    with_all(body);
}

/* Nobody else is there. */
static void deaths_alone(void)
{
    with_all_stepped(alone);
}

/* One is asleep when the holder dies in release. */
static void deaths_releasing(void)
{
    with_all_stepped(releasing);
}

/* Two are asleep; the one that is woken dies before or when it has the lock.
 */
static void deaths_woken(void)
{
    with_all_stepped(woken);
}

/* The same, while a third has the lock, who was never asleep. */
static void deaths_barged(void)
{
    with_all_stepped(barged);
}

static const tap_test_t tests[] = {
    TAP_TEST(deaths_alone),
    TAP_TEST(deaths_releasing),
    TAP_TEST(deaths_woken),
    TAP_TEST(deaths_barged),
};

TAP_MAIN(tests)
