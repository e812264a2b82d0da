import type { ChainOptions } from '@lockstep/config'
import type { BlockRef, ChainTip, Height, NextStep, SourceBlock } from '@lockstep/domain'
import { MalformedAnswerError } from '@lockstep/domain'
import { type BlockBatch, type ChainWriter, readRewindState, writeBatch } from '@lockstep/store'
import type { WorkerOptions } from './worker-options.js'

export type Taken =
  | {
      readonly outcome: 'stored'
      readonly writer: ChainWriter
      readonly blocks: number
      readonly events: number
    }
  /** The block's parent is not the checkpoint. */
  | { readonly outcome: 'forked' }
  /** The node does not have the block (any more, or yet). */
  | { readonly outcome: 'not_there' }
  /** A rewind or pause was asked for while the node was still answering: the answer was dropped. */
  | { readonly outcome: 'interrupted' }

/** Heights per range: many enough to amortise a transaction, few enough that a request interrupts soon. */
export const rangeWidthMax = (options: ChainOptions): number =>
  options.kind === 'cosmos' ? 50 : options.blocks === 'all' ? 200 : 1000

/** Fetches and stores the next block. */
export async function takeBlock(
  worker: WorkerOptions,
  writer: ChainWriter,
  height: Height,
  tip: ChainTip,
  heard: number,
  signal: AbortSignal,
): Promise<Taken> {
  const fetched = await unlessRewound(worker, heard, signal, (fetch) => worker.source.block(height, fetch))
  if (fetched === 'interrupted') return { outcome: 'interrupted' }
  if (fetched.answer === null) return { outcome: 'not_there' }
  const block = fetched.answer
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
  heard: number,
  signal: AbortSignal,
): Promise<Taken> {
  const { options } = worker
  const fetched = await unlessRewound(worker, heard, signal, (fetch) =>
    worker.source.range(step.from, step.to, fetch),
  )
  if (fetched === 'interrupted') return { outcome: 'interrupted' }
  const { first, blocks, last } = fetched.answer
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
  return { outcome: 'stored', writer: await writeBatch(worker.db, writer, batch), blocks, events }
}

/** A block either becomes a fact or, if it is the last, is kept for linking. */
function split(
  options: ChainOptions,
  blocks: readonly SourceBlock[],
  last: BlockRef,
  tip: ChainTip,
  range: BlockBatch['range'],
): BlockBatch {
  const facts = options.blocks === 'all' ? blocks : blocks.filter((block) => block.events.length > 0)
  const headers = facts.at(-1)?.ref.height === last.height ? [] : [last]
  return { facts, headers, last, finalized: tip.finalized, range }
}

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

/**
 * Fetches, but does not wait for the node longer than until a rewind or pause is asked for: a slow node must not hold
 * up every chain.
 */
async function unlessRewound<T>(
  worker: WorkerOptions,
  heard: number,
  signal: AbortSignal,
  fetch: (signal: AbortSignal) => Promise<T>,
): Promise<{ answer: T } | 'interrupted'> {
  const abort = new AbortController()
  const answer = fetch(AbortSignal.any([signal, abort.signal])).then((value) => ({ answer: value }))
  answer.catch(() => {}) // an answer that fails after it was dropped concerns nobody
  try {
    for (let since = heard; ; ) {
      const woken = worker.listener.wait(since, worker.rewind.pollMs, abort.signal).then(() => null)
      const result = await Promise.race([answer, woken])
      if (result !== null) return result
      since = worker.listener.heard
      const { lock, pause } = await worker.db.transaction(readRewindState)
      if (lock || pause) return 'interrupted'
    }
  } finally {
    abort.abort()
  }
}
