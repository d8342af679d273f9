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

/* What the lines say of themselves is checked when they are read.  What
 * depends on others, the root of relative paths for one, waits for
 * check_config.
 *
 * An explicit choice by Mutex is found in the tree of directives, since httpd
 * tells nobody what its Mutex lines have set.
 */

#include "apr_lib.h"
#include "apr_strings.h"
#include "ap_mpm.h"
#include "http_core.h"
#include "http_log.h"
#include "mpm_common.h"
#include "util_cfgtree.h"

#include "accept_lock/provider.h"
#include "mpm/choice.h"
#include "mpm/exclusive.h"

APLOG_USE_MODULE(sigdefer);

/* What "auto" asks of a lock: the death of its holder stops nobody, and a
 * child that waits for it can be told to go.
 */
#define AUTO_NEEDS (ACCEPT_LOCK_ROBUST | ACCEPT_LOCK_INTERRUPTIBLE)

/* For one MPM. */
typedef struct {
    const char *name;           /* of the mechanism */
    const char *path;           /* NULL: none is given */
    const char *mpm;            /* NULL: all that are not named elsewhere */
    const ap_directive_t *line; /* where it stands */
} wanted_t;

/* Of wanted_t; those of this pass. */
static apr_array_header_t *all_wanted;

/* What it can have: a lock around accept, or children that wait exclusively. */
typedef enum {
    MPM_NOTHING,
    MPM_LOCK,
    MPM_EXCLUSIVE
} means_e;

static const struct {
    const char *name;
    means_e means;
} mpms[] = {
    { "prefork", MPM_LOCK },
    { "worker", MPM_LOCK },
    { "event", MPM_EXCLUSIVE },
    { "threaded", MPM_LOCK },
};

#define MPMS (sizeof(mpms) / sizeof(mpms[0]))

static means_e means_of(const char *mpm)
{
    apr_size_t i;

    for (i = 0; i < MPMS; i++) {
        if (strcmp(mpms[i].name, mpm) == 0) {
            return mpms[i].means;
        }
    }
    return MPM_NOTHING;
}

static const char *mpm_name(const char *text)
{
    apr_size_t i;

    for (i = 0; i < MPMS; i++) {
        if (ap_cstr_casecmp(mpms[i].name, text) == 0) {
            return mpms[i].name;
        }
    }
    return ap_cstr_casecmp(ap_show_mpm(), text) == 0 ? ap_show_mpm() : NULL;
}

/* ---- The directive ------------------------------------------------------ */

static const char *legal(apr_pool_t *p)
{
    return apr_pstrcat(p, "legal are default, auto, ",
                       accept_lock_provider_names(p), ", exclusive", NULL);
}

static const char *legal_for(apr_pool_t *p, const char *mpm)
{
    means_e means = means_of(mpm);

    return apr_pstrcat(p, "legal are default, auto",
                       means == MPM_LOCK ? ", " : "",
                       means == MPM_LOCK ? accept_lock_provider_names(p) : "",
                       means == MPM_EXCLUSIVE ? ", exclusive" : "", NULL);
}

static int is_exclusive(const wanted_t *wanted)
{
    return strcmp(wanted->name, "exclusive") == 0;
}

/* Needs no provider. */
static int is_word(const wanted_t *wanted)
{
    return strcmp(wanted->name, "default") == 0
           || strcmp(wanted->name, "auto") == 0 || is_exclusive(wanted);
}

static const char *check_mechanism(cmd_parms *cmd, const char *text,
                                   const wanted_t *wanted)
{
    const accept_lock_provider_t *provider;

    provider = is_word(wanted) ? NULL : accept_lock_provider_find(wanted->name);
    if (!provider && !is_word(wanted)) {
        return apr_psprintf(cmd->pool, "%s: '%s' is not known; %s",
                            cmd->cmd->name, text, legal(cmd->pool));
    }
    if (!wanted->path) {
        return NULL;
    }
    if (!provider || !(provider->capabilities & ACCEPT_LOCK_NEEDS_FILE)) {
        return apr_psprintf(cmd->pool, "%s: '%s': %s takes no path; %s",
                            cmd->cmd->name, text, wanted->name,
                            legal(cmd->pool));
    }
    if (!*wanted->path) {
        return apr_psprintf(cmd->pool, "%s: '%s': the path is missing; %s",
                            cmd->cmd->name, text, legal(cmd->pool));
    }
    return NULL;
}

