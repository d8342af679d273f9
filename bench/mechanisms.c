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

/* Locks of every mechanism, by those who make them:
 *
 *   ours  the backends of accept_lock/
 *   apr   those of apr_proc_mutex; between threads with the thread mutex that
 *         APR itself puts before the ones that keep processes apart only
 *   libc  mutexes of the POSIX types; all are shared by processes but for
 *         "private", which is the normal one of a process's own
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apr_file_io.h"
#include "apr_general.h"
#include "apr_global_mutex.h"
#include "apr_proc_mutex.h"
#include "apr_strings.h"

#include "accept_lock/accept_lock.h"
#include "bench/contest.h"

static void check(const char *what, int rv)
{
    if (rv != 0) {
        contest_die(what, rv);
    }
}

static apr_pool_t *root;

static void make_root(void)
{
    check("APR", apr_initialize());
    atexit(apr_terminate);
    check("memory", apr_pool_create(&root, NULL));
}

/* ---- Ours --------------------------------------------------------------- */

static void ours_child_init(void *self, apr_pool_t *child)
{
    (void)child;
    check("child_init", accept_lock_child_init(self));
}

static void ours_acquire(void *self)
{
    unsigned how;

    check("acquire", accept_lock_acquire(self, &how));
}

static void ours_release(void *self)
{
    check("release", accept_lock_release(self));
}

static int ours_choose(const char *mechanism)
{
    const accept_lock_provider_t *provider = accept_lock_find(mechanism);
    accept_lock_t *lock;
    const char *error;

    if (!provider) {
        return 0;
    }
    if (accept_lock_create(&lock, &error, provider,
                           contest.kind == THREADS ? ACCEPT_LOCK_THREADS
                                                   : ACCEPT_LOCK_PROCESSES,
                           NULL, root)
        != APR_SUCCESS) {
        fprintf(stderr, "%s\n", error);
        exit(EXIT_FAILURE);
    }
    contest.lock = (contest_lock_t){ lock, ours_child_init, ours_acquire,
                                     ours_release };
    return 1;
}

/* ---- APR's -------------------------------------------------------------- */

static const struct {
    const char *name;
    apr_lockmech_e mechanism;
} apr_mechanisms[] = {
    { "proc_pthread", APR_LOCK_PROC_PTHREAD }, /* the default */
    { "sysvsem", APR_LOCK_SYSVSEM },
    { "posixsem", APR_LOCK_POSIXSEM },
    { "fcntl", APR_LOCK_FCNTL },
    { "flock", APR_LOCK_FLOCK },
};

#define APR_MECHANISMS (sizeof(apr_mechanisms) / sizeof(apr_mechanisms[0]))

/* flock's file is opened in each child anew. */
static char *lock_file;

static void remove_lock_file(void)
{
    unlink(lock_file);
}

static void name_lock_file(void)
{
    const char *folder;

    check("temporary files", apr_temp_dir_get(&folder, root));
    lock_file = apr_psprintf(root, "%s/sigdefer-bench.%d", folder,
                             (int)getpid());
    atexit(remove_lock_file);
}

static void proc_child_init(void *self, apr_pool_t *child)
{
    check("child_init", apr_proc_mutex_child_init(self, lock_file, child));
}

static void proc_acquire(void *self)
{
    check("acquire", apr_proc_mutex_lock(*(apr_proc_mutex_t **)self));
}

static void proc_release(void *self)
{
    check("release", apr_proc_mutex_unlock(*(apr_proc_mutex_t **)self));
}

static void global_acquire(void *self)
{
    check("acquire", apr_global_mutex_lock(self));
}

static void global_release(void *self)
{
    check("release", apr_global_mutex_unlock(self));
}

static void apr_create(apr_lockmech_e mechanism)
{
    static apr_proc_mutex_t *proc;
    apr_global_mutex_t *global;

    name_lock_file();
    if (contest.kind == THREADS) {
        check("create",
              apr_global_mutex_create(&global, lock_file, mechanism, root));
        contest.lock = (contest_lock_t){ global, NULL, global_acquire,
                                         global_release };
    }
    else {
        check("create",
              apr_proc_mutex_create(&proc, lock_file, mechanism, root));
        contest.lock = (contest_lock_t){ &proc, proc_child_init, proc_acquire,
                                         proc_release };
    }
}

