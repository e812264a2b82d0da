import type { ChainOptions } from '@lockstep/config'
import { ChainChangedError, type ChainKey, type Gap, type Height } from '@lockstep/domain'
import { type RegisteredChain, readChain, writeSettings } from './chains.js'
import { type ChainWriter, type Checkpoint, setCheckpoint } from './checkpoint.js'
import {
  type ConfigChange,
  type CoveredFilter,
  changeOf,
  describeFilter,
  EVERY_BLOCK,
  refusedChange,
  TRANSACTIONS,
} from './config-change.js'
import { openGaps, putCovered, putGaps, readCovered, readGaps } from './covered-filters.js'
import type { Database, Tx } from './database.js'
import { type Removed, removeAbove } from './facts.js'
import { shortenRanges } from './ranges.js'
import { notify, raiseEpoch } from './rewind-rows.js'
import { lockKeyShared, refuseDuringRewind } from './write-key.js'

/** What taking over a changed config has done, for the log. */
export interface AdoptedConfig {
  readonly writer: ChainWriter
  readonly change: ConfigChange
  readonly removed: Removed & { readonly contracts: number }
  readonly gaps: readonly Gap[]
}

/** Whether a chain's facts were indexed under another config. A look: `adoptConfig` decides again under its lock. */
export async function readConfigChange(tx: Tx, options: ChainOptions): Promise<ConfigChange | null> {
  const registered = await readChain(tx, options.chain)
  return registered && changeOf(registered, await readCovered(tx, options.chain), options)
}

/**
 * Makes what is stored follow a changed config, in one transaction: what a fresh index would not hold goes, and what it
 * would hold beyond becomes gaps, which the chain's worker fills afterwards. An empty chain just takes the config.
 *
 * @throws ChainChangedError where what is stored is of another chain; nothing was changed
 */
export async function adoptConfig(
  db: Database,
  writer: ChainWriter,
  options: ChainOptions,
): Promise<AdoptedConfig | null> {
  const { chain } = writer
  const checkpoint = stillAbove(writer.checkpoint, options.startHeight)
  return db.transaction(async (tx) => {
    await lockKeyShared(tx)
    await refuseDuringRewind(tx)
    await setCheckpoint(tx, writer, checkpoint)
    const registered = await readChain(tx, chain)
    const covered = await readCovered(tx, chain)
    const change = registered && changeOf(registered, covered, options)
    if (registered === null || change === null) return null
    if (writer.checkpoint !== null) refuseWhatCannotBe(registered, covered.length === 0, options)
    const before = await readGaps(tx, chain)
    const removed = checkpoint === null ? await removeAll(tx, chain) : await removeGone(tx, chain, change)
    await putCovered(tx, chain, change.filters)
    await renameRanges(tx, chain, registered.filterDigest, options.filterDigest)
    await writeSettings(tx, options)
    const gaps =
      checkpoint === null
        ? []
        : gapsAfter(before, known(covered, change), checkpoint.height, removed.contracts > 0)
    await putGaps(tx, chain, gaps)
    if (writer.checkpoint !== null) await recordChange(tx, chain, change, removed)
    if (removed.blocks + removed.events + removed.contracts > 0) {
      await notify(tx, 'release')
      await raiseEpoch(tx)
    }
    return { writer: { ...writer, checkpoint }, change, removed, gaps }
  })
}

/** A start above the checkpoint leaves nothing. */
const stillAbove = (checkpoint: Checkpoint | null, start: Height): Checkpoint | null =>
  checkpoint !== null && checkpoint.height < start ? null : checkpoint

function refuseWhatCannotBe(registered: RegisteredChain, unrecorded: boolean, options: ChainOptions): void {
  const refused = refusedChange(registered, options)
  if (refused !== null) throw refused
  // Indexed before filters were recorded: which of its facts are of which filter is known only under the same config.
  if (!unrecorded || registered.filterDigest === options.filterDigest) return
  throw new ChainChangedError(
    options.chain,
    'contracts, events or blocks (digest)',
    registered.filterDigest.slice(0, 12),
    options.filterDigest.slice(0, 12),
  )
}

/** Where filters were not recorded yet, the same config says that all of them are covered; the start may be another. */
const known = (covered: readonly CoveredFilter[], change: ConfigChange): ConfigChange =>
  covered.length === 0 ? { ...change, added: [], refetched: [] } : change

function gapsAfter(
  before: readonly Gap[],
  { added, refetched, removed, start, filters }: ConfigChange,
  checkpoint: Height,
  childrenWent: boolean,
): Gap[] {
  const gone = new Set(removed.map(({ filter }) => filter))
  const kept = before.flatMap((gap) =>
    gone.has(gap.filter) || gap.to < start.is
      ? []
      : [{ ...gap, from: Math.max(gap.from, start.is) as Height }],
  )
  const earlier = openGaps(kept, filters, start.is, Math.min(start.was - 1, checkpoint))
  // A child whose first event lies below a later start may be told of again above it.
  const whole = childrenWent && start.is > start.was ? filters : [...added, ...refetched]
  return openGaps(earlier, whole, start.is, checkpoint)
}

async function removeAll(tx: Tx, chain: ChainKey): Promise<AdoptedConfig['removed']> {
  const { rowCount: contracts } = await tx.query('delete from contract_registry where chain = $1', [chain])
  const removed = await removeAbove(tx, chain, null)
  await shortenRanges(tx, chain, null)
  return { ...removed, contracts: contracts ?? 0 }
}