static const char *check_mpm(cmd_parms *cmd, const char *text,
                             const wanted_t *wanted)
{
    if (!wanted->mpm) {
        return apr_psprintf(cmd->pool,
                            "%s: MPM '%s' is not known; legal are prefork, "
                            "worker, event, threaded",
                            cmd->cmd->name, text);
    }
    if (is_exclusive(wanted) && means_of(wanted->mpm) != MPM_EXCLUSIVE) {
        return apr_psprintf(cmd->pool, "%s: MPM %s cannot be exclusive; %s",
                            cmd->cmd->name, wanted->mpm,
                            legal_for(cmd->pool, wanted->mpm));
    }
    if (!is_word(wanted) && means_of(wanted->mpm) != MPM_LOCK) {
        return apr_psprintf(cmd->pool,
                            "%s: MPM %s takes no accept lock, so it cannot be "
                            "%s; %s",
                            cmd->cmd->name, wanted->mpm, wanted->name,
                            legal_for(cmd->pool, wanted->mpm));
    }
    return NULL;
}

static int is_same(const char *one, const char *other)
{
    return one && other ? strcmp(one, other) == 0 : one == other;
}

static const char *check_others(cmd_parms *cmd, const wanted_t *wanted)
{
    const wanted_t *other = (const wanted_t *)all_wanted->elts;
    int i;

    for (i = 0; i < all_wanted->nelts; i++, other++) {
        if (!is_same(wanted->mpm, other->mpm)
            || (strcmp(wanted->name, other->name) == 0
                && is_same(wanted->path, other->path))) {
            continue;
        }
        return apr_psprintf(cmd->pool,
                            "%s: %s for %s contradicts \"%s %s\" on line %d of "
                            "%s; legal is one mechanism for an MPM",
                            cmd->cmd->name, wanted->name,
                            wanted->mpm ? wanted->mpm : "all MPMs",
                            other->line->directive, other->line->args,
                            other->line->line_num, other->line->filename);
    }
    return NULL;
}

static const char *add(cmd_parms *cmd, const wanted_t *wanted)
{
    const char *error = check_others(cmd, wanted);

    if (!error) {
        *(wanted_t *)apr_array_push(all_wanted) = *wanted;
    }
    return error;
}

const char *choice_add(cmd_parms *cmd, void *dummy, int argc,
                       char *const argv[])
{
    const char *error = ap_check_cmd_context(cmd, GLOBAL_ONLY);
    wanted_t wanted = { .line = cmd->directive };
    const char *path;
    char *name;
    int i;

    (void)dummy;
    if (error) {
        return error;
    }
    if (argc == 0) {
        return apr_psprintf(cmd->pool, "%s: no mechanism is given; %s",
                            cmd->cmd->name, legal(cmd->pool));
    }
    path = strchr(argv[0], ':');
    name = path ? apr_pstrmemdup(cmd->pool, argv[0], path - argv[0])
                : apr_pstrdup(cmd->pool, argv[0]);
    ap_str_tolower(name);
    wanted.name = name;
    wanted.path = path ? apr_pstrdup(cmd->pool, path + 1) : NULL;
    error = check_mechanism(cmd, argv[0], &wanted);
    if (!error && argc == 1) {
        error = add(cmd, &wanted);
    }
    for (i = 1; !error && i < argc; i++) {
        wanted.mpm = mpm_name(argv[i]);
        error = check_mpm(cmd, argv[i], &wanted);
        if (!error) {
            error = add(cmd, &wanted);
        }
    }
    return error;
}

void choice_reset(apr_pool_t *pconf)
{
    all_wanted = apr_array_make(pconf, 2, sizeof(wanted_t));
}

/* ---- The choice --------------------------------------------------------- */

/* A line that names the MPM goes before one that names none. */
static const wanted_t *wanted_by(const char *mpm)
{
    const wanted_t *line = (const wanted_t *)all_wanted->elts;
    const wanted_t *found = NULL;
    int i;

    for (i = 0; i < all_wanted->nelts; i++, line++) {
        if (line->mpm && strcmp(line->mpm, mpm) == 0) {
            return line;
        }
        if (!line->mpm) {
            found = line;
        }
    }
    return found;
}

/* The last one counts, as for httpd; "default" is no choice. */
static void look_at_mutex(apr_pool_t *p, const ap_directive_t *line,
                          const char **mechanism)
{
    const char *rest = line->args;
    const char *word = ap_getword_conf(p, &rest);

    while (*rest) {
        const char *type = ap_getword_conf(p, &rest);

        if (ap_cstr_casecmp(type, AP_ACCEPT_MUTEX_TYPE) == 0) {
            *mechanism = ap_cstr_casecmp(word, "default") == 0
                                 || ap_cstr_casecmp(word, "yes") == 0
                             ? NULL
                             : word;
        }
    }
}

static void find_mutex(apr_pool_t *p, const ap_directive_t *line,
                       const char **mechanism)
{
    for (; line; line = line->next) {
        if (ap_cstr_casecmp(line->directive, "Mutex") == 0) {
            look_at_mutex(p, line, mechanism);
        }
        find_mutex(p, line->first_child, mechanism);
    }
}

