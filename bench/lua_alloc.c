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

/* lua_alloc WORKLOAD CASE: runs a Lua script in an interpreter whose
 * allocator is bracketed as CASE says, and prints the seconds that it took.
 *
 * An allocator is where embedded interpreters used to block alarms: a handler
 * that leaves in the middle of it wrecks the heap.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "bench/brackets.h"

static const struct {
    const char *name;
    const char *script;
} workloads[] = {
    { "array", "local t = {}\n"
               "for i = 1, 1000000 do t[i] = i end\n"
               "assert(#t == 1000000)\n" },

    /* What a heavy page does: rows of small tables, strings made from them,
     * sorting, and numbers in between.
     */
    { "heavy", "local function rows(n)\n"
               "    local t, x = {}, 42\n"
               "    for i = 1, n do\n"
               "        x = (x * 1103515245 + 12345) % 2147483648\n"
               "        t[i] = { x, { id = i }, tostring(x) }\n"
               "    end\n"
               "    return t\n"
               "end\n"
               "local function page(t)\n"
               "    local lines = {}\n"
               "    for i, row in ipairs(t) do\n"
               "        local sum = row[1] % 65521 + row[2].id\n"
               "        lines[i] = row[3] .. ':' .. sum\n"
               "    end\n"
               "    table.sort(lines)\n"
               "    return table.concat(lines, '\\n')\n"
               "end\n"
               "for i = 1, 2250 do\n"
               "    assert(#page(rows(100)) > 1000)\n"
               "end\n" }
};

/* What lua_Alloc promises: no size frees, anything else resizes. */
static inline void *resize(void *block, size_t size)
{
    if (size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, size);
}

#define DEFINE_ALLOC(name, enter, leave) \
    static void *alloc_##name(void *data, void *block, size_t old, \
                              size_t size) \
    { \
        (void)data; \
        (void)old; \
        enter; \
        block = resize(block, size); \
        leave; \
        return block; \
    }

BRACKETS(DEFINE_ALLOC)

#define LIST_ALLOC(name, enter, leave) { #name, alloc_##name },

static const struct {
    const char *name;
    lua_Alloc alloc;
} cases[] = { BRACKETS(LIST_ALLOC) };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static lua_Alloc find_alloc(const char *name)
{
    size_t i;

    for (i = 0; i < COUNT(cases); ++i) {
        if (!strcmp(name, cases[i].name)) {
            return cases[i].alloc;
        }
    }
    return NULL;
}

static const char *find_script(const char *name)
{
    size_t i;

    for (i = 0; i < COUNT(workloads); ++i) {
        if (!strcmp(name, workloads[i].name)) {
            return workloads[i].script;
        }
    }
    return NULL;
}

/* The interpreter's life from its creation to its end, as a request has it;
 * 0 if it went well.
 */
static int run(lua_Alloc alloc, const char *script)
{
    lua_State *lua = lua_newstate(alloc, NULL);
    int failed;

    if (!lua) {
        fprintf(stderr, "lua_alloc: no memory\n");
        return 1;
    }
    luaL_openlibs(lua);
    failed = luaL_dostring(lua, script);
    if (failed) {
        fprintf(stderr, "lua_alloc: %s\n", lua_tostring(lua, -1));
    }
    lua_close(lua);
    return failed;
}

int main(int argc, char **argv)
{
    const char *script = argc == 3 ? find_script(argv[1]) : NULL;
    lua_Alloc alloc = argc == 3 ? find_alloc(argv[2]) : NULL;
    double start;

    if (!script || !alloc) {
        fprintf(stderr, "usage: lua_alloc array|heavy empty|macro|call|mask\n");
        return EXIT_FAILURE;
    }
    brackets_init();
    start = brackets_now();
    if (run(alloc, script)) {
        return EXIT_FAILURE;
    }
    printf("%.9f\n", brackets_now() - start);
    return EXIT_SUCCESS;
}
