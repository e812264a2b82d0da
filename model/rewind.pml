/*
 * The rewind protocol (docs/design.md, section 2) as a model that spin searches whole: all orders of all steps, with
 * crashes, lost connections and slept-through leases at any of them. How to run it, and what it leaves out:
 * docs/model.md.
 *
 * A step is one SQL statement: between two of them anybody else may do anything, and one that waits for a lock goes on
 * with what is committed by then. What a transaction changes is seen by others at its commit, in one step; until then
 * it is in local variables. Comments name the code that a step stands for. Each `#ifdef` is a protocol that leaves one
 * thing out; spin must find what breaks.
 */
#ifndef CHAINS
#define CHAINS 2     /* at most 3 */
#endif
#ifndef COMMANDS
#define COMMANDS 2   /* what operators do: ask for a rewind, or cancel one */
#endif
#ifndef BLOWS
#define BLOWS 1      /* how often fate strikes: a process dies, or loses its connection, or sleeps through its lease */
#endif

/* Block times: 2, 3 on chain 0; 3, 2 on chain 1, whose times fall; 1, 1 on chain 2. Operators ask for T = 1 or 2. */
#define HEAD 2
#define TIME(c, h) (c == 0 -> 1 + h : (c == 1 -> 4 - h : 1))
#define LATE(c, h, top, t) (h <= top && TIME(c, h) > t)
/* stored-blocks.ts readFrom: the lowest height that goes; 0: nothing goes */
#define FROM(c, top, t) (LATE(c, 1, top, t) -> 1 : (LATE(c, 2, top, t) -> 2 : 0))
#define CUT(from, top) (from -> from - 1 : top)
#define LOWER(a, b) (a == 0 || (b && b < a) -> b : a)

/* What is committed. */
typedef Row { byte id, t, gen, from }
Row row[CHAINS];                   /* _global, rewind_timestamp_<chain>; id 0: there is none */
byte lockId, lockT;                /* _global, rewind_lock; 0: there is none */
byte epoch;
byte ck[CHAINS];                   /* checkpoint: what is up to it is stored, so it stands for the facts too */
bool leased[CHAINS];               /* lease */
byte lastToken[CHAINS];            /* lease and checkpoint: the newest holder's */
bool moved;                        /* rewind_chain, as audit.ts anyChainMoved reads it */

/* Locks, and who holds them. */
byte keyShared, keyExclusive, ckLock[CHAINS], lockLock;

/* Only watched: what a chain held when the rewind began, and must hold at its release; whether its worker is gone. */
byte before[CHAINS], want[CHAINS];
bool dead[CHAINS], acting;
byte blows, victim;
hidden byte x;
#define EACH for (x : 0 .. CHAINS - 1)

/* Promise 4, at each commit: the views, which hide what has still to go, show every chain where the rewind puts it. */
inline onePicture() {
  d_step { EACH { assert(lockId -> (row[x].id -> CUT(row[x].from, ck[x]) : ck[x]) == want[x] : !row[x].id) } }
}

/* A transaction has ended, kept or undone, or its session has: its locks are free. */
inline unlock() {
  d_step {
    EACH { if :: ckLock[x] == _pid -> ckLock[x] = 0 :: else fi }
    if :: lockLock == _pid -> lockLock = 0 :: else fi;
    if :: keyExclusive == _pid -> keyExclusive = 0 :: else fi;
    if :: inKey -> inKey = false; keyShared-- :: else fi
  }
}

/*
 * rewind-rows.ts lockRewindLock. Its snapshot names one row, and it waits for that one: if it has gone meanwhile, the
 * statement returns nothing, though there be a new one by now.
 */
inline lockRewindLock() {
  seen = lockId;
  atomic {
    (seen != lockId || !seen || !lockLock);
    if :: seen && seen == lockId -> lockLock = _pid :: else -> seen = 0 fi
  }
}

/* checkpoint.ts setCheckpoint: waits for the row, then compares with what is there by then. */
inline setCheckpoint() {
  atomic {
    !ckLock[c];
#ifdef NO_TOKEN
    if :: ck[c] == believed -> ckLock[c] = _pid
#else
    if :: ck[c] == believed && lastToken[c] == token -> ckLock[c] = _pid
#endif
    :: else -> unlock(); goto refused
    fi
  }
}

/* lease.ts acquireChainLease. The checkpoint's row is locked first, which waits for whoever is changing the chain. */
inline acquireChainLease() {
  atomic { !ckLock[c] -> ckLock[c] = _pid }
  atomic { /* takeLease, the token into the checkpoint's row, commit */
    if
    :: leased[c] -> unlock(); goto taken
    :: else -> leased[c] = true; lastToken[c]++; token = lastToken[c]; unlock()
    fi
  }
}

