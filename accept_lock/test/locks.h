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
 * @file accept_lock/test/locks.h
 * @brief What the tests of the accept locks share: one body over all backends
 *        and scopes, processes that wait, processes that are stepped.
 */

#ifndef ACCEPT_LOCK_TEST_LOCKS_H
#define ACCEPT_LOCK_TEST_LOCKS_H

#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/time.h>

#include "apr_general.h"

#include "accept_lock/accept_lock.h"
#include "sigdefer/test/tap.h"

/** What a test runs with: a lock of each backend in each scope. */
typedef struct {
    accept_lock_t *lock;
    const accept_lock_provider_t *provider;
    accept_lock_scope_e scope;
    char label[64]; /* for the texts of test points */
} subject_t;

static apr_pool_t *test_pool(void)
{
    static apr_pool_t *pool;

    if (!pool) {
        apr_initialize();
        apr_pool_create(&pool, NULL);
    }
    return pool;
}

/** Run the body with a lock that is made for it and destroyed afterwards. */
static inline void with_lock(const accept_lock_provider_t *provider,
                             accept_lock_scope_e scope,
                             void (*body)(subject_t *))
{
    subject_t subject = { .provider = provider, .scope = scope };
    const char *error;
    apr_status_t rv;

    snprintf(subject.label, sizeof(subject.label), "%s, %s", provider->name,
             scope == ACCEPT_LOCK_THREADS ? "threads" : "processes");
    rv = accept_lock_create(&subject.lock, &error, provider, scope, NULL,
                            test_pool());
    if (rv == APR_ENOTIMPL) {
        diag("%s: %s", subject.label, error);
        skip("not on this platform");
        return;
    }
    if (!ok(rv == APR_SUCCESS, "%s: created", subject.label)) {
        diag("%s", error);
        return;
    }
    body(&subject);
    is(accept_lock_destroy(subject.lock), APR_SUCCESS, "%s: destroyed",
       subject.label);
}

/** Run the body with each backend in each scope. */
static inline void with_all(void (*body)(subject_t *))
{
    const accept_lock_provider_t *provider;
    int i;

    for (i = 0; (provider = accept_lock_builtin(i)) != NULL; i++) {
        with_lock(provider, ACCEPT_LOCK_PROCESSES, body);
        with_lock(provider, ACCEPT_LOCK_THREADS, body);
    }
}

static inline int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/** Fork a child that can use the lock; 0 in it. */
static inline pid_t fork_user(accept_lock_t *lock)
{
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid < 0) {
        printf("Bail out! fork: %s\n", strerror(errno));
        exit(1);
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (accept_lock_child_init(lock) != APR_SUCCESS) {
            _exit(99);
        }
    }
    return pid;
}

static inline int end_of(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    return status;
}

static inline void kill_and_reap(pid_t pid, int signo)
{
    kill(pid, signo);
    end_of(pid);
}

/** The state of a process as the kernel has it: 'S' asleep, 't' traced, ... */
static inline char state_of(pid_t pid)
{
    char path[64];
    char line[512] = "";
    const char *end;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file) {
        if (!fgets(line, sizeof(line), file)) {
            line[0] = '\0';
        }
        fclose(file);
    }
    end = strrchr(line, ')');
    return end && end[1] ? end[2] : '\0';
}

/* ---- Waiters ------------------------------------------------------------ */

/** What a process that waits for the lock has to tell; in shared memory. */
typedef struct {
    volatile int is_waiting;
    volatile int got;      /* 1: has had the lock, 2: and released it */
    volatile int status;   /* of acquire */
    volatile unsigned how; /* of acquire */
} waiter_t;

/** A child that waits for the lock, has it and ends; asleep on return. */
static inline pid_t fork_waiter(accept_lock_t *lock, waiter_t *waiter)
{
    pid_t pid;

    memset(waiter, 0, sizeof(*waiter));
    pid = fork_user(lock);
    if (pid == 0) {
        unsigned how;

        waiter->is_waiting = 1;
        waiter->status = accept_lock_acquire(lock, &how);
        waiter->how = how;
        waiter->got = 1;
        accept_lock_release(lock);
        waiter->got = 2;
        _exit(0);
    }
    await(waiter->is_waiting && state_of(pid) == 'S');
    return pid;
}

/* ---- Single steps ------------------------------------------------------- */

typedef enum {
    STEP_STOPPED, /* between two instructions */
    STEP_ASLEEP,  /* in a system call */
    STEP_ENDED    /* it has stopped itself, or ended */
} step_e;

static inline int may_trace(void)
{
    pid_t pid;
    int status;

#ifdef __SANITIZE_ADDRESS__
    return 0; /* too many instructions to step over */
#endif
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    }
    status = end_of(pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static inline void tick(int signo)
{
    (void)signo;
}

/** Have waits interrupted every so often, or no more. */
static inline void ticks(int microseconds)
{
    const struct itimerval interval = { { 0, microseconds },
                                        { 0, microseconds } };
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = tick;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &interval, NULL);
}

/** Wait for the tracee to stop after a step, to fall asleep or to end. */
static inline step_e step_ends(pid_t pid)
{
    step_e end = STEP_ENDED;
    int status;

    ticks(5000);
    for (;;) {
        if (waitpid(pid, &status, 0) == pid) {
            if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP) {
                end = STEP_STOPPED;
            }
            break;
        }
        if (state_of(pid) == 'S') {
            end = STEP_ASLEEP;
            break;
        }
    }
    ticks(0);
    return end;
}

/** Wait for a tracee that is asleep to stop or end; it may stay asleep. */
static inline step_e step_wakes(pid_t pid)
{
    const int64_t deadline = now_ms() + 1000;
    step_e end;

    do {
        end = step_ends(pid);
    } while (end == STEP_ASLEEP && now_ms() < deadline);
    return end;
}

/** Let a tracee that is stopped do so many instructions, or fall asleep. */
static inline step_e step_on(pid_t pid, int steps)
{
    step_e end = STEP_STOPPED;

    while (end == STEP_STOPPED && steps-- > 0) {
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0) {
            return STEP_ENDED;
        }
        end = step_ends(pid);
    }
    return end;
}

/** A child that is traced, and has stopped itself before the body. */
static inline pid_t fork_stepped(accept_lock_t *lock,
                                 void (*body)(accept_lock_t *))
{
    int status;
    pid_t pid = fork_user(lock);

    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        body(lock);
        raise(SIGSTOP);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return pid;
}

#endif /* ACCEPT_LOCK_TEST_LOCKS_H */
