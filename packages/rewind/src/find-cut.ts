import {
  type BlockRef,
  type ChainSource,
  type CutBracket,
  describeError,
  type Height,
  type Hex,
  searchCut,
  type TimeUs,
} from '@lockstep/domain'
import {
  type ChainRewind,
  type Checkpoint,
  checkpointOf,
  type Database,
  lastStoredBelow,
  readChain,
  readCheckpoint,
  readStoredBlock,
  readTimeAt,
} from '@lockstep/store'

/** Where a chain's checkpoint goes, and how that was found. What is removed depends on `from` alone. */
export interface Cut {
  readonly checkpoint: Checkpoint | null
  readonly by: 'unchanged' | 'stored' | 'search' | 'hint'
  /** Headers read from the node. */
  readonly reads: number
  /** Why the node was not, or could not be, asked. */
  readonly note: string | null
}

export interface CutOptions {
  /** Null: decide from the database alone. */
  readonly source: ChainSource | null
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

/**
 * Finds the height a chain goes back to. Stored blocks decide what goes; between the last stored block that stays and
 * the first that goes, the exact height is searched over the node. Where no node can tell, the last stored block
 * serves: going forward from there finds nothing twice, since nothing is stored in between.
 */
export async function findCut(
  db: Database,
  row: Pick<ChainRewind, 'chain' | 'from' | 'cutHint' | 'timestamp'>,
  options: CutOptions,
): Promise<Cut> {
  const { from } = row
  const stored = await db.transaction((tx) => readBracket(tx, row.chain, from))
  if (from === null) return { checkpoint: stored.checkpoint, by: 'unchanged', reads: 0, note: null }
  const bracket = {
    low: stored.below,
    lowHeight: stored.below?.height ?? stored.startHeight - 1,
    highHeight: from,
    highTime: stored.fromTime,
    highHash: stored.fromHash,
  }
  const fallback = { checkpoint: checkpointOf(stored.below), by: 'stored', reads: 0 } as const
  if (bracket.highHeight - bracket.lowHeight <= 1) return { ...fallback, note: null }
  const search = await searchWithin(row.timestamp, bracket, options)
  if (search.found)
    return { checkpoint: checkpointOf(search.block), by: 'search', reads: search.reads, note: null }
  const hint = row.cutHint
  if (hint !== null && hint.height < from && hint.height > bracket.lowHeight) {
    return { checkpoint: hint, by: 'hint', reads: search.reads, note: search.note }
  }
  return { ...fallback, reads: search.reads, note: search.note }
}

async function readBracket(
  tx: Parameters<typeof readChain>[0],
  chain: ChainRewind['chain'],
  from: Height | null,
) {
  const registered = await readChain(tx, chain)
  return {
    startHeight: registered?.startHeight ?? 0,
    checkpoint: await readCheckpoint(tx, chain),
    below: from === null ? null : await lastStoredBelow(tx, chain, from),
    fromTime: (from === null ? null : await readTimeAt(tx, chain, from)) ?? (0n as TimeUs),
    fromHash: from === null ? null : await readHashAt(tx, chain, from),
  }
}

async function readHashAt(
  tx: Parameters<typeof readChain>[0],
  chain: ChainRewind['chain'],
  from: Height,
): Promise<Hex | null> {
  const block = (await readStoredBlock(tx, chain, from)) ?? (await readCheckpoint(tx, chain))
  return block?.height === from ? block.hash : null
}

type Search =
  | { readonly found: true; readonly block: BlockRef | null; readonly reads: number }
  | { readonly found: false; readonly reads: number; readonly note: string }

interface Bracket extends CutBracket {
  /** Of the stored block that goes first. */
  readonly highHash: Hex | null
}

/** Nobody waits for a node longer than `timeoutMs`, and nothing that a node says or fails to say ends a rewind. */
async function searchWithin(target: TimeUs, bracket: Bracket, options: CutOptions): Promise<Search> {
  const { source } = options
  if (source === null) return { found: false, reads: 0, note: 'no node was asked' }
  const limit = AbortSignal.timeout(options.timeoutMs)
  const signal = options.signal ? AbortSignal.any([limit, options.signal]) : limit
  let reads = 0
  const readHeader = (height: Height): Promise<BlockRef | null> => {
    reads += 1
    return source.header(height, signal)
  }
  try {
    const search = await searchCut(target, bracket, readHeader)
    if (!search.found) return { found: false, reads, note: `the node has no block ${search.missing}` }
    const { block, above } = search
    const doubt =
      block === null || block.height === bracket.lowHeight // nothing of the node's: needs no proof
        ? null
        : await doubtBranch(block, above, bracket, readHeader)
    return doubt === null ? { found: true, block, reads } : { found: false, reads, note: doubt }
  } catch (error) {
    options.signal?.throwIfAborted()
    const note = limit.aborted ? `the node took longer than ${options.timeoutMs} ms` : describeError(error)
    return { found: false, reads, note }
  }
}

/**
 * Why the cut may lie on another branch than what is stored; null: it is on the same. Heights between the stored blocks
 * were found empty on the stored branch alone. On another one they may hold events, which would be missed for ever if
 * its block became the checkpoint. A node may also change branches and back while it is asked, or stand for several
 * (behind one address): so the cut is looked at before *and after* the stored block above it was.
 */
async function doubtBranch(
  cut: BlockRef,
  above: BlockRef | null,
  bracket: Bracket,
  readHeader: (height: Height) => Promise<BlockRef | null>,
): Promise<string | null> {
  const switched = 'the node changed branches while it was asked'
  if (above !== null && above.parentHash !== null && above.parentHash !== cut.hash) return switched
  const high = await readHeader(bracket.highHeight as Height)
  if (high === null || high.hash !== bracket.highHash)
    return `the node has another block ${bracket.highHeight} than is stored`
  if (cut.height === bracket.highHeight - 1 && high.parentHash !== null)
    return high.parentHash === cut.hash ? null : switched
  const again = await readHeader(cut.height)
  return again !== null && again.hash === cut.hash ? null : switched
}