#define NO_OTHER_LEFT !(row[(c + 1) % CHAINS].id || row[(c + CHAINS - 1) % CHAINS].id)
#if defined(DELETE_BY_T)
#define SAME_ROW row[c].id && row[c].t == own.t
#elif defined(NO_GENERATION)
#define SAME_ROW row[c].id == own.id
#else
#define SAME_ROW row[c].id == own.id && row[c].gen == own.gen
#endif
#define END lockId = 0; lockT = 0; moved = false; EACH { before[x] = 0; want[x] = 0; CLEAR(row[x]) }
#define CLEAR(a) a.id = 0; a.t = 0; a.gen = 0; a.from = 0
#define COPY(a, b) a.id = b.id; a.t = b.t; a.gen = b.gen; a.from = b.from
#define FORGET CLEAR(own); believed = 0; seen = 0; last = false

/* take-part.ts goBack and release, with `own` and `believed` as they were read before. The cut follows from the two. */
inline takePart() {
  setCheckpoint();
  /* removeAbove, recordChainRewind, shortenRanges: seen by others at the commit. */
#ifdef RELEASE_IN_ONE
  last = NO_OTHER_LEFT; /* the lock and the look for other rows in one statement: a look from before the wait */
#endif
#ifndef NO_ROW_LOCK
  lockRewindLock();
#endif
  atomic { if :: SAME_ROW :: else -> unlock(); goto refused fi } /* deleteChainRewind */
#ifndef RELEASE_IN_ONE
  last = NO_OTHER_LEFT; /* anyRewindRowLeft */
#endif
  atomic { /* commit */
    assert(token == lastToken[c]); /* one writer: nobody who took the lease later has been let in before */
    assert(lockId == own.id); /* so each rewind is released once: its id never comes again */
    if :: CUT(own.from, believed) != ck[c] -> moved = true :: else fi;
    ck[c] = CUT(own.from, believed);
    CLEAR(row[c]);
    if
    :: last -> /* deleteRewindLock, finishRewind */
       EACH { assert(ck[x] == want[x] && !FROM(x, ck[x], lockT)) } /* same cut: nothing after T, nothing else gone */
       END
    :: else
    fi;
    unlock(); onePicture()
  }
}
/* lease-keeper.ts close */
#define SURRENDER if :: lastToken[c] == token -> leased[c] = false :: else fi; token = 0

/* chain-worker.ts runChainWorker */
#define STEPS provided (!victim || victim == _pid)
proctype Worker(byte c) STEPS {
  byte token = 1, believed, seen; bool inKey, last; Row own;
  goto load;
taken:
  {
    !leased[c]; /* wait-for-lease.ts */
    acquireChainLease();
load:
    atomic { FORGET; believed = ck[c] } /* #load */
end_look:
    if /* #step: readRewindState. Where nothing is to do, a poll wakes it; the keeper notices that the lease is lost. */
    :: atomic { row[c].id -> COPY(own, row[c]) }; takePart(); goto load
    :: lastToken[c] != token -> goto refused
    :: believed < HEAD && !lockId /* #follow: a block is fetched */
    fi;
    /* write-chain.ts writeBatch */
#ifdef WRITE_IN_ONE
    seen = lockId; /* the key and the look for the lock in one statement: a look from before the wait */
#endif
#ifndef NO_SHARED_KEY
    atomic { !keyExclusive -> keyShared++; inKey = true } /* write-key.ts lockKeyShared */
#endif
    atomic {
#ifndef WRITE_IN_ONE
      seen = lockId; /* refuseDuringRewind */
#endif
      if :: seen -> unlock(); seen = 0; goto end_look :: else fi
    }
    setCheckpoint();
    atomic { /* commit */
      assert(!lockId); /* promise 2: nothing is written between a request's commit and the release */
      assert(token == lastToken[c]);
      believed++; ck[c] = believed; unlock(); onePicture()
    }
    goto end_look;
refused: /* superseded or CheckpointMovedError: from what is there now; LeaseLostError: the process ends */
    atomic { if :: lastToken[c] == token -> goto load :: else -> token = 0; FORGET; goto taken fi }
  } unless {
    atomic {
      victim == _pid -> victim = 0; unlock(); FORGET;
      if
      :: token && lastToken[c] == token -> goto load /* lost only its connection */
      :: true -> SURRENDER; goto taken               /* its lease ends, it is started again */
      :: true -> SURRENDER; dead[c] = true           /* it never comes back */
      fi
    }
  }
}

