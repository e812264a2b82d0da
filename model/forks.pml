/*
 * Forks, pauses and holds around the rewind protocol (docs/design.md, section 2; docs/model.md): what rewind.pml leaves
 * out. Chain 0 forks, at any step; its worker rolls it back, or (REWINDS) asks for a rewind of all chains, which
 * starts, joins or deepens. Operators rewind with and without --hold, cancel, pause and resume.
 *
 * Steps are as in rewind.pml, and what that has shown (order of locks, generations, tokens) is taken over in fewer of
 * them. Whoever holds the lock's row, or finds none under the exclusive key, is alone with all rows, so what it reads
 * and what it commits is one step. Each `#ifdef` is a protocol that leaves one thing out.
 */
#define CHAINS 2
#ifndef COMMANDS
#define COMMANDS 2   /* of operators */
#endif
#ifndef FORKS
#define FORKS 1      /* how often chain 0 replaces its blocks */
#endif
#ifndef REWINDS
#define REWINDS 0    /* onFork: 0 rollback, 1 rewind */
#endif
#ifndef LAPSES
#define LAPSES 0     /* how often the worker of chain 0 sleeps through its lease */
#endif

/* Block times: 2, 2 on chain 0, so that a fork between the two is told by height alone; 2, 3 on chain 1. */
#define HEAD 2
#define TIME(c, h) (h == 0 -> 0 : (c == 0 -> 2 : 1 + h))
#define LATE(c, h, top, t) (h <= top && TIME(c, h) > t)
/* stored-blocks.ts readFrom: the lowest height that goes; 0: nothing goes */
#define FROM(c, top, t) (LATE(c, 1, top, t) -> 1 : (LATE(c, 2, top, t) -> 2 : 0))
#define CUT(from, top) (from -> from - 1 : top)
#define LOWER(a, b) (a == 0 || (b && b < a) -> b : a)

/* What is committed. */
typedef Row { byte id, gen, from }
Row row[CHAINS];                   /* _global, rewind_timestamp_<chain>; id 0: there is none */
byte lockId, lockT;                /* _global, rewind_lock; 0: there is none */
bool pause; byte pauseOf;          /* _global, pause, and the rewind that it was set with; 0: it stands on its own */
byte epoch;
byte ck[CHAINS];                   /* checkpoint: what is up to it is stored */
bool leased[CHAINS], moved;        /* lease; rewind_chain, as audit.ts anyChainMoved reads it */
byte lastToken[CHAINS];

byte keyShared, keyExclusive, ckLock[CHAINS], lockLock;

/* Chain 0 as its node has it: the lowest stored height that it replaced, and the lowest since its worker last asked. */
byte stale, replaced;

/* Only watched. */
byte want[CHAINS], before[CHAINS]; /* where a chain must be at the release; where it was at the request */
byte wished;                       /* the lowest height that forks asked to go in this rewind */
bool held, pauseBefore;            /* a rewind with --hold was asked for, and not resumed; the pause before this rewind */
hidden byte x;
#define EACH for (x : 0 .. CHAINS - 1)

inline onePicture() {
  d_step {
    EACH { assert(lockId -> (row[x].id -> CUT(row[x].from, ck[x]) : ck[x]) == want[x] : !row[x].id) }
    x = 0 /* spin makes no code of a d_step that ends with a loop where a goto follows */
  }
}
inline unlock() {
  d_step {
    EACH { if :: ckLock[x] == _pid -> ckLock[x] = 0 :: else fi }
    if :: lockLock == _pid -> lockLock = 0 :: else fi;
    if :: keyExclusive == _pid -> keyExclusive = 0 :: else fi;
    if :: inKey -> inKey = false; keyShared-- :: else fi
  }
}
inline lockRewindLock() { /* rewind-rows.ts; as in rewind.pml */
  seen = lockId;
  atomic {
    (seen != lockId || !seen || !lockLock);
    if :: seen && seen == lockId -> lockLock = _pid :: else -> seen = 0 fi
  }
}
inline setCheckpoint() { /* checkpoint.ts */
  atomic {
    !ckLock[c];
    if :: ck[c] == believed && lastToken[c] == token -> ckLock[c] = _pid :: else -> unlock(); goto refused fi
  }
}
#define KEY_SHARED atomic { !keyExclusive -> keyShared++; inKey = true }                    /* write-key.ts */
#define KEY_EXCLUSIVE atomic { !keyExclusive && !keyShared -> keyExclusive = _pid }         /* key-attempts.ts */
#define CLEAR(a) a.id = 0; a.gen = 0; a.from = 0
#define COPY(a, b) a.id = b.id; a.gen = b.gen; a.from = b.from
#define FORGET CLEAR(own); believed = 0; seen = 0; to = 0; last = false
#define END lockId = 0; lockT = 0; moved = false; wished = 0; pauseBefore = false; EACH { want[x] = 0; before[x] = 0; CLEAR(row[x]) }
#define GO_BACK(h) ck[c] = h; if :: c == 0 && stale > h -> stale = 0 :: else fi

