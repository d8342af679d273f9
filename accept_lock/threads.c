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

/* Which thread of this process may contend for the lock with other processes:
 * at most one, so that a process with many threads has no larger share, and
 * that the backend sees one thread at a time.
 *
 * One thread is inside.  The others sleep on a stack, each on a condition of
 * its own; whoever leaves wakes the one on top, which came last.  A thread
 * that comes along may go in before it, and then it lies down again, on top.
 * Only one is woken at a time: is_waking is set when it is taken off the
 * stack, and it clears it itself when it runs, under the guard, before it
 * looks whether somebody is inside.  So it either goes in, or whoever is
 * inside finds it on the stack when he leaves.
 *
 * Nothing of this outlives the process: a thread cannot die alone.
 */

#include <pthread.h>

#include "accept_lock/threads.h"

typedef struct waiter_t waiter_t;

/* On the stack of the thread that waits. */
struct waiter_t {
    waiter_t *below;
    pthread_cond_t wake;
    int is_woken;
};

struct threads_t {
    pthread_mutex_t guard; /* held for a few instructions; guards the rest */
    waiter_t *top;
    int is_inside;
    int is_waking; /* one has been woken and does not run yet */
    int is_stopped;
};

apr_status_t accept_lock_threads_create(threads_t **threads, apr_pool_t *pool)
{
    *threads = apr_pcalloc(pool, sizeof(**threads));
    return pthread_mutex_init(&(*threads)->guard, NULL);
}

void accept_lock_threads_child_init(threads_t *threads)
{
    /* The parent's threads may have held the guard when it forked. */
    pthread_mutex_init(&threads->guard, NULL);
    threads->top = NULL;
    threads->is_inside = 0;
    threads->is_waking = 0;
    threads->is_stopped = 0;
}

/* Take one off the stack and wake it; the guard is held. */
static void wake_top(threads_t *threads)
{
    waiter_t *waiter = threads->top;

    threads->top = waiter->below;
    waiter->is_woken = 1;
    pthread_cond_signal(&waiter->wake);
}

/* The guard is held, but not while it sleeps. */
static void sleep_on_top(threads_t *threads)
{
    waiter_t self = { .below = threads->top, .is_woken = 0 };

    pthread_cond_init(&self.wake, NULL);
    /* cppcheck-suppress autoVariables; off the stack before it returns */
    threads->top = &self;
    while (!self.is_woken) {
        pthread_cond_wait(&self.wake, &threads->guard);
    }
    threads->is_waking = 0;
    pthread_cond_destroy(&self.wake);
}

apr_status_t accept_lock_threads_enter(threads_t *threads, int may_wait,
                                       unsigned *how)
{
    apr_status_t rv = APR_SUCCESS;

    pthread_mutex_lock(&threads->guard);
    while (threads->is_inside && may_wait && !threads->is_stopped) {
        *how |= ACCEPT_LOCK_WAITED;
        sleep_on_top(threads);
    }
    if (threads->is_stopped) {
        rv = EINTR;
    }
    else if (threads->is_inside) {
        rv = APR_EBUSY;
    }
    else {
        threads->is_inside = 1;
    }
    pthread_mutex_unlock(&threads->guard);
    return rv;
}

void accept_lock_threads_leave(threads_t *threads)
{
    pthread_mutex_lock(&threads->guard);
    threads->is_inside = 0;
    if (threads->top && !threads->is_waking) {
        threads->is_waking = 1;
        wake_top(threads);
    }
    pthread_mutex_unlock(&threads->guard);
}

void accept_lock_threads_stop(threads_t *threads)
{
    pthread_mutex_lock(&threads->guard);
    threads->is_stopped = 1;
    while (threads->top) {
        wake_top(threads);
    }
    pthread_mutex_unlock(&threads->guard);
}