/* carry-out.ts carryOutFreeChains: by the coordinator, the command that follows a rewind, or a waiting worker. */
proctype Helper() STEPS {
  byte c, token, believed, seen; bool inKey, last; Row own;
end_idle:
  {
    if /* readFreeChains; readTaken */
    :: atomic { row[0].id && !leased[0] -> c = 0 }
    :: atomic { row[1].id && !leased[1] -> c = 1 }
#if CHAINS > 2
    :: atomic { row[2].id && !leased[2] -> c = 2 }
#endif
    fi;
    acquireChainLease();
    COPY(own, row[c]); /* looked at again under the lease */
    believed = ck[c];
    if
    :: own.id -> takePart()
    :: else
    fi;
taken: refused:
    atomic { SURRENDER; c = 0; FORGET; goto end_idle }
  } unless { atomic { victim == _pid -> victim = 0; unlock(); SURRENDER; c = 0; FORGET; goto end_idle } }
}

/* The operators' commands, one after the other: all that a command does, it does under the key. */
#define CANCEL 0
proctype Operator() STEPS {
  byte t, seen, c, n, from[CHAINS]; bool inKey, tooLate;
  do
  :: atomic { n < COMMANDS -> n++; acting = true; if :: t = 1 :: t = 2 :: t = CANCEL fi }
#ifdef DECIDE_BEFORE_LOCK
     seen = lockId; /* decides on what it read before its waits */
#endif
     {
       atomic { !keyExclusive && !keyShared -> keyExclusive = _pid } /* key-attempts.ts withKey */
#ifndef DECIDE_BEFORE_LOCK
       lockRewindLock();
#endif
       if
       :: t == CANCEL && seen -> /* cancel.ts cancelRewind */
          tooLate = moved; /* anyChainMoved */
          atomic { /* commit */
            if
            :: tooLate
            :: else ->
               EACH { assert(ck[x] == before[x]) } /* a rewind is cancelled only while no chain has gone back */
               assert(lockId == seen);
               END; epoch++
            fi
          }
       :: t != CANCEL && (!seen || t < lockT) -> /* request.ts record: starts or deepens */
          do /* putChainRow */
          :: atomic { c < CHAINS -> from[c] = LOWER(row[c].from, FROM(c, ck[c], t)); c++ }
          :: atomic { c == CHAINS -> break }
          od;
          atomic { /* commit */
            if
            :: seen -> assert(lockId == seen)
            :: else -> assert(!lockId); seen = epoch + 1; EACH { before[x] = ck[x] }
            fi;
            lockId = seen; lockT = t; epoch++; /* putRewindLock, raiseEpoch */
            EACH {
              want[x] = CUT(FROM(x, ck[x], t), ck[x]);
#ifdef DEEPEN_LEAVES_DONE
              if :: epoch > seen && !row[x].id -> skip :: else ->
#else
              if :: true ->
#endif
                 row[x].id = seen; row[x].t = t; row[x].gen = epoch; row[x].from = from[x]
              fi
            }
          }
       :: t != CANCEL && seen && t >= lockT -> assert(lockId == seen) /* joins, or is refused */
       :: else /* nothing to cancel */
       fi
     } unless { victim == _pid };
     atomic {
       if :: victim == _pid -> victim = 0 :: else fi;
       unlock(); onePicture(); acting = false; t = 0; seen = 0; c = 0; tooLate = false; EACH { from[x] = 0 }
     }
  :: else -> break
  od
}

#define STRIKE blows < BLOWS && !victim -> blows++
init {
  byte c;
  atomic {
    EACH { ck[x] = 1; leased[x] = true; lastToken[x] = 1 } /* each worker has its chain, and one block to go */
    for (c : 0 .. CHAINS - 1) { run Worker(c) }
    run Helper();
    run Operator();
    c = 0
  }
  do /* fate */
  :: atomic { STRIKE; select (c : 0 .. CHAINS - 1); leased[c] = false; c = 0 } /* it sleeps through its lease's end */
  :: atomic { STRIKE; select (c : 0 .. CHAINS - 1); if :: !dead[c] -> victim = c + 1 :: else fi; c = 0 }
  :: atomic { STRIKE; victim = CHAINS + 1 }                                        /* the helper */
  :: atomic { STRIKE; if :: acting -> victim = CHAINS + 2 :: else fi }             /* an operator's command */
  :: else -> break
  od;
  timeout; /* nothing can move any more: everybody was released, and each chain that has a worker has caught up */
  assert(!lockId && !lockLock && !keyExclusive && !keyShared);
  EACH { assert(!ckLock[x] && (dead[x] || ck[x] == HEAD)) }
}

ltl released { [] (lockId -> <> !lockId) }
