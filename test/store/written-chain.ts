import { createHash } from 'node:crypto'
import type { ChainOptions } from '@lockstep/config'
import {
  type BlockRef,
  type ChainKey,
  chainKey,
  type EventFact,
  type Height,
  type Hex,
  height,
  NO_BYTES,
  type SourceBlock,
  type TimeUs,
  timeFromSeconds,
} from '@lockstep/domain'
import {
  acquireChainLease,
  type BlockBatch,
  type ChainWriter,
  childRows,
  type Database,
  readCheckpoint,
  writeBatch,
} from '@lockstep/store'
import { evmChainOptions } from '@lockstep/testkit'

/*
 * Chains that a test writes by hand: what a source would give, without a node.
 */

export const ALPHA = chainKey('alpha')
export const BETA = chainKey('beta')
export const GAMMA = chainKey('gamma')

/** Block times of hand-written chains count from here, so that a test can say "at 100". */
const ORIGIN_SECONDS = 1_700_000_000

/** The time `seconds` after the origin. */
export const at = (seconds: number): TimeUs => timeFromSeconds(ORIGIN_SECONDS + seconds)

/** Options of a chain that asks no node, unless one is given. */
export const chainOptions = (chain: ChainKey, given: Partial<ChainOptions> = {}): ChainOptions =>
  ({ ...evmChainOptions({ rpc: ['http://127.0.0.1:9'], chain }), ...given }) as ChainOptions

export const hashOf = (text: string): Hex => `0x${createHash('sha256').update(text).digest('hex')}`

/** A block of branch `branch`; its parent is the block below it on the same branch, or on `parentBranch`. */
export const block = (
  h: number,
  seconds: number,
  { branch = 'A', parentBranch = branch }: { branch?: string; parentBranch?: string } = {},
): BlockRef => ({
  height: height(h),
  hash: hashOf(`${branch}${h}`),
  parentHash: h === 0 ? null : hashOf(`${parentBranch}${h - 1}`),
  time: at(seconds),
})

/** One event, in transaction 0 unless said otherwise. */
export const event = (eventIndex: number, given: Partial<EventFact> = {}): EventFact => ({
  txIndex: 0,
  eventIndex,
  txHash: hashOf(`transaction ${given.txIndex ?? 0}`),
  contract: 'token',
  address: `0x${'70'.repeat(20)}`,
  name: 'Transfer',
  args: { from: `0x${'0a'.repeat(20)}`, to: `0x${'0b'.repeat(20)}`, value: String(eventIndex) },
  raw: { topics: [hashOf('Transfer')], data: NO_BYTES },
  undecoded: null,
  ...given,
})

export const withEvents = (ref: BlockRef, ...events: readonly EventFact[]): SourceBlock => ({
  ref,
  events,
  children: [],
  transactions: [],
})

/** The batch that stores `facts`, and `headers` for linking; the highest of them is the next checkpoint. */
export function batchOf(
  facts: readonly SourceBlock[],
  {
    headers = [],
    finalized = null,
    range = null,
    children = childRows(facts),
  }: Partial<Omit<BlockBatch, 'facts' | 'last'>> = {},
): BlockBatch {
  const refs = [...facts.map(({ ref }) => ref), ...headers].sort((a, b) => a.height - b.height)
  return { facts, headers, children, finalized, range, last: refs.at(-1) as BlockRef }
}

/** Takes the chain's lease; the holder is that of `db`. Long enough not to matter, unless said otherwise. */
export async function takeChain(db: Database, chain: ChainKey, leaseMs = 600_000): Promise<ChainWriter> {
  const lease = await acquireChainLease(db, chain, leaseMs)
  if (!('token' in lease)) throw new Error(`${chain} is held by ${lease.holder}`)
  return { chain, lease, checkpoint: await db.transaction((tx) => readCheckpoint(tx, chain)) }
}

/**
 * Stores `[height, seconds]` pairs, each as a write of its own, as a worker at the head does: a fact with one event,
 * or only a header where the pair is marked so.
 */
export async function writeBlocks(
  db: Database,
  writer: ChainWriter,
  blocks: readonly (readonly [height: number, seconds: number, only?: 'header'])[],
  branch?: string,
): Promise<ChainWriter> {
  let now = writer
  for (const [h, seconds, only] of blocks) {
    const ref = block(h, seconds, { branch: branch ?? writer.chain })
    const batch =
      only === 'header'
        ? batchOf([], { headers: [ref] })
        : batchOf([withEvents(ref, event(0, { txHash: hashOf(`${writer.chain} ${h}`) }))])
    now = await writeBatch(db, now, batch)
  }
  return now
}

/** `from..to`, a second apart, each with one event: `[from, first], [from + 1, first + step], …`. */
export const steady = (from: number, to: number, first = from, step = 1): [number, number][] =>
  Array.from({ length: to - from + 1 }, (_, index) => [from + index, first + index * step])

export const heightOf = (writer: ChainWriter): Height | null => writer.checkpoint?.height ?? null
