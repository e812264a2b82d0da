import type { ChainOptions } from '@lockstep/config'
import type { ChainKey, ChainSource, Height, TimeUs } from '@lockstep/domain'
import { type Cut, findCut } from '@lockstep/rewind'
import {
  type ChainRewind,
  type ChainStatus,
  type Checkpoint,
  countAbove,
  type Database,
  putCutHint,
  type RegisteredChain,
  readChains,
  readCheckpoint,
  readFrom,
  readRemovalRate,
  readRewindState,
  readStatus,
  refusedChange,
} from '@lockstep/store'
import { estimateIndexingAgain, estimateRefetch, estimateRemoval, type Refetch } from './estimate-duration.js'
import { findBlockers, type PlanBlocker } from './find-blockers.js'

/** What a rewind would do to one chain. */
export interface ChainPlan {
  readonly chain: ChainKey
  readonly checkpoint: Checkpoint | null
  /** The lowest stored height that goes; null: nothing goes. */
  readonly from: Height | null
  readonly cut: Cut
  /** Stored blocks and events that go. */
  readonly blocks: number
  readonly events: number
  /** Null: nobody works for it; the rewind is carried out by the coordinator or by the command. */
  readonly worker: string | null
  /** Null: nothing goes, so nothing is indexed again. */
  readonly refetch: Refetch | null
  readonly blockers: readonly PlanBlocker[]
}

export interface RewindPlan {
  readonly timestamp: TimeUs
  readonly chains: readonly ChainPlan[]
  /** How long the removal takes at the rates of earlier rewinds, all chains at once; null: none was measured yet. */
  readonly removalSeconds: number | null
  /** How long indexing again up to the heads takes at the rates of the last backfills; null: a chain was not measured. */
  readonly indexingSeconds: number | null
}

export interface PlanOptions {
  /** As the config has them; null for a chain that it does not have. */
  readonly optionsOf: (chain: ChainKey) => ChainOptions | null
  readonly sourceOf: (chain: ChainKey) => ChainSource | null
  readonly timeoutMs: number
}

/** Looks, and changes nothing. */
export async function planRewind(db: Database, timestamp: TimeUs, options: PlanOptions): Promise<RewindPlan> {
  const { registered, status, removalRate } = await db.transaction(async (tx) => ({
    registered: await readChains(tx),
    status: new Map((await readStatus(tx)).map((each) => [each.chain, each])),
    removalRate: await readRemovalRate(tx),
  }))
  const chains = await Promise.all(
    registered.map((each) => planChain(db, each, timestamp, status.get(each.chain) ?? null, options)),
  )
  return {
    timestamp,
    chains,
    removalSeconds: estimateRemoval(chains, removalRate),
    indexingSeconds: estimateIndexingAgain(chains.flatMap(({ refetch }) => refetch ?? [])),
  }
}

async function planChain(
  db: Database,
  registered: RegisteredChain,
  timestamp: TimeUs,
  status: ChainStatus | null,
  options: PlanOptions,
): Promise<ChainPlan> {
  const { chain } = registered
  const worker = status?.worker ?? null
  const { from, checkpoint, counts } = await db.transaction(async (tx) => {
    const from = (await readFrom(tx, chain, timestamp))?.height ?? null
    return {
      from,
      checkpoint: await readCheckpoint(tx, chain),
      counts: from === null ? { blocks: 0, events: 0 } : await countAbove(tx, chain, from),
    }
  })
  const source = options.sourceOf(chain)
  const { timeoutMs } = options
  const [cut, blockers] = await Promise.all([
    findCut(db, { chain, from, cutHint: null, timestamp }, { source, timeoutMs }),
    findBlockers({
      chain,
      checkpoint,
      from,
      worker,
      source,
      timeoutMs,
      stopsAgain: whyStopsAgain(registered, options),
    }),
  ])
  const refetch =
    from === null || status === null ? null : estimateRefetch(status, cut.checkpoint?.height ?? null)
  return { chain, checkpoint, from, cut, ...counts, worker, refetch, blockers }
}

/** What is stored is of another chain than the config says: it is stopped, and a rewind does not mend that. */
function whyStopsAgain(registered: RegisteredChain, { optionsOf }: PlanOptions): string | null {
  const configured = optionsOf(registered.chain)
  return (configured && refusedChange(registered, configured)?.message) ?? null
}

/** Leaves what the plan's search found for the workers, whose own nodes may not answer. */
export async function leaveCutHints(db: Database, plan: RewindPlan): Promise<void> {
  const found = new Map(
    plan.chains.filter((each) => each.cut.by === 'search').map((each) => [each.chain, each.cut.checkpoint]),
  )
  await db.transaction(async (tx) => {
    const { waitingFor } = await readRewindState(tx)
    for (const row of waitingFor) {
      const hint = found.get(row.chain)
      if (hint && fits(row, plan, hint)) await putCutHint(tx, row, hint)
    }
  })
}

/** A hint is of use only for the moment it was found for. */
const fits = (row: ChainRewind, plan: RewindPlan, hint: Checkpoint): boolean =>
  row.timestamp === plan.timestamp && row.from !== null && hint.height < row.from