async function removeGone(tx: Tx, chain: ChainKey, change: ConfigChange): Promise<AdoptedConfig['removed']> {
  const contracts = await removeChildrenOf(tx, chain, change)
  const children = await removeChildrenBelow(tx, chain, change.start)
  const { rowCount: ofFilters } = await tx.query(REMOVE_OF_FILTERS, [
    chain,
    change.removed.map(({ contract }) => contract),
    change.removed.map(({ name }) => name),
  ])
  const { rowCount: below } = await tx.query('delete from event where chain = $1 and height < $2', [
    chain,
    change.start.is,
  ])
  const transactions = change.filters.some(({ filter }) => filter === TRANSACTIONS.filter)
  await tx.query(REMOVE_TRANSACTIONS, [chain, transactions])
  const blocks = await removeEmptied(tx, chain, change)
  return {
    blocks,
    events: (ofFilters ?? 0) + (below ?? 0) + children.events,
    contracts: contracts + children.contracts,
  }
}

const REMOVE_OF_FILTERS = `
  delete from event using unnest($2::text[], $3::text[]) as gone (contract, name)
  where event.chain = $1 and event.contract = gone.contract and (gone.name is null or event.name = gone.name)`

/** All of them where they are not asked for, else those that hold no event any more. */
const REMOVE_TRANSACTIONS = `
  delete from transaction t where t.chain = $1 and (not $2 or not exists (
    select from event e where e.chain = $1 and e.height = t.height and e.tx_index = t.tx_index))`

/** Children of a contract none of whose filters stayed: the factory that tells of them may be another now. */
async function removeChildrenOf(tx: Tx, chain: ChainKey, { removed, added, filters }: ConfigChange) {
  const fresh = new Set(added.map(({ filter }) => filter))
  const stayed = new Set(filters.filter(({ filter }) => !fresh.has(filter)).map(({ contract }) => contract))
  const gone = removed.map(({ contract }) => contract).filter((contract) => !stayed.has(contract))
  const { rowCount } = await tx.query(
    'delete from contract_registry where chain = $1 and contract = any($2)',
    [chain, gone],
  )
  return rowCount ?? 0
}

/**
 * An index that begins at a later start has never heard of the children below it, nor of what they emitted since, nor
 * of the children that this tells of.
 */
async function removeChildrenBelow(
  tx: Tx,
  chain: ChainKey,
  { was, is }: ConfigChange['start'],
): Promise<{ events: number; contracts: number }> {
  const removed = { events: 0, contracts: 0 }
  if (is <= was) return removed
  for (;;) {
    const { rows } = await tx.query<{ events: number; contracts: number }>(REMOVE_UNTOLD, [chain, is])
    const { events, contracts } = rows[0] ?? removed
    if (contracts === 0) return removed
    removed.events += events
    removed.contracts += contracts
  }
}

/** What the children of a generation tell of is found when their events are gone. */
const REMOVE_UNTOLD = `
  with untold as (
      delete from contract_registry child where child.chain = $1 and (child.height < $2 or not exists (
        select from event e where e.chain = $1 and e.height = child.height and e.tx_index = child.tx_index
          and e.event_index = child.event_index)) returning contract, address),
    emitted as (
      delete from event e using untold where e.chain = $1 and e.contract = untold.contract
        and e.address = untold.address returning 1)
  select (select count(*)::int from emitted) as events, (select count(*)::int from untold) as contracts`

/**
 * Blocks that are facts no more: those below the start, and those without an event unless every block is one. The
 * latter are kept for linking (a fork is found by them) until the next write drops what is finalized.
 */
async function removeEmptied(tx: Tx, chain: ChainKey, { start, filters }: ConfigChange): Promise<number> {
  await tx.query('delete from header where chain = $1 and height < $2', [chain, start.is])
  const { rowCount: below } = await tx.query('delete from block where chain = $1 and height < $2', [
    chain,
    start.is,
  ])
  if (filters.some(({ filter }) => filter === EVERY_BLOCK.filter)) return below ?? 0
  const { rowCount: emptied } = await tx.query(
    `with emptied as (
       delete from block where chain = $1
         and not exists (select from event where event.chain = $1 and event.height = block.height) returning *)
     insert into header select * from emptied`,
    [chain],
  )
  return (below ?? 0) + (emptied ?? 0)
}

/** The plan of the way forward goes by the digest of the whole config. */
async function renameRanges(tx: Tx, chain: ChainKey, was: string, is: string): Promise<void> {
  if (was === is) return
  await tx.query('delete from backfill_ranges where chain = $1 and filter = $2', [chain, is])
  await tx.query('update backfill_ranges set filter = $3 where chain = $1 and filter = $2', [chain, was, is])
}

async function recordChange(
  tx: Tx,
  chain: ChainKey,
  { added, refetched, removed, start }: ConfigChange,
  went: AdoptedConfig['removed'],
): Promise<void> {
  await tx.query(
    `insert into config_change (chain, start_before, start_after, added, refetched, removed, blocks_removed,
       events_removed, contracts_removed) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      chain,
      start.was,
      start.is,
      added.map(describeFilter),
      refetched.map(describeFilter),
      removed.map(describeFilter),
      went.blocks,
      went.events,
      went.contracts,
    ],
  )
}
