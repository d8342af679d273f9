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

/* A complete module that uses mod_sigdefer where it is loaded, and runs without
 * it elsewhere.  docs/authors.md goes through it.
 *
 *     apxs -i -a -c mod_example.c
 *
 *     <Location "/example">
 *         SetHandler example
 *     </Location>
 *
 * /example?home counts a visit to "home" in memory that all children share,
 * and /example shows what has been counted.  /example?home&2000 stops for two
 * seconds in the middle of the update, so that one can send signals meanwhile.
 * SIGUSR2 has a child check what it has counted itself.
 */

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apr_global_mutex.h"
#include "apr_shm.h"
#include "apr_strings.h"
#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_log.h"
#include "http_protocol.h"
#include "util_mutex.h"

#define SIGDEFER_SOFT
#include "mod_sigdefer.h"

#define MUTEX_TYPE "example"

static const char *const names[] = { "home", "news", "about" };
#define NAMES ((int)(sizeof(names) / sizeof(names[0])))

/* The sum is that of all visits, except in the middle of an update. */
typedef struct {
    unsigned visits[NAMES];
    unsigned sum;
} counts_t;

/* In shared memory. */
typedef struct {
    counts_t counts;   /* written by who has the mutex, inside a section */
    atomic_uint whole; /* by the handler: checks that were right */
    atomic_uint torn;  /* by the handler: checks that were not */
} shared_t;

static shared_t *shared;
static apr_global_mutex_t *mutex;

/* What this child has counted.  Written as the shared counts are; read by the
 * handler, which finds it whole, since it runs outside of sections only.
 */
static counts_t own;

/* ---- The signal --------------------------------------------------------- */

/* Only what is AS-safe, as in every handler: no lock, no memory, no log. */
static void on_check(int signo)
{
    unsigned sum = 0;
    int i;

    (void)signo;
    for (i = 0; i < NAMES; i++) {
        sum += own.visits[i];
    }
    atomic_fetch_add(sum == own.sum ? &shared->whole : &shared->torn, 1);
}

static void child_init(apr_pool_t *pchild, server_rec *s)
{
    struct sigaction act;
    apr_status_t rv;

    rv = apr_global_mutex_child_init(&mutex, apr_global_mutex_lockfile(mutex),
                                     pchild);
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, s, "example: mutex");
    }
    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_handler = on_check;
    act.sa_flags = SA_RESTART;
    rv = sigdefer_sigaction(SIGUSR2, &act, NULL);
    if (rv != 0) {
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, s, "example: SIGUSR2");
    }
}

/* ---- The update --------------------------------------------------------- */

/* Stands for a library that reports an error by a jump, as interpreters do. */
static int find(const char *name, sigjmp_buf failed)
{
    int i;

    for (i = 0; i < NAMES; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    siglongjmp(failed, 1);
}

/* A signal ends a sleep inside a section, too; only its handler waits. */
static void pause_ms(int ms)
{
    apr_time_t until = apr_time_now() + apr_time_from_msec(ms);

    while (apr_time_now() < until) {
        apr_sleep(apr_time_from_msec(1));
    }
}

/* The lock is waited for outside of the section, or every signal would wait
 * for it as well.  It is given up inside, so that what has waited for the end
 * of the section does not run with the lock held.
 */
static int count_visit(const char *name, int ms)
{
    sigdefer_mark_t mark = sigdefer_mark();
    sigjmp_buf failed;
    int i;

    if (apr_global_mutex_lock(mutex) != APR_SUCCESS) {
        return HTTP_INTERNAL_SERVER_ERROR;
    }
    if (sigsetjmp(failed, 1) != 0) {
        apr_global_mutex_unlock(mutex);
        sigdefer_restore(mark); /* out of the section again */
        return HTTP_NOT_FOUND;
    }
    SIGDEFER_ENTER();
    i = find(name, failed);
    own.visits[i]++;
    shared->counts.visits[i]++;
    pause_ms(ms);
    own.sum++;
    shared->counts.sum++;
    apr_global_mutex_unlock(mutex);
    SIGDEFER_LEAVE();
    return OK;
}

/* ---- The page ----------------------------------------------------------- */

static void show(request_rec *r)
{
    static const char *const states[] = { "absent", "off", "on" };
    int i;

    ap_set_content_type(r, "text/plain");
    ap_rprintf(r, "sections: %s\n", states[sigdefer_state()]);
    ap_rprintf(r, "depth: %d\n", sigdefer_depth());
    for (i = 0; i < NAMES; i++) {
        ap_rprintf(r, "%s: %u\n", names[i], shared->counts.visits[i]);
    }
    ap_rprintf(r, "sum: %u\n", shared->counts.sum);
    ap_rprintf(r, "whole: %u\n", atomic_load(&shared->whole));
    ap_rprintf(r, "torn: %u\n", atomic_load(&shared->torn));
}

static int handler(request_rec *r)
{
    const char *name;
    const char *ms;
    char *last;
    int rv;

    if (!r->handler || strcmp(r->handler, "example") != 0) {
        return DECLINED;
    }
    if (r->method_number != M_GET) {
        return HTTP_METHOD_NOT_ALLOWED;
    }
    if (r->args) {
        name = apr_strtok(apr_pstrdup(r->pool, r->args), "&", &last);
        ms = name ? apr_strtok(NULL, "&", &last) : NULL;
        rv = count_visit(name ? name : "", ms ? atoi(ms) : 0);
        if (rv != OK) {
            return rv;
        }
    }
    show(r);
    return OK;
}

/* ---- The module --------------------------------------------------------- */

static int pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    ap_mutex_register(pconf, MUTEX_TYPE, NULL, APR_LOCK_DEFAULT, 0);
    return OK;
}

static int post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp,
                       server_rec *s)
{
    apr_shm_t *shm;
    apr_status_t rv;

    if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG) {
        return OK; /* the first pass is for trying only */
    }
    rv = ap_global_mutex_create(&mutex, NULL, MUTEX_TYPE, NULL, s, pconf, 0);
    if (rv == APR_SUCCESS) {
        rv = apr_shm_create(&shm, sizeof(*shared), NULL, pconf);
    }
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_EMERG, rv, s, "example: no memory");
        return HTTP_INTERNAL_SERVER_ERROR;
    }
    shared = apr_shm_baseaddr_get(shm);
    memset(shared, 0, sizeof(*shared));
    return OK;
}

/* Every module has registered its optional functions by now. */
static void retrieve(void)
{
    sigdefer_attach();
}

static void register_hooks(apr_pool_t *p)
{
    ap_hook_optional_fn_retrieve(retrieve, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_pre_config(pre_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_post_config(post_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_child_init(child_init, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_handler(handler, NULL, NULL, APR_HOOK_MIDDLE);
}

AP_DECLARE_MODULE(example) = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, register_hooks
};
