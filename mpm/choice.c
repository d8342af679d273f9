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

static const struct {
    const char *name;
    int has_lock; /* takes one around accept */
} mpms[] = {
    { "prefork", 1 },
    { "worker", 1 },
    { "event", 0 },
};

#define MPMS (sizeof(mpms) / sizeof(mpms[0]))

static int has_lock(const char *mpm)
{
    apr_size_t i;

    for (i = 0; i < MPMS; i++) {
        if (strcmp(mpms[i].name, mpm) == 0) {
            return mpms[i].has_lock;
        }
    }
    return 0;
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
                       accept_lock_provider_names(p), NULL);
}

static const char *check_mechanism(cmd_parms *cmd, const char *text,
                                   const wanted_t *wanted)
{
    const accept_lock_provider_t *provider;
    int is_word = strcmp(wanted->name, "default") == 0
                  || strcmp(wanted->name, "auto") == 0;

    if (strcmp(wanted->name, "exclusive") == 0) {
        return apr_psprintf(cmd->pool,
                            "%s: '%s' is not available for any MPM; %s",
                            cmd->cmd->name, text, legal(cmd->pool));
    }
    provider = is_word ? NULL : accept_lock_provider_find(wanted->name);
    if (!provider && !is_word) {
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
                            "worker, event",
                            cmd->cmd->name, text);
    }
    if (!has_lock(wanted->mpm) && strcmp(wanted->name, "default") != 0
        && strcmp(wanted->name, "auto") != 0) {
        return apr_psprintf(cmd->pool,
                            "%s: MPM %s takes no accept lock, so it cannot be "
                            "%s; legal are default, auto",
                            cmd->cmd->name, wanted->mpm, wanted->name);
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

static void choose_automatically(choice_t *choice, apr_pool_t *p)
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
        ap_log_error(APLOG_MARK, APLOG_EMERG | APLOG_STARTUP, 0, NULL,
                     "sigdefer: S053: %s %s on line %d of %s does not work "
                     "here: %s; %s",
                     wanted->line->directive, wanted->line->args,
                     wanted->line->line_num, wanted->line->filename, error,
                     legal(p));
        return !OK;
    }
    choice->provider = provider;
    return OK;
}

int choice_make(choice_t *choice, apr_pool_t *pconf)
{
    const char *mpm = ap_show_mpm();
    const wanted_t *wanted = wanted_by(mpm);

    memset(choice, 0, sizeof(*choice));
    if (!has_lock(mpm)) {
        choice->why = apr_psprintf(pconf, "%s takes none", mpm);
    }
    else if (!wanted || strcmp(wanted->name, "auto") == 0) {
        choose_automatically(choice, pconf);
    }
    else if (strcmp(wanted->name, "default") == 0) {
        choice->why = "as configured";
    }
    else {
        return choose_by_name(choice, pconf, wanted);
    }
    return OK;
}
