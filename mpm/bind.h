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
 * @file mpm/bind.h
 * @brief Re-point what an object of this process imports from others.
 *
 * httpd gives modules no hook for some of what its MPMs and its core do.  An
 * object calls functions of others through a table of pointers that the
 * loader has filled in; an entry can be made to point to a function of ours.
 * Only data changes, no code, and everything can be put back.
 *
 * ELF on x86-64 and aarch64.
 */

#ifndef SIGDEFER_MPM_BIND_H
#define SIGDEFER_MPM_BIND_H

#include "apr_errno.h"

/**
 * Have an object call a function of ours for one that it imports.  Asked for
 * twice, it is done once.
 * @param inside an address in the object: of a function or variable in it
 * @param name the imported function
 * @param replacement what is to be called
 * @return APR_SUCCESS; APR_ENOENT: the object imports no such function;
 *         APR_ENOTIMPL: not on this platform; APR_EACCES: the table cannot be
 *         written; APR_ENOSPC: more than 32 are bound
 *
 * Call from: one thread, in the parent.  The function must be replaced in no
 * call that is under way.
 */
apr_status_t bind_import(const void *inside, const char *name,
                         void *replacement);

/** What an object imports, what it is to call, and what it would have. */
typedef struct {
    const char *name; /* NULL: the end of a list */
    void *replacement;
    void **original;
} bind_import_t;

#define BIND_IMPORT(name, replacement, original) \
    { \
        name, (void *)(replacement), (void **)&(original) \
    }

/**
 * Have an object call functions of ours, and find those that it imports.
 * @param list of them, up to the first that fails
 * @param failed the name of the last one that was tried
 * @return as bind_import(); APR_ENOENT besides: there is no original
 */
apr_status_t bind_imports(const void *inside, const bind_import_t *list,
                          const char **failed);

/**
 * The function of that name which is called where nothing is re-pointed.  For
 * replacements: where the module is built into httpd, its own calls go through
 * the table of the executable, too.
 * @return NULL if there is none
 */
void *bind_original(const char *name);

/**
 * Whether two addresses are in the same object: what one of them imports is
 * re-pointed for the other, too.
 */
int bind_same_object(const void *one, const void *other);

/**
 * Put everything back; must have been done when the replacements are unloaded.
 */
void bind_undo(void);

#endif /* SIGDEFER_MPM_BIND_H */
