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

/* sections CASE COUNT: enters and leaves a section COUNT times, bracketed as
 * CASE says, and prints the seconds that it took.
 *
 * Each case is a function of its own, so that callgrind can be told to count
 * that one alone (--toggle-collect=run_CASE).  The loops have one shape and
 * the same compiler barrier in them, which keeps the empty one from being
 * removed.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/brackets.h"

#define DEFINE_RUN(name, enter, leave) \
    static __attribute__((noinline)) void run_##name(long count) \
    { \
        long i; \
\
        for (i = 0; i < count; ++i) { \
            enter; \
            SIGDEFER_BARRIER(); \
            leave; \
        } \
    }

BRACKETS(DEFINE_RUN)

#define LIST_RUN(name, enter, leave) { #name, run_##name },

static const struct {
    const char *name;
    void (*run)(long count);
} cases[] = { BRACKETS(LIST_RUN) };

int main(int argc, char **argv)
{
    long count = argc == 3 ? atol(argv[2]) : 0;
    size_t i;

    brackets_init();
    for (i = 0; count > 0 && i < sizeof(cases) / sizeof(cases[0]); ++i) {
        if (!strcmp(argv[1], cases[i].name)) {
            double start = brackets_now();

            cases[i].run(count);
            printf("%.9f\n", brackets_now() - start);
            return EXIT_SUCCESS;
        }
    }
    fprintf(stderr, "usage: sections empty|macro|call|mask COUNT\n");
    return EXIT_FAILURE;
}
