import type { ChainOptions } from '@lockstep/config'
import type { BlockRef, ChainTip, Height, NextStep, SourceBlock } from '@lockstep/domain'
import { MalformedAnswerError } from '@lockstep/domain'
import { type BlockBatch, type ChainWriter, type ChildRow, childRows, writeBatch } from '@lockstep/store'
import type { WorkerOptions } from './worker-options.js'

export type Taken =
  | {
      readonly outcome: 'stored'
      readonly writer: ChainWriter
      readonly blocks: number
      readonly events: number
      /** Contracts that the blocks tell of. */
      readonly children: readonly ChildRow[]
    }
  /** The block's parent is not the checkpoint. */
  | { readonly outcome: 'forked' }
  /** The node does not have the block (any more, or yet). */
  | { readonly outcome: 'not_there' }

/** Heights per range: many enough to amortise a transaction, few enough that a request interrupts soon. */
export const rangeWidthMax = (options: ChainOptions): number =>
  options.kind === 'cosmos' ? 50 : options.blocks === 'all' ? 200 : 1000

/** Fetches and stores the next block. */
export async function takeBlock(
  worker: WorkerOptions,
  writer: ChainWriter,
  height: Height,
  tip: ChainTip,
  signal: AbortSignal,
): Promise<Taken> {
  const block = await worker.source.block(height, signal)
  if (block === null) return { outcome: 'not_there' }
  if (!linksTo(writer, block.ref)) return { outcome: 'forked' }
  const batch = split(worker.options, [block], block.ref, tip, null)
  return store(worker, writer, batch, 1)
}

/** Fetches and stores a stretch of finalized blocks. */
export async function takeRange(
  worker: WorkerOptions,
  writer: ChainWriter,
  step: Extract<NextStep, { do: 'range' }>,
  tip: ChainTip,
  signal: AbortSignal,
): Promise<Taken> {
  const { options } = worker
  const { first, blocks, last } = await worker.source.range(step.from, step.to, signal)
  if (!linksTo(writer, first)) return { outcome: 'forked' }
  const planTo = Math.min(tip.finalized ?? step.to, options.endHeight ?? Number.MAX_SAFE_INTEGER) as Height
  const range = { filter: options.filterDigest, from: step.from, to: step.to, planTo }
  return store(worker, writer, split(options, blocks, last, tip, range), step.to - step.from + 1)
}

async function store(
  worker: WorkerOptions,
  writer: ChainWriter,
  batch: BlockBatch,
  blocks: number,
): Promise<Taken> {
  const events = batch.facts.reduce((sum, block) => sum + block.events.length, 0)
  const { children } = batch
  return { outcome: 'stored', writer: await writeBatch(worker.db, writer, batch), blocks, events, children }
}

/** A block either becomes a fact or, if it is the last, is kept for linking. */
function split(
  options: ChainOptions,
  blocks: readonly SourceBlock[],
  last: BlockRef,
  tip: ChainTip,
  range: BlockBatch['range'],
): BlockBatch {
  const facts = factsOf(options, blocks)
  const headers = facts.at(-1)?.ref.height === last.height ? [] : [last]
  return { facts, headers, children: childRows(blocks), last, finalized: tip.finalized, range }
}

/** The blocks that are stored: those that hold an event, or all where so configured. */
export const factsOf = (options: ChainOptions, blocks: readonly SourceBlock[]): readonly SourceBlock[] =>
  options.blocks === 'all' ? blocks : blocks.filter((block) => block.events.length > 0)

/** A chain's very first block may name no parent; any other names the one below it. */
function linksTo({ chain, checkpoint }: ChainWriter, block: BlockRef): boolean {
  if (checkpoint === null) return true
  if (block.parentHash === null) {
    throw new MalformedAnswerError(
      chain,
      `the node of ${chain}`,
      `block ${block.height}`,
      'it names no parent',
    )
  }
  return block.parentHash === checkpoint.hash
}
