import {
  type ChainTip,
  type GapPiece,
  type KnownChildren,
  MalformedAnswerError,
  nextPiece,
  type SourceRange,
  shortHash,
} from '@lockstep/domain'
import { type ChainWriter, childRows, type FilledGap, writeGap } from '@lockstep/store'
import { checkForFork } from './fork.js'
import { factsOf, rangeWidthMax } from './forward.js'
import type { WorkerOptions } from './worker-options.js'

export type GapStep =
  | (Extract<FilledGap, { outcome: 'filled' }> & {
      readonly blocks: number
      readonly events: number
      readonly piece: GapPiece
    })
  /** The checkpoint is not on the node's chain any more. */
  | { readonly outcome: 'forked' }
  /** The node does not have the block (any more, or yet), or cannot tell. */
  | { readonly outcome: 'not_there' }

/**
 * Fetches the next piece of the gaps, for just the filters that miss it, and stores it below the checkpoint.
 *
 * @throws MalformedAnswerError where the node gives other blocks than are stored, though it has the checkpoint
 */
export async function fillNextGap(
  worker: WorkerOptions,
  writer: ChainWriter,
  gaps: Parameters<typeof nextPiece>[0],
  known: { readonly children: KnownChildren; readonly tip: ChainTip },
  signal: AbortSignal,
): Promise<GapStep> {
  const { options } = worker
  const piece = nextPiece(gaps, rangeWidthMax(options), known.tip.finalized)
  if (piece === null) return { outcome: 'not_there' }
  const range = await fetchPiece(worker, piece, known.children, signal)
  if (range === null) return { outcome: 'not_there' }
  const { first, last, blocks } = range
  const facts = factsOf(options, blocks)
  const filled = await writeGap(worker.db, writer, {
    piece,
    first,
    last,
    facts,
    children: childRows(blocks),
  })
  if (filled.outcome === 'disagrees') return explain(worker, writer, filled, signal)
  const events = facts.reduce((sum, block) => sum + block.events.length, 0)
  return { ...filled, piece, blocks: piece.to - piece.from + 1, events }
}

/** Above the finalized height a block by itself: what proves a range is not enough where a node's logs lag behind. */
async function fetchPiece(
  worker: WorkerOptions,
  { from, to, filters }: GapPiece,
  children: KnownChildren,
  signal: AbortSignal,
): Promise<SourceRange | null> {
  const source = worker.source.asking({ children, only: new Set(filters) })
  if (from < to) return source.range(from, to, signal)
  const block = await source.block(from, signal)
  return block && { first: block.ref, blocks: [block], last: block.ref }
}

/** Other blocks below the checkpoint: a fork where the checkpoint itself was replaced, else an answer that is wrong. */
async function explain(
  worker: WorkerOptions,
  writer: ChainWriter,
  { height, stored, reported }: Extract<FilledGap, { outcome: 'disagrees' }>,
  signal: AbortSignal,
): Promise<GapStep> {
  const answer = await checkForFork(worker, writer, await worker.source.tip(signal), signal)
  if (answer === 'forked') return { outcome: 'forked' }
  if (answer === 'unsure') return { outcome: 'not_there' }
  const { chain } = writer
  throw new MalformedAnswerError(
    chain,
    `the node of ${chain}`,
    `block ${height}`,
    `it is ${shortHash(reported)}, but ${shortHash(stored)} is stored, and the node still has the checkpoint ${writer.checkpoint?.height}`,
  )
}
