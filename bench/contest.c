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

/* Threads or processes that contend for a lock.  They are created by
 * mechanisms.c.
 *
 * INT and TERM wait until the lock has been removed: semaphores of System V
 * outlive the program.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/contest.h"

/* Shared by the contenders. */
typedef struct {
    pthread_barrier_t barrier;
    int64_t began;
} start_t;

contest_t contest;

static start_t *start;

int64_t contest_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void contest_die(const char *what, int error)
{
    fprintf(stderr, "%s: %s\n", what, strerror(error));
    exit(EXIT_FAILURE);
}

void *contest_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        contest_die("shared memory", errno);
    }
    return memory;
}

int64_t contest_began(void)
{
    return start ? start->began : 0;
}

/* ---- Contenders --------------------------------------------------------- */

static void contend(int index)
{
    int rv;

    if (contest.has_barrier) {
        rv = pthread_barrier_wait(&start->barrier);
        if (rv == PTHREAD_BARRIER_SERIAL_THREAD) {
            start->began = contest_now();
        }
    }
    contest.body(index);
}

typedef struct {
    pthread_t id;
    int index;
} thread_t;

static void *run_thread(void *thread)
{
    contend(((thread_t *)thread)->index);
    return NULL;
}

static void *list_of_contenders(size_t size)
{
    void *list = calloc((size_t)contest.contenders, size);

    if (!list) {
        contest_die("list of contenders", ENOMEM);
    }
    return list;
}

static void run_threads(void)
{
    thread_t *threads = list_of_contenders(sizeof(thread_t));
    int i, rv;

    for (i = 0; i < contest.contenders; i++) {
        threads[i].index = i;
        rv = pthread_create(&threads[i].id, NULL, run_thread, &threads[i]);
        if (rv != 0) {
            contest_die("thread", rv);
        }
    }
    for (i = 0; i < contest.contenders; i++) {
        pthread_join(threads[i].id, NULL);
    }
    free(threads);
}

static __attribute__((noreturn)) void run_process(int index)
{
    apr_pool_t *pool;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (apr_pool_create(&pool, NULL) != APR_SUCCESS) {
        contest_die("memory", ENOMEM);
    }
    contest.lock.child_init(contest.lock.self, pool);
    contend(index);
    _exit(EXIT_SUCCESS);
}

static void kill_all(const pid_t *processes)
{
    int i;

    for (i = 0; i < contest.contenders; i++) {
        if (processes[i] > 0) {
            kill(processes[i], SIGKILL);
        }
    }
}

/* If one fails, the others might wait for it for ever. */
static void run_processes(void)
{
    pid_t *processes = list_of_contenders(sizeof(pid_t));
    int i, status, has_failed = 0;

    for (i = 0; i < contest.contenders && !has_failed; i++) {
        processes[i] = fork();
        if (processes[i] == 0) {
            run_process(i);
        }
        has_failed = processes[i] < 0;
    }
    while (!has_failed) {
        if (wait(&status) < 0) {
            if (errno == EINTR) {
                continue;
            }
            break;
        }
        has_failed = status != 0;
    }
    if (has_failed) {
        kill_all(processes);
        fprintf(stderr, "a contender has failed\n");
        exit(EXIT_FAILURE);
    }
    free(processes);
}

void contest_run(void)
{
    pthread_barrierattr_t attributes;
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);

    start = contest_memory(sizeof(*start));
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&start->barrier, &attributes,
                         (unsigned)contest.contenders);
    if (!contest.has_barrier) {
        start->began = contest_now();
    }
    if (contest.kind == THREADS) {
        run_threads();
    }
    else {
        run_processes();
    }
}
