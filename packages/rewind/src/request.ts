import { randomUUID } from 'node:crypto'
import {
  type ChainKey,
  formatTimeShort,
  type Height,
  RequestRefusedError,
  type TimeUs,
} from '@lockstep/domain'
import {
  type ChainWriter,
  type Database,
  deepenRewind,
  insertRewind,
  lockPause,
  lockRewindLock,
  notify,
  proveCheckpoint,
  putChainRewind,
  putPause,
  putRewindLock,
  type RewindLock,
  raiseEpoch,
  readChainRewind,
  readChains,
  readEpoch,
  readFrom,
  readRewind,
  type Tx,
} from '@lockstep/store'
import { decideRequest, lowerFrom } from './decide.js'
import { type AttemptOptions, withKey } from './key-attempts.js'
import { noSteps, type StepHook } from './steps.js'

export interface RewindRequest {
  /** Of the rewind that it starts; asked for again under the same id, it is the same request. Left out: a new one. */
  readonly id?: string
  readonly timestamp: TimeUs
  readonly reason: string | null
  /** User and machine, for the audit. */
  readonly who: string
  /** Stay paused after the release, until somebody resumes. */
  readonly hold?: boolean
  /** Set where a chain's fork asks: its worker, and the lowest height that goes on its own chain. */
  readonly fork?: Fork
}

export interface Fork {
  readonly writer: ChainWriter
  readonly from: Height
}

export interface RequestOptions extends AttemptOptions {
  readonly request: RewindRequest
  readonly onStep?: StepHook
}

export interface RequestAnswer {
  readonly outcome: 'started' | 'joined' | 'deepened'
  readonly rewindId: string
  readonly timestamp: TimeUs
}

/**
 * Records a rewind: from its commit on, no chain writes anything until all have gone back (docs/design.md, section 2).
 *
 * @throws RequestRefusedError where a rewind to an earlier moment runs and an operator asks, or no chain is registered
 * @throws LeaseLostError, CheckpointMovedError where a fork asks whose worker is not the chain's any more
 */
export async function requestRewind(db: Database, options: RequestOptions): Promise<RequestAnswer> {
  const { request, onStep = noSteps } = options
  const answer = await withKey(
    db,
    async (tx) => {
      await onStep('request.key_locked')
      if (request.fork) await proveCheckpoint(tx, request.fork.writer)
      // Decided only on what this returns: a release may have taken the lock away while this statement waited for it.
      const running = await lockRewindLock(tx)
      const decided = await decide(tx, running, request)
      await onStep('request.recorded')
      return decided
    },
    options,
  )
  await onStep('request.committed')
  return answer
}

async function decide(tx: Tx, running: RewindLock | null, request: RewindRequest): Promise<RequestAnswer> {
  const known = request.id === undefined ? null : await readRewind(tx, request.id)
  if (known !== null) return { outcome: 'started', rewindId: known.id, timestamp: known.timestamp }
  const decision = decideRequest(running, request.timestamp, request.fork !== undefined)
  if (running === null)
    return record(
      tx,
      { rewindId: request.id ?? randomUUID(), timestamp: request.timestamp },
      request,
      'started',
    )
  if (decision.do === 'refuse') throw laterRefused(running, request.timestamp)
  if (decision.do === 'deepen')
    return record(tx, { ...running, timestamp: request.timestamp }, request, 'deepened')
  if (request.fork) await lowerOwnRow(tx, running, request.fork)
  if (request.hold) await holdPause(tx, running.rewindId, request)
  return { outcome: 'joined', ...running }
}

async function record(
  tx: Tx,
  lock: RewindLock,
  request: RewindRequest,
  outcome: 'started' | 'deepened',
): Promise<RequestAnswer> {
  const { reason, who, fork } = request
  const forkedChain = fork?.writer.chain ?? null
  if (outcome === 'started') await insertRewind(tx, { id: lock.rewindId, ...lock, reason, who, forkedChain })
  else await deepenRewind(tx, lock.rewindId, lock.timestamp, reason)
  await putRewindLock(tx, lock)
  const chains = await readChains(tx)
  if (chains.length === 0) throw nothingRegistered() // nobody would ever release it
  for (const { chain } of chains) {
    await putChainRow(tx, lock, chain, fork && forkedChain === chain ? fork.from : null)
  }
  if (request.hold) await holdPause(tx, lock.rewindId, request)
  await notify(tx, 'rewind')
  await raiseEpoch(tx)
  return { outcome, ...lock }
}

/**
 * A chain's row, for every registered chain: also one that was taken out of the config, or was done before a deepening.
 * It keeps the lowest `from` of all that joined.
 */
async function putChainRow(
  tx: Tx,
  lock: RewindLock,
  chain: ChainKey,
  forkedFrom: Height | null,
): Promise<void> {
  const before = await readChainRewind(tx, chain)
  const late = await readFrom(tx, chain, lock.timestamp)
  await putChainRewind(tx, {
    ...lock,
    chain,
    from: lowerFrom(lowerFrom(before?.from ?? null, late?.height ?? null), forkedFrom),
    forkFrom: lowerFrom(before?.forkFrom ?? null, forkedFrom),
    cutHint: null,
    // What this transaction raises the epoch to. Nobody else raises it while the key is held exclusively.
    generation: (await readEpoch(tx)) + 1,
  })
}

/** A fork joins a rewind that goes back as far or further in time: its own chain may have to go lower all the same. */
async function lowerOwnRow(tx: Tx, running: RewindLock, fork: Fork): Promise<void> {
  await putChainRow(tx, running, fork.writer.chain, fork.from)
  await notify(tx, 'rewind')
  await raiseEpoch(tx)
}

/** A pause that was there stays as it is. */
async function holdPause(tx: Tx, rewindId: string, { who, reason }: RewindRequest): Promise<void> {
  if ((await lockPause(tx)) === null) await putPause(tx, { who, reason, rewindId })
}

const nothingRegistered = (): RequestRefusedError =>
  new RequestRefusedError(
    'There is no chain in this database.',
    'Nothing was changed. "lockstep start" or "lockstep migrate" registers the chains of the config.',
  )

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
