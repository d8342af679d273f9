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

/* Linux first.  Elsewhere a signal given back to the kernel loses its
 * siginfo, threads are taken to live until the process ends, and the marks
 * are signals that a program might block.
 */

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os.h"

#ifdef __linux__

/* The kernel's sigset has 64 signals and stands first in libc's. */
static void set_load(sigdefer_set_t *set, const sigset_t *signals)
{
    memcpy(set, signals, sizeof(*set));
}

static void set_store(sigset_t *signals, sigdefer_set_t set)
{
    memcpy(signals, &set, sizeof(set));
}

/* libc keeps the first real-time signals for itself and lets no program block
 * them: with one it cancels threads, with one it makes setuid() act on all.
 * Both wait while we hold them.
 */
#define MARK_KERNEL SIGDEFER_BIT(33)
#define MARK_ADOPTED SIGDEFER_BIT(32)

/* By system call, since libc would leave the marks alone. */
sigdefer_set_t os_change_mask(int how, sigdefer_set_t set)
{
    sigdefer_set_t before = 0;

    syscall(SYS_rt_sigprocmask, how, &set, &before, sizeof(set));
    return before;
}

#else

static void set_load(sigdefer_set_t *set, const sigset_t *signals)
{
    int signo;

    *set = 0;
    for (signo = 1; signo <= 64; signo++) {
        if (sigismember(signals, signo) == 1) {
            *set |= SIGDEFER_BIT(signo);
        }
    }
}

static void set_store(sigset_t *signals, sigdefer_set_t set)
{
    int signo;

    for (signo = 1; signo <= 64; signo++) {
        if (set & SIGDEFER_BIT(signo)) {
            sigaddset(signals, signo);
        }
        else {
            sigdelset(signals, signo);
        }
    }
}

#define MARK_KERNEL SIGDEFER_BIT(SIGURG)
#define MARK_ADOPTED SIGDEFER_BIT(SIGIO)

sigdefer_set_t os_change_mask(int how, sigdefer_set_t set)
{
    sigset_t signals;
    sigset_t before;

    sigemptyset(&signals);
    set_store(&signals, set);
    pthread_sigmask(how, &signals, &before);
    return os_set_of(&before);
}

#endif

sigdefer_set_t os_set_of(const sigset_t *signals)
{
    sigdefer_set_t set;

    set_load(&set, signals);
    return set;
}

void os_set_add(sigset_t *signals, sigdefer_set_t set)
{
    set_store(signals, os_set_of(signals) | set);
}

void os_set_remove(sigset_t *signals, sigdefer_set_t set)
{
    set_store(signals, os_set_of(signals) & ~set);
}

sigdefer_set_t os_pending(void)
{
    sigset_t pending;

    sigpending(&pending);
    return os_set_of(&pending);
}

void os_mark_kernel(sigset_t *mask)
{
    os_set_add(mask, MARK_KERNEL);
}

int os_marks_take(void)
{
    sigdefer_set_t before = os_change_mask(SIG_UNBLOCK, MARK_KERNEL);

    return ((before & MARK_KERNEL) ? OS_MARK_KERNEL : 0)
           | ((before & MARK_ADOPTED) ? OS_MARK_ADOPTED : 0);
}

void os_mark_adopted(int on)
{
    os_change_mask(on ? SIG_BLOCK : SIG_UNBLOCK, MARK_ADOPTED);
}

#ifdef __linux__

/* The kernel's own struct sigaction is a fifth of libc's, and begins with the
 * handler.
 */
SIGDEFER_HOT os_handler_fn *os_handler_of(int signo)
{
    struct {
        os_handler_fn *handler;
        unsigned long rest[7];
    } found = { NULL };

    syscall(SYS_rt_sigaction, signo, NULL, &found, sizeof(sigdefer_set_t));
    return found.handler;
}

pid_t os_thread_id(void)
{
    return (pid_t)syscall(SYS_gettid);
}

int os_thread_lives(pid_t thread_id)
{
    return syscall(SYS_tgkill, getpid(), thread_id, 0) == 0 || errno != ESRCH;
}

int os_resend_to_thread(const siginfo_t *info)
{
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), os_thread_id(),
                   info->si_signo, info)
                   == 0
               ? 0
               : errno;
}

int os_resend_to_process(const siginfo_t *info)
{
    siginfo_t queued = *info;

    if (syscall(SYS_rt_sigqueueinfo, getpid(), info->si_signo, info) == 0) {
        return 0;
    }
    if (errno != EPERM) {
        return errno;
    }
    /* what looks as if the kernel or kill() had sent it may be sent by the
     * main thread only; sender and value are kept
     */
    queued.si_code = SI_QUEUE;
    return syscall(SYS_rt_sigqueueinfo, getpid(), info->si_signo, &queued) == 0
               ? 0
               : errno;
}

int os_is_from_here(const siginfo_t *info)
{
    /* at RLIMIT_SIGPENDING the kernel drops the siginfo of a standard signal,
     * which then looks like this
     */
    if (info->si_code == SI_USER) {
        return info->si_pid == 0;
    }
    return info->si_code == SI_TKILL && info->si_pid == getpid();
}

#else

os_handler_fn *os_handler_of(int signo)
{
    struct sigaction found;

    return sigaction(signo, NULL, &found) == 0 ? found.sa_sigaction : NULL;
}

pid_t os_thread_id(void)
{
    return getpid();
}

int os_thread_lives(pid_t thread_id)
{
    (void)thread_id;
    return 1;
}

int os_resend_to_thread(const siginfo_t *info)
{
    return pthread_kill(pthread_self(), info->si_signo);
}

int os_resend_to_process(const siginfo_t *info)
{
    return kill(getpid(), info->si_signo) == 0 ? 0 : errno;
}

int os_is_from_here(const siginfo_t *info)
{
    return info->si_pid == getpid();
}

#endif

int os_in_signal_frame(const void *frame, const void *pointer)
{
#if defined(__SANITIZE_THREAD__)
    /* the sanitizer calls handlers itself, later, with a copy of its own */
    return frame && pointer;
#else
    /* A kernel's frame stands right above that of the function it calls; some
     * room is for the frames of a handler between.
     */
    return (uintptr_t)pointer > (uintptr_t)frame
           && (uintptr_t)pointer - (uintptr_t)frame < 16384
           && (uintptr_t)pointer % sizeof(void *) == 0;
#endif
}
