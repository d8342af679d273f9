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
 * @file bench/contest.h
 * @brief What the benches of locks share: a lock of any mechanism, and threads
 *        or processes that contend for it.
 */

#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include <stdint.h>
#include <stdlib.h>

#include "apr_pools.h"

/** What contends. */
typedef enum {
    PROCESSES,
    THREADS
} kind_e;

/** A lock of some mechanism; whatever fails ends the program. */
typedef struct {
    void *self;
    void (*child_init)(void *self, apr_pool_t *pool);
    void (*acquire)(void *self);
    void (*release)(void *self);
} contest_lock_t;

/** Who contends for what; set once, before there are contenders. */
typedef struct {
    contest_lock_t lock;
    kind_e kind;
    int contenders;
    /** They begin together, when the last one has been started. */
    int has_barrier;
    /** What each does; index counts from 0. */
    void (*body)(int index);
} contest_t;

extern contest_t contest;

/** Print a line "KIND BY MECHANISM" for each lock that there is. */
void contest_list(void);

/**
 * Fill in contest.lock and contest.kind.
 * @param kind threads or processes
 * @param by ours, apr or libc
 * @param mechanism the lock's name there
 * @return whether there is such a lock
 */
int contest_choose(const char *kind, const char *by, const char *mechanism);

/** Start the contenders and wait until all are done. */
void contest_run(void);

/** When they began, by contest_now(); 0: not yet. */
int64_t contest_began(void);

/** Zeroed memory that the contenders share. */
void *contest_memory(size_t size);

/** Nanoseconds. */
int64_t contest_now(void);

/** Print what is wrong and exit. */
void contest_die(const char *what, int error) __attribute__((noreturn));

#endif /* BENCH_CONTEST_H */