static int apr_choose(const char *mechanism)
{
    size_t i;

    for (i = 0; i < APR_MECHANISMS; i++) {
        if (strcmp(mechanism, apr_mechanisms[i].name) == 0) {
            apr_create(apr_mechanisms[i].mechanism);
            return 1;
        }
    }
    return 0;
}

/* ---- libc's ------------------------------------------------------------- */

static const struct {
    const char *name;
    int type;
    int robust;
    int shared;
} libc_mechanisms[] = {
    { "robust", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST,
      PTHREAD_PROCESS_SHARED },
    { "normal", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED,
      PTHREAD_PROCESS_SHARED },
    { "adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_STALLED,
      PTHREAD_PROCESS_SHARED },
    { "private", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED,
      PTHREAD_PROCESS_PRIVATE },
};

#define LIBC_MECHANISMS (sizeof(libc_mechanisms) / sizeof(libc_mechanisms[0]))

static int libc_can(size_t i, kind_e kind)
{
    return kind == THREADS
           || libc_mechanisms[i].shared == PTHREAD_PROCESS_SHARED;
}

static void libc_child_init(void *self, apr_pool_t *child)
{
    (void)self;
    (void)child;
}

static void libc_acquire(void *self)
{
    check("acquire", pthread_mutex_lock(self));
}

static void libc_release(void *self)
{
    check("release", pthread_mutex_unlock(self));
}

typedef struct {
    pthread_mutex_t mutex;
} shared_mutex_t;

static void libc_create(size_t i)
{
    shared_mutex_t *shared = contest_memory(sizeof(shared_mutex_t));
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, libc_mechanisms[i].type);
    pthread_mutexattr_setrobust(&attributes, libc_mechanisms[i].robust);
    pthread_mutexattr_setpshared(&attributes, libc_mechanisms[i].shared);
    check("create", pthread_mutex_init(&shared->mutex, &attributes));
    contest.lock = (contest_lock_t){ &shared->mutex, libc_child_init,
                                     libc_acquire, libc_release };
}

static int libc_choose(const char *mechanism)
{
    size_t i;

    for (i = 0; i < LIBC_MECHANISMS; i++) {
        if (strcmp(mechanism, libc_mechanisms[i].name) == 0
            && libc_can(i, contest.kind)) {
            libc_create(i);
            return 1;
        }
    }
    return 0;
}

/* ---- All ---------------------------------------------------------------- */

static const char *const kinds[] = { "processes", "threads" };

static void list_kind(kind_e kind)
{
    const accept_lock_provider_t *provider;
    int i;
    size_t j;

    for (i = 0; (provider = accept_lock_builtin(i)) != NULL; i++) {
        printf("%s ours %s\n", kinds[kind], provider->name);
    }
    for (j = 0; j < APR_MECHANISMS; j++) {
        printf("%s apr %s\n", kinds[kind], apr_mechanisms[j].name);
    }
    for (j = 0; j < LIBC_MECHANISMS; j++) {
        if (libc_can(j, kind)) {
            printf("%s libc %s\n", kinds[kind], libc_mechanisms[j].name);
        }
    }
}

void contest_list(void)
{
    list_kind(PROCESSES);
    list_kind(THREADS);
}

int contest_choose(const char *kind, const char *by, const char *mechanism)
{
    contest.kind = strcmp(kind, kinds[THREADS]) == 0 ? THREADS : PROCESSES;
    if (strcmp(kind, kinds[contest.kind]) != 0) {
        return 0;
    }
    make_root();
    if (strcmp(by, "ours") == 0) {
        return ours_choose(mechanism);
    }
    if (strcmp(by, "apr") == 0) {
        return apr_choose(mechanism);
    }
    return strcmp(by, "libc") == 0 && libc_choose(mechanism);
}
