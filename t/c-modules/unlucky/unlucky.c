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

/* To be preloaded into httpd: what UNLUCKY names does not work.
 *
 *     fcntl      record locks: as on some network file systems
 *     setrobust  robust mutexes: as under some emulators
 *     lock       pthread_mutex_trylock(), with which waiting for pthread's lock
 *                begins, after 100 calls in a process, for ever
 *     fork       processes, after two of httpd's own
 *     thread     threads
 *     memory     shared memory of 40 KiB or more
 *     accept     accept4(), for ever, for whoever removes the file UNLUCKY_TRAP
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALLS 100
#define FORKS 2
#define MOST_MEMORY ((size_t)40 * 1024)

int fcntl(int fd, int cmd, ...);
int fcntl64(int fd, int cmd, ...);

static int is_unlucky(const char *what)
{
    const char *name = getenv("UNLUCKY");

    return name && strcmp(name, what) == 0;
}

static int unlucky_fcntl(const char *function, int fd, int cmd, void *arg)
{
    int (*stock)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT,
                                                                function);

    if ((cmd == F_SETLK || cmd == F_SETLKW) && is_unlucky("fcntl")) {
        errno = ENOLCK;
        return -1;
    }
    return stock(fd, cmd, arg);
}

int fcntl(int fd, int cmd, ...)
{
    va_list args;
    void *arg;

    va_start(args, cmd);
    arg = va_arg(args, void *);
    va_end(args);
    return unlucky_fcntl("fcntl", fd, cmd, arg);
}

int fcntl64(int fd, int cmd, ...)
{
    va_list args;
    void *arg;

    va_start(args, cmd);
    arg = va_arg(args, void *);
    va_end(args);
    return unlucky_fcntl("fcntl64", fd, cmd, arg);
}

typedef int setrobust_t(pthread_mutexattr_t *, int);

int pthread_mutexattr_setrobust(pthread_mutexattr_t *attributes, int robustness)
{
    const char *name = "pthread_mutexattr_setrobust";
    setrobust_t *stock = (setrobust_t *)dlsym(RTLD_NEXT, name);

    return is_unlucky("setrobust") ? ENOTSUP : stock(attributes, robustness);
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    static int (*stock)(pthread_mutex_t *);
    static int calls;

    if (!stock) {
        stock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT,
                                                  "pthread_mutex_trylock");
    }
    if (is_unlucky("lock") && ++calls > CALLS) {
        return EINVAL;
    }
    return stock(mutex);
}

pid_t fork(void)
{
    pid_t (*stock)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
    static int calls;

    if (is_unlucky("fork") && ++calls > FORKS) {
        errno = EAGAIN;
        return -1;
    }
    return stock();
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*start)(void *), void *data)
{
    int (*stock)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                 void *) = (int (*)(pthread_t *, const pthread_attr_t *,
                                    void *(*)(void *),
                                    void *))dlsym(RTLD_NEXT, "pthread_create");

    return is_unlucky("thread") ? EAGAIN
                                : stock(thread, attributes, start, data);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd,
           off_t offset)
{
    void *(*stock)(void *, size_t, int, int, int,
                   off_t) = (void *(*)(void *, size_t, int, int, int,
                                       off_t))dlsym(RTLD_NEXT, "mmap");

    if ((flags & MAP_SHARED) && fd == -1 && length >= MOST_MEMORY
        && is_unlucky("memory")) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return stock(address, length, protection, flags, fd, offset);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    typedef int accept4_t(int, struct sockaddr *, socklen_t *, int);
    accept4_t *stock = (accept4_t *)dlsym(RTLD_NEXT, "accept4");
    const char *trap = getenv("UNLUCKY_TRAP");

    if (is_unlucky("accept") && trap && unlink(trap) == 0) {
        for (;;) {
            pause();
        }
    }
    return stock(fd, address, size, flags);
}
