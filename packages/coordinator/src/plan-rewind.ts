import type { ChainKey, ChainSource, Height, TimeUs } from '@lockstep/domain'
import { type Cut, findCut } from '@lockstep/rewind'
import {
  type ChainRewind,
  type Checkpoint,
  countAbove,
  type Database,
  putCutHint,
  readChains,
  readCheckpoint,
  readFrom,
  readRewindState,
  readStatus,
} from '@lockstep/store'

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
}

export interface RewindPlan {
  readonly timestamp: TimeUs
  readonly chains: readonly ChainPlan[]
}

export interface PlanOptions {
  readonly sourceOf: (chain: ChainKey) => ChainSource | null
  readonly timeoutMs: number
}

/** Looks, and changes nothing. */
export async function planRewind(db: Database, timestamp: TimeUs, options: PlanOptions): Promise<RewindPlan> {
  const { registered, status } = await db.transaction(async (tx) => ({
    registered: await readChains(tx),
    status: await readStatus(tx),
  }))
  const workers = new Map(status.map((each) => [each.chain, each.worker]))
  const chains = await Promise.all(
    registered.map(({ chain }) => planChain(db, chain, timestamp, workers.get(chain) ?? null, options)),
  )
  return { timestamp, chains }
}

async function planChain(
  db: Database,
  chain: ChainKey,
  timestamp: TimeUs,
  worker: string | null,
  options: PlanOptions,
): Promise<ChainPlan> {
  const { from, checkpoint, counts } = await db.transaction(async (tx) => {
    const from = (await readFrom(tx, chain, timestamp))?.height ?? null
    return {
      from,
      checkpoint: await readCheckpoint(tx, chain),
      counts: from === null ? { blocks: 0, events: 0 } : await countAbove(tx, chain, from),
    }
  })
  const source = options.sourceOf(chain)
  const cut = await findCut(
    db,
    { chain, from, cutHint: null, timestamp },
    { source, timeoutMs: options.timeoutMs },
  )
  return { chain, checkpoint, from, cut, ...counts, worker }
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
