import type { ChainOptions } from '@lockstep/config'
import {
  type ChainSource,
  DatabaseUnavailableError,
  describeError,
  type Height,
  type Hex,
  shortHash,
} from '@lockstep/domain'
import {
  compareStored,
  type Database,
  digestChain,
  type FactDifference,
  type GapInWords,
  readChain,
  readCheckpoint,
  readChildren,
  readConfigChange,
  readGapsInWords,
  readStoredBlock,
  type TableDigest,
} from '@lockstep/store'

/** One stretch of a chain, compared with its node. */
export interface VerifiedRange {
  readonly from: Height
  readonly to: Height
  readonly blocks: number
  readonly events: number
  /** Empty: what is stored is what the chain says. */
  readonly problems: readonly string[]
}

export interface ChainVerification {
  readonly chain: string
  readonly from: Height
  readonly to: Height | null
  readonly ranges: number
  readonly blocks: number
  readonly events: number
  readonly problems: readonly string[]
  readonly digests: readonly TableDigest[]
  /** What was not compared, and why: an open gap, a config that is not taken over yet. */
  readonly notCompared: readonly string[]
}

export interface VerifyOptions {
  readonly db: Database
  readonly source: ChainSource
  readonly options: ChainOptions
  /** The lowest height looked at; null: the chain's start. */
  readonly from: Height | null
  readonly onRange?: (range: VerifiedRange) => void
  readonly signal?: AbortSignal
}

/** Few enough that a stretch fits into memory, whatever the chain. */
const heightsPerRange = (options: ChainOptions): number => (options.kind === 'cosmos' ? 50 : 500)

/**
 * Proves from the node and from the facts that what is stored up to the checkpoint is what the chain says: every block
 * and event of each range is fetched anew and compared, ranges link by their hashes, and the checkpoint is on the chain.
 * Changes nothing.
 */
export async function verifyChain(verify: VerifyOptions): Promise<ChainVerification> {
  const { db, options } = verify
  const { checkpoint, registered, children, gaps, changed } = await db.transaction(async (tx) => ({
    checkpoint: await readCheckpoint(tx, options.chain),
    registered: await readChain(tx, options.chain),
    children: await readChildren(tx, options.chain),
    gaps: (await readGapsInWords(tx)).filter((gap) => gap.chain === options.chain),
    changed: (await readConfigChange(tx, options)) !== null,
  }))
  // Where what is stored begins, which the config may have changed since.
  const start = registered?.startHeight ?? options.startHeight
  const from = Math.max(verify.from ?? start, start) as Height
  const total = { ranges: 0, blocks: 0, events: 0, problems: [] as string[] }
  const notCompared = changed ? [CHANGED] : gaps.map(describeGap)
  let parent: Hex | null = null
  const source = verify.source.asking({ children, only: null })
  const stretches =
    checkpoint === null || changed
      ? []
      : stretchesBetween(gaps, from, checkpoint.height, heightsPerRange(options))
  for (const [index, { low, high }] of stretches.entries()) {
    verify.signal?.throwIfAborted()
    if (stretches[index - 1]?.high !== low - 1) parent = null // a gap lies between
    const { range, last } = await verifyRange({ ...verify, source }, low, high, parent)
    parent = last
    total.ranges += 1
    total.blocks += range.blocks
    total.events += range.events
    total.problems.push(...range.problems)
    verify.onRange?.(range)
  }
  const reached = stretches.at(-1)?.high === checkpoint?.height
  if (checkpoint !== null && reached && parent !== null && parent !== checkpoint.hash) {
    total.problems.push(
      `the checkpoint ${checkpoint.height} is ${shortHash(checkpoint.hash)}, but ${shortHash(parent)} on the chain`,
    )
  }
  const to = checkpoint?.height ?? null
  return {
    chain: options.chain,
    from,
    to,
    ...total,
    notCompared,
    digests: await digestChain(db, options.chain, to),
  }
}

const CHANGED =
  'the config was changed since it was indexed: its worker makes what is stored follow when it starts; nothing was compared'

const describeGap = ({ what, from, to }: GapInWords): string =>
  `a gap is open: blocks ${from} to ${to} are still missing for ${what.join(', ')}, and were not compared`

/** What is compared at once: `from..to` without the heights that a gap leaves open. */
function stretchesBetween(
  gaps: readonly GapInWords[],
  from: Height,
  to: Height,
  width: number,
): { low: Height; high: Height }[] {
  const stretches: { low: Height; high: Height }[] = []
  for (let low: number = from; low <= to; ) {
    const gap = gaps.find((each) => each.from <= low && low <= each.to)
    const next = gaps.filter((each) => each.from > low).map((each) => each.from - 1)
    const high = gap !== undefined ? gap.to : Math.min(low + width - 1, to, ...next)
    if (gap === undefined) stretches.push({ low: low as Height, high: high as Height })
    low = high + 1
  }
  return stretches
}

async function verifyRange(
  { db, source, options, signal }: VerifyOptions,
  from: Height,
  to: Height,
  parent: Hex | null,
): Promise<{ range: VerifiedRange; last: Hex | null }> {
  const empty = { from, to, blocks: 0, events: 0 }
  try {
    const { first, blocks, last } = await source.range(from, to, signal)
    const facts = options.blocks === 'all' ? blocks : blocks.filter((block) => block.events.length > 0)
    const { compared, below } = await db.transaction(async (tx) => ({
      compared: await compareStored(tx, options.chain, { from, to }, facts),
      below: from === 0 ? null : await readStoredBlock(tx, options.chain, (from - 1) as Height),
    }))
    const expected = parent ?? below?.hash ?? null
    const link =
      expected !== null && first.parentHash !== expected
        ? [
            `block ${from} does not link to block ${from - 1}: it names ${shortHash(first.parentHash)}, not ${shortHash(expected)}`,
          ]
        : []
    const cut = compared.truncated ? [`blocks ${from} to ${to}: and more, which are not listed`] : []
    const problems = [...link, ...compared.differences.map(describeDifference), ...cut]
    return {
      range: { from, to, blocks: compared.blocks, events: compared.events, problems },
      last: last.hash,
    }
  } catch (error) {
    signal?.throwIfAborted()
    if (error instanceof DatabaseUnavailableError) throw error
    const problem = `blocks ${from} to ${to} could not be verified: ${describeError(error).split('\n')[0]}`
    return { range: { ...empty, problems: [problem] }, last: null }
  }
}

function describeDifference({ table, side, height, row }: FactDifference): string {
  const { tx_index, event_index, name, contract, address } = JSON.parse(row) as {
    tx_index?: number
    event_index?: number
    name?: string
    contract?: string
    address?: string
  }
  const what = {
    block: 'the block',
    transaction: `transaction ${tx_index}`,
    event: `event ${event_index} of transaction ${tx_index} (${name})`,
    contract_registry: `contract ${address} of ${contract}, which its event ${event_index} tells of,`,
  }[table]
  return `block ${height}: ${what} ${side === 'missing' ? 'is missing from the tables' : 'is stored, but not on the chain'}`
}