/* take-part.ts takePart */
inline takePart() {
  setCheckpoint();
  lockRewindLock();
  atomic { if :: row[c].id == own.id && row[c].gen == own.gen :: else -> unlock(); goto refused fi } /* deleteChainRewind */
  last = !row[1 - c].id; /* anyRewindRowLeft */
  atomic { /* commit */
    assert(CUT(own.from, believed) <= believed); /* back, never on */
    if :: CUT(own.from, believed) != ck[c] -> moved = true :: else fi;
    GO_BACK(CUT(own.from, believed));
    CLEAR(row[c]);
    if
    :: last -> /* deleteRewindLock, finishRewind */
       assert(!wished || ck[0] < wished); /* what a fork asked to go has gone */
       EACH { assert(ck[x] == want[x] && !FROM(x, ck[x], lockT)) }
       END
    :: else
    fi;
    unlock(); onePicture()
  }
}

/* request.ts putChainRow: the row keeps the lowest `from` of all that joined */
#ifdef BY_TIME_ALONE
#define ASKED(c, t, low) FROM(c, ck[c], t)
#else
#define ASKED(c, t, low) LOWER((c == 0 -> low : 0), FROM(c, ck[c], t))
#endif
#define PUT_ROW(c, t, low) row[c].from = LOWER(row[c].from, ASKED(c, t, low)); row[c].id = seen; row[c].gen = epoch; \
  if :: CUT(row[c].from, ck[c]) < want[c] -> want[c] = CUT(row[c].from, ck[c]) :: else fi

/*
 * request.ts record: starts a rewind, or deepens the one that `seen` names. `low` is the lowest height that a fork wants
 * gone on its own chain, 0; 0: an operator asks.
 */
inline record(t, low) {
  if
  :: seen -> assert(lockId == seen)
  :: else -> assert(!lockId); seen = epoch + 1; pauseBefore = pause; EACH { before[x] = ck[x]; want[x] = ck[x] }
  fi;
  lockId = seen; lockT = t; epoch++; /* putRewindLock, raiseEpoch */
  EACH { PUT_ROW(x, t, low) }
}

/* chain-worker.ts runChainWorker */
proctype Worker(byte c) {
  byte token = 1, believed, seen, to; bool inKey, last; Row own;
  goto load;
taken:
  !leased[c]; /* wait-for-lease.ts, lease.ts acquireChainLease */
  atomic { !ckLock[c] -> if :: !leased[c] -> leased[c] = true; lastToken[c]++; token = lastToken[c] :: else -> goto taken fi }
load:
  atomic { FORGET; believed = ck[c] } /* #load */
end_look:
  if /* #step: readRewindState; nobody looks for forks or fetches while there is a lock or a pause */
  :: atomic { row[c].id -> COPY(own, row[c]) }; takePart(); goto load
  :: lastToken[c] != token -> goto refused
  :: atomic { c == 0 && stale && !lockId && !pause -> to = stale - 1 } -> goto forked /* fork.ts: findForkPoint */
  :: atomic { believed < HEAD && !lockId && !pause && !(c == 0 && stale) -> if :: c == 0 -> replaced = 0 :: else fi }
  fi;
  KEY_SHARED; /* write-chain.ts writeBatch; the block was fetched, and links to the checkpoint */
  atomic {
#ifdef WRITE_UNDER_PAUSE
    if :: lockId -> unlock(); goto end_look :: else fi
#else
    if :: lockId || pause -> unlock(); goto end_look :: else fi /* refuseDuringRewind */
#endif
  }
  setCheckpoint();
  atomic { /* commit */
    assert(!lockId);
    assert(!pause && !held);
    believed++; ck[c] = believed;
    if :: c == 0 && replaced && believed >= replaced -> stale = LOWER(stale, believed) :: else fi; /* of the old branch */
    unlock(); onePicture()
  }
  goto end_look;

forked:
  if
  :: REWINDS ->
     KEY_EXCLUSIVE; /* fork.ts askForRewind, request.ts requestRewind */
#ifndef NO_PROOF
     atomic { /* proveCheckpoint, nowait: where the row is locked, the attempt is made again */
       if
       :: ckLock[c] -> unlock(); goto end_look
       :: else -> if :: ck[c] == believed && lastToken[c] == token -> ckLock[c] = _pid :: else -> unlock(); goto refused fi
       fi
     }
#endif
     lockRewindLock();
     atomic { /* commit */
       wished = LOWER(wished, to + 1);
       if
       :: !seen || TIME(0, to) < lockT -> record(TIME(0, to), to + 1)
       :: else -> /* lowerOwnRow: a fork is never refused for its time */
          assert(lockId == seen);
#ifndef JOIN_WITHOUT_HEIGHT
          epoch++; PUT_ROW(0, lockT, to + 1)
#endif
       fi;
       unlock(); onePicture()
     }
  :: !REWINDS ->
     KEY_SHARED; /* write-chain.ts rollBack */
     atomic {
#ifdef ROLLBACK_UNDER_REWIND
       if :: pause -> unlock(); goto end_look :: else fi /* looked for a rewind before, and not in the transaction */
#else
       if :: lockId || pause -> unlock(); goto end_look :: else fi /* waits for the release, and looks again */
#endif
     }
     setCheckpoint();
     atomic { /* commit */
       assert(!lockId);
       assert(!pause && !held);
       assert(to < believed);
       believed = to; GO_BACK(to); epoch++; unlock(); onePicture()
     }
  fi;
  goto load;
refused:
  atomic { if :: lastToken[c] == token -> goto load :: else -> token = 0; FORGET; goto taken fi }
}

