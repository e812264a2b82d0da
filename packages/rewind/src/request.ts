import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { formatTimeShort, RequestRefusedError, type TimeUs } from '@lockstep/domain'
import {
  type Blocker,
  type Database,
  deepenRewind,
  endStaleKeyHolders,
  errorCode,
  insertRewind,
  LOCK_NOT_AVAILABLE,
  lockKeyExclusive,
  lockRewindLock,
  notify,
  putChainRewind,
  putRewindLock,
  type RewindLock,
  raiseEpoch,
  readChainRewind,
  readChains,
  readEpoch,
  readFrom,
  type Tx,
} from '@lockstep/store'
import { decideRequest, lowerFrom } from './decide.js'
import { noSteps, type StepHook } from './steps.js'

export interface RewindRequest {
  readonly timestamp: TimeUs
  readonly reason: string | null
  /** User and machine, for the audit. */
  readonly who: string
}

export interface RequestOptions {
  readonly request: RewindRequest
  /** Told of the writers that the request waits for. */
  readonly onWait?: (blockers: readonly Blocker[]) => void
  readonly onStep?: StepHook
  readonly signal?: AbortSignal
}

export interface RequestAnswer {
  readonly outcome: 'started' | 'joined' | 'deepened'
  readonly rewindId: string
  readonly timestamp: TimeUs
}

/**
 * One try to get the key. While a request queues for it, writers that come later queue behind the request; a short try
 * lets them through in between, so that one slow writer does not hold up every chain.
 */
const KEY_TRY_MS = 500

/**
 * Records a rewind: from its commit on, no chain writes anything until all have gone back (docs/design.md, section 2).
 *
 * @throws RequestRefusedError where a rewind to an earlier moment runs
 */
export async function requestRewind(db: Database, options: RequestOptions): Promise<RequestAnswer> {
  for (;;) {
    options.signal?.throwIfAborted()
    try {
      const answer = await db.transaction((tx) => record(tx, options), { lockTimeoutMs: KEY_TRY_MS })
      await options.onStep?.('request.committed')
      return answer
    } catch (error) {
      if (errorCode(error) !== LOCK_NOT_AVAILABLE) throw error
    }
    await makeWay(db, options)
  }
}

/** Finds out what the last try has waited for, ends it where it is stale, and leaves others a moment. */
async function makeWay(db: Database, options: RequestOptions): Promise<void> {
  const holders = await endStaleKeyHolders(db)
  // Not the key: a release holds the lock's row. Waiting for it without the key has its session watched, and ended
  // where its process is gone.
  if (holders.length === 0) await db.transaction(lockRewindLock)
  else options.onWait?.(holders)
  await sleep(Math.random() * 50)
}

async function record(tx: Tx, options: RequestOptions): Promise<RequestAnswer> {
  const { request, onStep = noSteps } = options
  await lockKeyExclusive(tx)
  await onStep('request.key_locked')
  // Decided only on what this returns: a release may have taken the lock away while this statement waited for it.
  const running = await lockRewindLock(tx)
  const answer = await decide(tx, running, request)
  await onStep('request.recorded')
  return answer
}

async function decide(tx: Tx, running: RewindLock | null, request: RewindRequest): Promise<RequestAnswer> {
  const { timestamp } = request
  const decision = decideRequest(running, timestamp)
  if (running !== null && decision.do === 'refuse') throw laterRefused(running, timestamp)
  if (running !== null && decision.do === 'join') return { outcome: 'joined', ...running }
  const lock: RewindLock = { rewindId: running?.rewindId ?? randomUUID(), timestamp }
  if (running === null) await insertRewind(tx, { id: lock.rewindId, ...request })
  else await deepenRewind(tx, lock.rewindId, timestamp, request.reason)
  await putRewindLock(tx, lock)
  await putChainRows(tx, lock)
  await notify(tx, 'rewind')
  await raiseEpoch(tx)
  return { outcome: running === null ? 'started' : 'deepened', ...lock }
}

/** A row for every registered chain: also one that was taken out of the config, or was done before a deepening. */
async function putChainRows(tx: Tx, lock: RewindLock): Promise<void> {
  // What this transaction raises the epoch to. Nobody else raises it while the key is held exclusively.
  const generation = (await readEpoch(tx)) + 1
  for (const { chain } of await readChains(tx)) {
    const before = await readChainRewind(tx, chain)
    const from = await readFrom(tx, chain, lock.timestamp)
    await putChainRewind(tx, {
      ...lock,
      chain,
      from: lowerFrom(before?.from ?? null, from?.height ?? null),
      cutHint: null,
      generation,
    })
  }
}

const laterRefused = (running: RewindLock, asked: TimeUs): RequestRefusedError =>
  new RequestRefusedError(
    `Rewind ${running.rewindId} to ${formatTimeShort(running.timestamp)} is running; ${formatTimeShort(asked)} is later.`,
    'Nothing was changed. Wait for it ("lockstep status"): the chains index again up to their heads after it.',
    {
      rewindId: running.rewindId,
      running: formatTimeShort(running.timestamp),
      asked: formatTimeShort(asked),
    },
  )