/* Relative paths as Mutex has them. */
static const char *argument_for(apr_pool_t *p,
                                const accept_lock_provider_t *provider,
                                const char *path)
{
    if (!(provider->capabilities & ACCEPT_LOCK_NEEDS_FILE)) {
        return NULL;
    }
    return path ? ap_server_root_relative(p, path)
                : ap_runtime_dir_relative(p, "");
}

/* What is in the way of it; NULL: nothing. */
static const char *not_exclusive(apr_pool_t *p)
{
    const char *mpm = ap_show_mpm();
    const char *error;
    char text[120];
    apr_status_t rv;

    if (means_of(mpm) != MPM_EXCLUSIVE) {
        return apr_psprintf(p, "MPM %s cannot be exclusive", mpm);
    }
    rv = exclusive_probe(&error);
    return rv == APR_SUCCESS
               ? NULL
               : apr_psprintf(p, "%s: %s", error,
                              apr_strerror(rv, text, sizeof(text)));
}

static void choose_exclusive_or_none(choice_t *choice, apr_pool_t *p)
{
    const char *error = not_exclusive(p);

    choice->is_exclusive = error == NULL;
    choice->why = error ? apr_pstrcat(
                      p, "auto: exclusive does not work here: ", error, NULL)
                        : "auto: it works here";
}

static void choose_lock(choice_t *choice, apr_pool_t *p)
{
    const accept_lock_provider_t *provider;
    const char *mechanism = NULL;
    const char *failed = "";
    const char *error;
    int i;

    find_mutex(p, ap_conftree, &mechanism);
    if (mechanism) {
        choice->why = apr_psprintf(p, "Mutex %s " AP_ACCEPT_MUTEX_TYPE,
                                   mechanism);
        return;
    }
    for (i = 0; (provider = accept_lock_builtin(i)) != NULL; i++) {
        if ((provider->capabilities & AUTO_NEEDS) != AUTO_NEEDS) {
            continue;
        }
        choice->argument = argument_for(p, provider, NULL);
        if (accept_lock_probe(&error, provider, choice->argument, p)
            == APR_SUCCESS) {
            choice->provider = provider;
            choice->why = apr_pstrcat(p, "auto: the best that works here",
                                      failed, NULL);
            return;
        }
        failed = apr_pstrcat(p, failed, "; ", provider->name,
                             " does not: ", error, NULL);
    }
    choice->why = apr_pstrcat(p, "auto: no other works here", failed, NULL);
}

static int refuse(apr_pool_t *p, const wanted_t *wanted, const char *error)
{
    ap_log_error(APLOG_MARK, APLOG_EMERG | APLOG_STARTUP, 0, NULL,
                 "sigdefer: S053: %s %s on line %d of %s does not work "
                 "here: %s; %s",
                 wanted->line->directive, wanted->line->args,
                 wanted->line->line_num, wanted->line->filename, error,
                 legal_for(p, ap_show_mpm()));
    return !OK;
}

static int choose_by_name(choice_t *choice, apr_pool_t *p,
                          const wanted_t *wanted)
{
    const accept_lock_provider_t *provider;
    const char *error = "no such path";
    apr_status_t rv = APR_EINVAL;

    provider = accept_lock_provider_find(wanted->name);
    choice->is_asked_for = 1;
    choice->why = "as configured";
    choice->argument = argument_for(p, provider, wanted->path);
    if (!wanted->path || choice->argument) {
        rv = accept_lock_probe(&error, provider, choice->argument, p);
    }
    if (rv != APR_SUCCESS) {
        return refuse(p, wanted, error);
    }
    choice->provider = provider;
    return OK;
}

static int choose_exclusive(choice_t *choice, apr_pool_t *p,
                            const wanted_t *wanted)
{
    const char *error = not_exclusive(p);

    if (error) {
        return refuse(p, wanted, error);
    }
    choice->is_asked_for = 1;
    choice->is_exclusive = 1;
    choice->why = "as configured";
    return OK;
}

int choice_make(choice_t *choice, apr_pool_t *pconf)
{
    const char *mpm = ap_show_mpm();
    const wanted_t *wanted = wanted_by(mpm);

    memset(choice, 0, sizeof(*choice));
    if (wanted && is_exclusive(wanted)) {
        return choose_exclusive(choice, pconf, wanted);
    }
    if (means_of(mpm) == MPM_NOTHING) {
        choice->why = apr_psprintf(pconf, "%s takes none", mpm);
    }
    else if (wanted && strcmp(wanted->name, "default") == 0) {
        choice->why = "as configured";
    }
    else if (means_of(mpm) == MPM_EXCLUSIVE) {
        choose_exclusive_or_none(choice, pconf);
    }
    else if (!wanted || strcmp(wanted->name, "auto") == 0) {
        choose_lock(choice, pconf);
    }
    else {
        return choose_by_name(choice, pconf, wanted);
    }
    return OK;
}