/* carry-out.ts carryOutFreeChains, where the worker of chain 0 sleeps */
proctype Helper() {
  byte c, token, believed, seen, to; bool inKey, last; Row own;
end_idle:
  row[0].id && !leased[0];
  atomic { !ckLock[c] -> if :: !leased[0] -> leased[0] = true; lastToken[0]++; token = lastToken[0] :: else -> goto end_idle fi }
  atomic { COPY(own, row[0]); believed = ck[0] }
  if :: own.id -> takePart() :: else fi;
refused:
  atomic { if :: lastToken[0] == token -> leased[0] = false :: else fi; token = 0; FORGET; goto end_idle }
}

/* The operators' commands, one after the other. */
#define CANCEL 0
#define PAUSE 3
#define RESUME 4
proctype Operator() {
  byte t, seen, n; bool inKey, holds;
  do
  :: atomic { n < COMMANDS -> n++; if :: t = 1 :: t = 2 :: t = CANCEL :: t = PAUSE :: t = RESUME fi }
     if :: t == 1 || t == 2 -> if :: holds = true :: holds = false fi :: else fi;
     KEY_EXCLUSIVE;
     if
     :: t == PAUSE -> /* pause.ts: refused where there is one */
        atomic { if :: !pause -> pause = true; pauseOf = 0; pauseBefore = true :: else fi; unlock() }
     :: t == RESUME -> /* pause.ts: also during a rewind, which goes on */
        atomic { pause = false; pauseOf = 0; pauseBefore = false; held = false; unlock() }
     :: t == CANCEL -> /* cancel.ts */
        lockRewindLock();
        atomic {
          if
          :: seen && !moved ->
             EACH { assert(ck[x] == before[x]) }
             if :: pauseOf == seen -> held = false :: else fi; /* whose hold it was */
#ifndef CANCEL_LEAVES_PAUSE
             if :: pause && pauseOf == seen -> pause = false; pauseOf = 0 :: else fi;
#endif
             assert(pause == pauseBefore); /* with the rewind its own pause goes, and no other */
             held = (held && pause);
             END; epoch++
          :: else
          fi;
          unlock(); onePicture()
        }
     :: else ->
        lockRewindLock();
        atomic { /* commit */
          if
          :: !seen || t < lockT -> record(t, 0)
          :: else -> assert(lockId == seen) /* joins, or is refused where it is later */
          fi;
          if
          :: holds && t <= lockT -> /* holdPause: one that was there stays as it is */
             held = true;
#ifdef HOLD_TAKES_PAUSE
             pause = true; pauseOf = lockId
#elif !defined(HOLD_LATER)
             if :: !pause -> pause = true; pauseOf = lockId :: else fi
#endif
          :: else
          fi;
          unlock(); onePicture()
        }
#ifdef HOLD_LATER
        if
        :: holds && held -> KEY_EXCLUSIVE; atomic { if :: !pause -> pause = true; pauseOf = lockId :: else fi; unlock() }
        :: else
        fi
#endif
     fi;
     atomic { t = 0; seen = 0; holds = false }
  :: else -> break
  od
}

init {
  byte f, l;
  atomic {
    ck[0] = HEAD; ck[1] = 1;
    EACH { leased[x] = true; lastToken[x] = 1 }
    run Worker(0); run Worker(1);
    if :: LAPSES > 0 -> run Helper() :: else fi;
    run Operator()
  }
  do
  :: atomic { /* the node of chain 0 replaces what is above block 1, or its first block too */
       f < FORKS -> f++;
       if :: x = 1 :: x = 2 fi; /* the lowest that is replaced */
       if :: ck[0] >= x -> stale = LOWER(stale, x) :: else fi;
       replaced = LOWER(replaced, x)
     }
  :: atomic { l < LAPSES -> l++; leased[0] = false }
  :: else -> break
  od;
  timeout; /* nothing can move any more: everybody was released, and where nothing is held the chains are at their heads */
  assert(!lockId && !lockLock && !keyExclusive && !keyShared && !ckLock[0] && !ckLock[1]);
  assert(pause || (ck[0] == HEAD && ck[1] == HEAD && !stale))
}

ltl released { [] (lockId -> <> !lockId) }
