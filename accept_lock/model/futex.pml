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

/* A word of futex.c, step by step: three contenders, one of which may be
 * killed before any step, and one may be interrupted by a signal in its sleep.
 *
 * Checked are: never two hold it; an owner's death is told once; nobody
 * sleeps for ever, since no run may end with somebody asleep.
 *
 * A step of the model is one access to what is shared, or one system call.
 * WITHOUT_... takes away a line of the algorithm, see accept_lock/model/check:
 * each must be missed.
 */

#define CONTENDERS 3

/* How often each acquires it.  That one comes back is what turns are for. */
#ifndef ROUNDS
#define ROUNDS (me == 2 -> 2 : 1)
#endif

#define NOBODY 255

/* The pair, shared. */
typedef pair_t {
    byte owner;   /* 0 or 1 .. CONTENDERS */
    bool waiters; /* FUTEX_WAITERS */
    bool died;    /* FUTEX_OWNER_DIED */
    bool queue;   /* QUEUE */
    byte turns
};

pair_t lock;

/* The kernel's. */
bool asleep[CONTENDERS + 1];
bool listed[CONTENDERS + 1];  /* in the robust list */
bool pending[CONTENDERS + 1]; /* list_op_pending */

/* Whom it hits; 0: nobody yet, NOBODY: nobody any more. */
byte victim;
byte interrupted;

/* To be checked with. */
byte holding; /* who holds it: 0 or 1 .. CONTENDERS */
byte owners_died;
byte told;

/* ---- Steps --------------------------------------------------------------- */

inline load(to)
{
    d_step {
        to.owner = lock.owner;
        to.waiters = lock.waiters;
        to.died = lock.died;
        to.queue = lock.queue;
        to.turns = lock.turns
    }
}

#define FORGET(from) \
    d_step { \
        from.owner = 0; \
        from.waiters = false; \
        from.died = false; \
        from.queue = false; \
        from.turns = 0; \
        success = false; \
        woken = 0 \
    }

#define SAME(from) \
    (lock.owner == from.owner && lock.waiters == from.waiters \
     && lock.died == from.died && lock.queue == from.queue \
     && lock.turns == from.turns)

/* What FUTEX_WAIT compares: the word. */
#ifdef WITHOUT_COMPARE
#define IS_AS_MARKED(from) true
#elif defined(WITHOUT_MARK)
#define IS_AS_MARKED(from) (lock.owner == from.owner && !lock.died)
#else
#define IS_AS_MARKED(from) \
    (lock.owner == from.owner && !lock.died && lock.waiters)
#endif

/* What the clearing of QUEUE compares: the pair. */
#ifdef WITHOUT_TURNS
#define IS_NEXT_TURN(from) true
#else
#define IS_NEXT_TURN(from) (lock.turns == from.turns + 1)
#endif
#define IS_AS_RELEASED(from) \
    (lock.owner == 0 && !lock.waiters && !lock.died && lock.queue \
     && IS_NEXT_TURN(from))

/* Wake any one; the kernel's is the first, but that is not relied upon. */
inline wake(count)
{
    atomic {
        count = 0;
        if
        :: asleep[1] -> asleep[1] = false; count = 1
        :: asleep[2] -> asleep[2] = false; count = 1
        :: asleep[3] -> asleep[3] = false; count = 1
        :: !asleep[1] && !asleep[2] && !asleep[3] -> skip
        fi
    }
}

/* ---- The kernel, when a contender has died ------------------------------- */

inline end(me)
{
    atomic {
        victim = NOBODY;
        asleep[me] = false;
        if
        :: holding == me -> holding = 0
        :: else
        fi;
        if
        :: (listed[me] || pending[me]) && lock.owner == me ->
            lock.owner = 0;
            lock.died = true;
            owners_died++;
            does_wake = lock.waiters
        :: else ->
            /* the fix of 5.5; here the word is 0 */
            does_wake = pending[me] && lock.owner == 0
        fi
    }
    if
    :: does_wake -> wake(woken)
    :: else
    fi
}

/* ---- A contender --------------------------------------------------------- */

proctype contender(byte me)
{
    pair_t from;
    bool success;
    bool does_wake;
    byte woken;
    byte rounds = 0;

    {
        do
        :: rounds == ROUNDS -> break
        :: else ->
            rounds++;

            /* acquire */
#ifndef WITHOUT_PENDING
            pending[me] = true;
#endif
take:
            load(from);
            if
            :: from.owner == 0 ->
                atomic {
                    if
                    :: SAME(from) ->
                        lock.owner = me;
                        lock.waiters = from.waiters || from.queue;
                        lock.died = false;
                        lock.queue = false;
                        told = told + from.died;
                        assert(holding == 0);
                        assert(told <= owners_died);
                        holding = me
                    :: else -> goto take
                    fi
                }
            :: else ->
#ifndef WITHOUT_MARK
                atomic {
                    if
                    :: SAME(from) -> lock.waiters = true
                    :: else -> goto take
                    fi
                }
#endif
                /* FUTEX_WAIT: it sleeps if the word is as marked */
                atomic {
                    if
                    :: IS_AS_MARKED(from) ->
                        asleep[me] = true
                    :: else -> goto take
                    fi
                }
                if
                :: !asleep[me] -> goto take
                :: interrupted == me ->
                    atomic {
                        interrupted = NOBODY;
                        if
                        :: asleep[me] ->
                            asleep[me] = false;
                            success = false
                        :: else -> success = true /* woken before */
                        fi
                    }
                    if
                    :: success -> goto take
                    :: else -> goto leave
                    fi
                fi
            fi;
            listed[me] = true;
            pending[me] = false;

            /* hold */
            assert(holding == me);

            /* release */
#ifndef WITHOUT_PENDING
            pending[me] = true;
#endif
            listed[me] = false;
            load(from);
give:
            atomic {
                if
                :: SAME(from) ->
                    lock.owner = 0;
                    lock.waiters = false;
#ifndef WITHOUT_QUEUE
                    lock.queue = from.waiters;
#endif
                    lock.turns = from.turns + from.waiters;
                    holding = 0
                :: else ->
                    load(from);
                    goto give
                fi
            }
            if
            :: from.waiters ->
#ifndef WITHOUT_WAKE
                wake(woken);
#endif
#ifndef WITHOUT_CLEAR
                if
                :: woken == 0 ->
                    atomic {
                        if
                        :: IS_AS_RELEASED(from) -> lock.queue = false
                        :: else
                        fi
                    }
                :: else
                fi
#endif
            :: else
            fi;
leave:
            pending[me] = false;
            /* forgotten, so that states that differ in it only are one */
            FORGET(from)
        od
    }
    unless {
        victim == me -> end(me)
    }
}

/* ---- What comes from outside --------------------------------------------- */

/* The contenders are alike, so it is enough to kill the first, and to interrupt
 * it or another.
 */

proctype killer()
{
    if
    :: victim = 1
    :: victim = NOBODY
    fi
}

proctype sender()
{
    if
    :: interrupted = 1
    :: interrupted = 2
    :: interrupted = NOBODY
    fi
}

init {
    atomic {
        run contender(1);
        run contender(2);
        run contender(3);
        run killer();
        run sender()
    }
    /* all have ended, the killer and the sender, too */
    _nr_pr == 1;
    assert(lock.owner == 0);
    assert(told + lock.died == owners_died)
}
