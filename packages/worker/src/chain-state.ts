import type { Gap, KnownChildren } from '@lockstep/domain'
import {
  adoptConfig,
  type ChainWriter,
  type Checkpoint,
  describeFilter,
  readCheckpoint,
  readChildren,
  readConfigChange,
  readGaps,
} from '@lockstep/store'
import type { WorkerOptions } from './worker-options.js'

/** What a worker goes on from: all of one moment. */
export interface ChainState {
  readonly checkpoint: Checkpoint | null
  readonly children: KnownChildren
  readonly gaps: readonly Gap[]
  /** What is stored was indexed under another config. */
  readonly changed: boolean
}

export const loadChain = ({ db, options }: WorkerOptions): Promise<ChainState> =>
  db.transaction(async (tx) => ({
    checkpoint: await readCheckpoint(tx, options.chain),
    children: await readChildren(tx, options.chain),
    gaps: await readGaps(tx, options.chain),
    changed: (await readConfigChange(tx, options)) !== null,
  }))

/**
 * Makes what is stored follow the config, and says what that means.
 *
 * @throws ChainChangedError where it cannot
 */
export async function takeOverConfig(worker: WorkerOptions, writer: ChainWriter): Promise<void> {
  const { db, options, logger } = worker
  const adopted = await adoptConfig(db, writer, options)
  if (adopted === null || writer.checkpoint === null) return
  const { added, refetched, removed, start } = adopted.change
  logger.info(
    {
      added: added.map(describeFilter),
      refetched: refetched.map(describeFilter),
      removed: removed.map(describeFilter),
      ...(start.was !== start.is && { startBefore: start.was, startAfter: start.is }),
      gap: describeGaps(adopted.gaps),
    },
    'changed config was taken over',
  )
  const { blocks, events, contracts } = adopted.removed
  if (blocks + events + contracts > 0)
    logger.warn({ blocks, events, contracts }, 'facts that the config no longer asks for were removed')
}

/** Null: nothing is missing. */
export function describeGaps(gaps: readonly Gap[]): string | null {
  if (gaps.length === 0) return null
  const from = Math.min(...gaps.map((gap) => gap.from))
  const to = Math.max(...gaps.map((gap) => gap.to))
  const filters = new Set(gaps.map(({ filter }) => filter)).size
  return `a gap is open: blocks ${from} to ${to} are fetched for ${filters === 1 ? 'one filter' : `${filters} filters`}`
}
