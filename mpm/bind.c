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

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpm/bind.h"

#if defined(__x86_64__)
#define IMPORT_SLOT R_X86_64_JUMP_SLOT
#define IMPORT_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define IMPORT_SLOT R_AARCH64_JUMP_SLOT
#define IMPORT_DATA R_AARCH64_GLOB_DAT
#endif

#define MAX_BOUND 32

/* Changed by bind_import() and bind_undo() only. */
static struct {
    void **entry;
    void *original;
    int is_relro;
} bound[MAX_BOUND];
static int bound_count;

#ifdef IMPORT_SLOT

/* What is looked for, and the object in which it is. */
typedef struct {
    const void *inside;
    ElfW(Addr) base;
    const ElfW(Dyn) * dynamic;
    ElfW(Addr) relro_start;
    ElfW(Addr) relro_end;
} object_t;

/* What the loader tells is a number. */
static void *at(ElfW(Addr) address)
{
    return (void *)address; /* NOLINT(performance-no-int-to-ptr) */
}

static int is_inside(const struct dl_phdr_info *info, const void *address)
{
    int i;

    for (i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        ElfW(Addr) start = info->dlpi_addr + segment->p_vaddr;

        if (segment->p_type == PT_LOAD && (ElfW(Addr))address >= start
            && (ElfW(Addr))address < start + segment->p_memsz) {
            return 1;
        }
    }
    return 0;
}

static int find_object(struct dl_phdr_info *info, size_t size, void *data)
{
    object_t *object = data;
    int i;

    (void)size;
    if (!is_inside(info, object->inside)) {
        return 0;
    }
    object->base = info->dlpi_addr;
    for (i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        ElfW(Addr) start = info->dlpi_addr + segment->p_vaddr;

        if (segment->p_type == PT_DYNAMIC) {
            object->dynamic = at(start);
        }
        else if (segment->p_type == PT_GNU_RELRO) {
            /* a page that is not whole stays writable */
            object->relro_start = start;
            object->relro_end = (start + segment->p_memsz)
                                & ~((ElfW(Addr))sysconf(_SC_PAGESIZE) - 1);
        }
    }
    return 1;
}

static ElfW(Addr) dynamic_value(const object_t *object, ElfW(Sxword) tag)
{
    const ElfW(Dyn) * entry;

    for (entry = object->dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == tag) {
            return entry->d_un.d_val;
        }
    }
    return 0;
}

/* glibc has added the base to the addresses there, musl has not. */
static ElfW(Addr) dynamic_address(const object_t *object, ElfW(Sxword) tag)
{
    ElfW(Addr) value = dynamic_value(object, tag);

    return value && value < object->base ? value + object->base : value;
}

static void **find_in(const object_t *object, ElfW(Addr) table, ElfW(Addr) size,
                      const char *name)
{
    const ElfW(Sym) *symbols = at(dynamic_address(object, DT_SYMTAB));
    const char *strings = at(dynamic_address(object, DT_STRTAB));
    const ElfW(Rela) *entry = at(table);
    const ElfW(Rela) *end = at(table + size);

    if (!table || !symbols || !strings) {
        return NULL;
    }
    for (; entry < end; entry++) {
        ElfW(Xword) type = ELF64_R_TYPE(entry->r_info);
        const ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(entry->r_info)];

        if ((type == IMPORT_SLOT || type == IMPORT_DATA)
            && strcmp(strings + symbol->st_name, name) == 0) {
            return at(object->base + entry->r_offset);
        }
    }
    return NULL;
}

static void **find_entry(const object_t *object, const char *name)
{
    void **entry = find_in(object, dynamic_address(object, DT_JMPREL),
                           dynamic_value(object, DT_PLTRELSZ), name);

    return entry ? entry
                 : find_in(object, dynamic_address(object, DT_RELA),
                           dynamic_value(object, DT_RELASZ), name);
}

/* The loader has made the pages of the relro segment read-only, and so they
 * are left.
 */
static apr_status_t write_entry(void **entry, void *value, int is_relro)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *start = at((ElfW(Addr))entry & ~(page - 1));

    if (is_relro && mprotect(start, page, PROT_READ | PROT_WRITE) != 0) {
        return APR_EACCES;
    }
    __atomic_store_n(entry, value, __ATOMIC_SEQ_CST);
    if (is_relro) {
        mprotect(start, page, PROT_READ);
    }
    return APR_SUCCESS;
}

apr_status_t bind_import(const void *inside, const char *name,
                         void *replacement)
{
    object_t object;
    apr_status_t rv;
    void **entry;
    int is_relro;
    int i;

    memset(&object, 0, sizeof(object));
    object.inside = inside;
    if (!dl_iterate_phdr(find_object, &object) || !object.dynamic) {
        return APR_ENOTIMPL;
    }
    entry = find_entry(&object, name);
    if (!entry) {
        return APR_ENOENT;
    }
    for (i = 0; i < bound_count; i++) {
        if (bound[i].entry == entry) {
            return APR_SUCCESS;
        }
    }
    if (bound_count == MAX_BOUND) {
        return APR_ENOSPC;
    }
    is_relro = (ElfW(Addr))entry >= object.relro_start
               && (ElfW(Addr))entry < object.relro_end;
    bound[bound_count].entry = entry;
    bound[bound_count].original = *entry;
    bound[bound_count].is_relro = is_relro;
    rv = write_entry(entry, replacement, is_relro);
    if (rv == APR_SUCCESS) {
        bound_count++;
    }
    return rv;
}

/* The entry cannot tell: before the first call it leads to the loader, which
 * would put its answer in place of ours.
 */
void *bind_original(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

int bind_same_object(const void *one, const void *other)
{
    Dl_info first;
    Dl_info second;

    return dladdr(one, &first) && dladdr(other, &second)
           && first.dli_fbase == second.dli_fbase;
}

void bind_undo(void)
{
    while (bound_count > 0) {
        bound_count--;
        write_entry(bound[bound_count].entry, bound[bound_count].original,
                    bound[bound_count].is_relro);
    }
}

#else

apr_status_t bind_import(const void *inside, const char *name,
                         void *replacement)
{
    return APR_ENOTIMPL;
}

void *bind_original(const char *name)
{
    return NULL;
}

int bind_same_object(const void *one, const void *other)
{
    return 0;
}

void bind_undo(void)
{
}

#endif

apr_status_t bind_imports(const void *inside, const bind_import_t *list,
                          const char **failed)
{
    apr_status_t rv = APR_SUCCESS;

    for (; rv == APR_SUCCESS && list->name; list++) {
        *list->original = bind_original(list->name);
        rv = *list->original
                 ? bind_import(inside, list->name, list->replacement)
                 : APR_ENOENT;
        *failed = list->name;
    }
    return rv;
}
