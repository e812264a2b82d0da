import { type ChainKey, secondsBetween, type TimeUs } from '@lockstep/domain'
import {
  type ChainStatus,
  type Database,
  type GapInWords,
  type RewindState,
  readClock,
  readGapsInWords,
  readRewindState,
  readStatus,
} from '@lockstep/store'

/** One chain as an operator sees it. */
export interface ChainView {
  readonly chain: ChainKey
  readonly phase: ChainStatus['phase']
  readonly reason: string | null
  readonly checkpoint: number | null
  readonly checkpointTime: TimeUs | null
  readonly head: number | null
  /** Blocks from the checkpoint to the head (or to `endHeight`). */
  readonly lagBlocks: number | null
  /** Seconds from the checkpoint's block time to now. */
  readonly lagSeconds: number | null
  readonly blocksPerSecond: number | null
  readonly eventsPerSecond: number | null
  readonly etaSeconds: number | null
  readonly worker: string | null
  /** What filters are still missing below the checkpoint: while there is any, the chain is not ready. */
  readonly gaps: readonly Pick<GapInWords, 'what' | 'from' | 'to'>[]
}

export interface StatusView {
  readonly at: TimeUs
  readonly chains: readonly ChainView[]
  readonly state: RewindState
}

/** A worker that said nothing for so long is not believed, even while its lease lasts. */
const SILENT_SECONDS = 10

/** Everything from the database, of one moment; works from any machine. */
export async function readStatusView(db: Database): Promise<StatusView> {
  return db.transaction(async (tx) => {
    const state = await readRewindState(tx)
    const at = await readClock(tx)
    const gaps = await readGapsInWords(tx)
    const of = (chain: ChainKey) => gaps.filter((gap) => gap.chain === chain)
    const chains = (await readStatus(tx)).map((each) => describeChain(each, state, at, of(each.chain)))
    return { at, state, chains }
  })
}

export function describeChain(
  status: ChainStatus,
  state: RewindState,
  now: TimeUs,
  gaps: readonly GapInWords[] = [],
): ChainView {
  const { checkpointHeight: checkpoint } = status
  // A head that was reported before the last block was stored lags behind it.
  const head = status.headHeight === null ? null : Math.max(status.headHeight, checkpoint ?? 0)
  const target = status.endHeight ?? head
  const lagBlocks = target === null ? null : Math.max(0, target - (checkpoint ?? status.startHeight - 1))
  const alive = status.worker !== null
  const rate = alive ? status.blocksPerSecond : null
  return {
    chain: status.chain,
    ...phaseOf(status, state),
    checkpoint,
    checkpointTime: status.checkpointTime,
    head,
    lagBlocks,
    lagSeconds:
      status.checkpointTime === null
        ? null
        : Math.max(0, Math.round(secondsBetween(status.checkpointTime, now))),
    blocksPerSecond: rate,
    eventsPerSecond: alive ? status.eventsPerSecond : null,
    etaSeconds: lagBlocks === null || !rate ? null : Math.round(lagBlocks / rate),
    worker: status.worker,
    gaps: gaps.map(({ what, from, to }) => ({ what, from, to })),
  }
}

/** Why a running rewind still waits for this chain. @param alone what is said of a chain without a worker */
export function whyWaiting(status: ChainStatus, alone: string): string {
  if (status.worker === null) return alone
  return status.phase === 'rewinding' ? 'its worker removes' : 'its worker has not begun'
}

function phaseOf(status: ChainStatus, state: RewindState): Pick<ChainView, 'phase' | 'reason'> {
  if (state.waitingFor.some((row) => row.chain === status.chain)) {
    return {
      phase: 'rewinding',
      reason: whyWaiting(status, 'it has no worker; others carry it out'),
    }
  }
  if (state.lock)
    return { phase: 'paused', reason: `waits for ${state.waitingFor.map((row) => row.chain).join(', ')}` }
  if (state.pause) return { phase: 'paused', reason: `paused by ${state.pause.who}` }
  if (status.worker === null && status.phase !== 'finished') {
    return {
      phase: 'stopped',
      reason: status.phase === 'stopped' && status.reason ? status.reason : 'no worker runs',
    }
  }
  const silent = status.worker !== null && (status.reportAgeSeconds ?? 0) > SILENT_SECONDS
  if (silent)
    return {
      phase: status.phase,
      reason: `its worker has said nothing for ${Math.round(status.reportAgeSeconds ?? 0)} s`,
    }
  return { phase: status.phase, reason: status.reason }
}
