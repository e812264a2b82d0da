import {
  type BlockRef,
  type ChainTip,
  DeepReorgError,
  findForkPoint,
  formatTimeShort,
  type Height,
  MalformedAnswerError,
  shortHash,
  type TimeUs,
} from '@lockstep/domain'
import { requestRewind } from '@lockstep/rewind'
import {
  type ChainWriter,
  type Checkpoint,
  lastStoredBelow,
  readStoredBlock,
  rollBack,
  stepDownTo,
  storedBlocksDown,
} from '@lockstep/store'
import type { WorkerOptions } from './worker-options.js'

export type ForkAnswer = 'agrees' | 'forked' | 'unsure'

/**
 * Whether the node's chain still holds the checkpoint. A node that has no block there is behind: that proves nothing.
 */
export async function checkForFork(
  worker: WorkerOptions,
  { checkpoint }: ChainWriter,
  tip: ChainTip,
  signal: AbortSignal,
): Promise<ForkAnswer> {
  if (checkpoint === null) return 'agrees'
  if (tip.head.height < checkpoint.height) return 'unsure'
  const header =
    tip.head.height === checkpoint.height ? tip.head : await worker.source.header(checkpoint.height, signal)
  if (header === null) return 'unsure'
  return header.hash === checkpoint.hash ? 'agrees' : 'forked'
}

/** Why the node could not tell, for people. */
export const describeUnsure = ({ checkpoint }: ChainWriter, { head }: ChainTip): string =>
  head.height < (checkpoint?.height ?? 0)
    ? `the node's head ${head.height} is below the checkpoint ${checkpoint?.height}`
    : `the node has no block ${checkpoint?.height}, the checkpoint, though its head is ${head.height}`

/**
 * Takes the chain back to the fork point, in one transaction.
 *
 * @returns the writer at the fork point; null where the node's answers do not prove a fork
 * @throws DeepReorgError where more would go than may go by itself; nothing was deleted
 */
export async function resolveFork(
  worker: WorkerOptions,
  writer: ChainWriter,
  signal: AbortSignal,
): Promise<ChainWriter | null> {
  const { db, source, options, logger } = worker
  const { chain, checkpoint } = writer
  if (checkpoint === null) return null
  const header = await source.header(checkpoint.height, signal)
  if (header === null) return null
  if (header.hash === checkpoint.hash) {
    throw new MalformedAnswerError(
      chain,
      redactedNodes(worker),
      'the next block',
      `its parent is not block ${checkpoint.height} (${shortHash(checkpoint.hash)}), which the node still gives at that height`,
    )
  }
  const stored = await db.transaction((tx) => readStoredBlock(tx, chain, checkpoint.height))
  if (stored?.hash !== checkpoint.hash) return stepDown(worker, writer, checkpoint.height)
  const search = await findForkPoint({
    stored: storedBlocksDown(db, chain, checkpoint.height),
    readHeader: (height) => source.header(height, signal),
    startHeight: options.startHeight,
    rollbackDepthMax: options.rollbackDepthMax,
  })
  if (search.outcome === 'unsure') {
    logger.warn(
      { missing: search.missing },
      'fork could not be told from a node that is behind; nothing was deleted',
    )
    return null
  }
  if (search.outcome === 'too_deep') {
    throw new DeepReorgError(
      chain,
      search.lowest.height,
      options.rollbackDepthMax,
      search.lowest.hash,
      search.reported.hash,
    )
  }
  const to = search.outcome === 'fork_point' ? search.block : null
  if (worker.onFork === 'rewind') return askForRewind(worker, { ...writer, checkpoint }, to, signal)
  const { writer: back, removed } = await rollBack(db, { ...writer, checkpoint }, to)
  logger.warn(
    {
      checkpoint: checkpoint.height,
      stored: checkpoint.hash,
      reported: header.hash,
      forkPoint: to?.height ?? null,
      ...removed,
    },
    'fork was found and rolled back',
  )
  return back
}

/**
 * Under `onFork: rewind` everybody goes back to the fork point's time, and this chain to its height, since blocks may
 * share a time. Nothing is removed here: the worker finds its own row in its next round.
 */
async function askForRewind(
  worker: WorkerOptions,
  writer: ChainWriter & { readonly checkpoint: Checkpoint },
  to: BlockRef | null,
  signal: AbortSignal,
): Promise<null> {
  const { db, options, logger } = worker
  const from = to === null ? options.startHeight : ((to.height + 1) as Height)
  const timestamp = to?.time ?? (await beforeAllStored(worker, writer.checkpoint))
  const answer = await requestRewind(db, {
    request: {
      timestamp,
      reason: `fork of ${options.chain} above block ${to?.height ?? 'before its start'}`,
      who: `worker of ${options.chain}`,
      fork: { writer, from },
    },
    signal,
    ...(worker.onStep && { onStep: worker.onStep }),
  })
  logger.warn(
    {
      rewindId: answer.rewindId,
      outcome: answer.outcome,
      forkPoint: to?.height ?? null,
      to: formatTimeShort(timestamp),
    },
    'fork was found and a rewind of all chains was asked for',
  )
  return null
}

/** The chain's first block itself was replaced: just below the lowest stored time. */
async function beforeAllStored({ db, options }: WorkerOptions, checkpoint: Checkpoint): Promise<TimeUs> {
  let lowest = checkpoint.time
  for await (const block of storedBlocksDown(db, options.chain, null))
    if (block.time < lowest) lowest = block.time
  return (lowest - 1n) as TimeUs
}

/** The checkpoint came from a node in a rewind and is no stored block: it proves nothing, and nothing goes. */
async function stepDown(worker: WorkerOptions, writer: ChainWriter, height: number): Promise<ChainWriter> {
  const below = await worker.db.transaction((tx) => lastStoredBelow(tx, writer.chain, height))
  worker.logger.info(
    { checkpoint: height, storedBelow: below?.height ?? null },
    'checkpoint that was no stored block was left',
  )
  return stepDownTo(worker.db, writer, below)
}

const redactedNodes = (worker: WorkerOptions): string => `the node of ${worker.options.chain}`
