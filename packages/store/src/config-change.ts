import { type ChainOptions, type FilterOptions, filtersOf, selectionsMeet } from '@lockstep/config'
import { ChainChangedError, type Height } from '@lockstep/domain'
import type { RegisteredChain } from './chains.js'

/*
 * What a changed config means for the facts that are stored, decided without a database.
 *
 * A log that fits two filters belongs to the first, so a filter can own other logs than before though nothing of it was
 * changed: where one that stood before it has gone or stands behind it now. Such a filter is fetched again, and the rows
 * that it owns now are replaced by its own (`insertGapEvents`). Filters that cannot fit the same log are left alone.
 */

/** A filter that the facts of a chain cover, in the order of the config. */
export type CoveredFilter = Omit<FilterOptions, 'toldBy'>

/** A setting of the chain that has facts of its own beside events stands as a filter that no event fits. */
const settingFilter = (setting: string): FilterOptions => ({
  filter: setting,
  contract: '',
  event: setting,
  name: null,
  selection: { event: null, action: null, addresses: [] },
  toldBy: [],
})

/** `blocks: all` */
export const EVERY_BLOCK = settingFilter('every block')
/** `transactions: true` */
export const TRANSACTIONS = settingFilter('transactions')

export interface ConfigChange {
  /** Not there before: to be fetched from the start to the checkpoint. */
  readonly added: readonly CoveredFilter[]
  /** There before, but other logs may be theirs now, or they tell of children that are looked for now. */
  readonly refetched: readonly CoveredFilter[]
  /** Their facts go: a fresh index would not hold them. */
  readonly removed: readonly CoveredFilter[]
  readonly start: { readonly was: Height; readonly is: Height }
  /** All filters as they are covered from now on. */
  readonly filters: readonly CoveredFilter[]
}

/** What of a chain the config wants to be covered. */
export function wantedFilters(options: ChainOptions): FilterOptions[] {
  const all = [
    ...(options.blocks === 'all' ? [EVERY_BLOCK] : []),
    ...(options.transactions ? [TRANSACTIONS] : []),
    ...filtersOf(options),
  ]
  return [...new Map(all.reverse().map((each) => [each.filter, each])).values()].reverse()
}

/**
 * Null: the facts were indexed under just this config.
 *
 * @param covered in the order of the config that they were indexed under; empty: indexed before filters were recorded
 */
export function changeOf(
  stored: RegisteredChain,
  covered: readonly CoveredFilter[],
  options: ChainOptions,
): ConfigChange | null {
  const filters = wantedFilters(options)
  const wanted = new Map(filters.map((each, place) => [each.filter, place]))
  const before = new Map(covered.map((each, place) => [each.filter, place]))
  const doubtful = toldByLosers(covered, filters)
  const stays = ({ filter }: CoveredFilter): boolean =>
    wanted.has(filter) && before.has(filter) && !doubtful.has(filter)
  const removed = covered.filter((each) => !stays(each))
  const added = filters.filter((each) => !stays(each))
  const stayed = new Set(filters.filter(stays).map(({ contract }) => contract))
  // Children of a contract that is new are found by reading again what tells of them.
  const tells = new Set(added.filter(({ contract }) => !stayed.has(contract)).flatMap(({ toldBy }) => toldBy))
  const all = added.includes(TRANSACTIONS)
  const gains = (each: CoveredFilter, place: number): boolean =>
    all ||
    tells.has(each.filter) ||
    covered.some((other, otherBefore) => {
      const otherNow = wanted.get(other.filter)
      if (otherNow === undefined || !stays(other)) return mayShareFacts(each, other)
      const passed = otherBefore < (before.get(each.filter) ?? -1) && otherNow > place
      return passed && selectionsMeet(each.selection, other.selection)
    })
  const refetched = filters.filter((each, place) => stays(each) && gains(each, place))
  const moved = filters.some((each, place) => covered[place]?.filter !== each.filter)
  const start = { was: stored.startHeight, is: options.startHeight }
  const same =
    !moved && removed.length === 0 && start.was === start.is && refusedChange(stored, options) === null
  return same && stored.filterDigest === options.filterDigest
    ? null
    : { added, refetched, removed, start, filters }
}

/** Filters of children, and of theirs, that are told of by what a filter that came or moved before it may take. */
function toldByLosers(covered: readonly CoveredFilter[], filters: readonly FilterOptions[]): Set<string> {
  const before = new Map(inOrderOfOwning(covered, filters).map(({ filter }, place) => [filter, place]))
  const now = inOrderOfOwning(filters, filters)
  const loses = (each: CoveredFilter, place: number): boolean => {
    const was = before.get(each.filter)
    const comesBefore = ({ filter }: CoveredFilter) => (before.get(filter) ?? Infinity) > (was ?? Infinity)
    return now
      .slice(0, place)
      .some((other) => comesBefore(other) && selectionsMeet(each.selection, other.selection))
  }
  const doubtful = new Set<string>()
  const losing = new Set(now.filter(loses).map(({ filter }) => filter))
  for (let size = -1; size < doubtful.size; ) {
    size = doubtful.size
    for (const { filter, toldBy } of filters) {
      if (toldBy.some((each) => losing.has(each) || doubtful.has(each))) doubtful.add(filter)
    }
  }
  return doubtful
}

/** The sources give a log to those that name addresses, or whose addresses are children, before those of any. */
function inOrderOfOwning(
  some: readonly CoveredFilter[],
  wanted: readonly FilterOptions[],
): readonly CoveredFilter[] {
  const ofChildren = new Set(wanted.filter(({ toldBy }) => toldBy.length > 0).map(({ filter }) => filter))
  const isOfAny = ({ filter, selection }: CoveredFilter) =>
    selection.addresses === null && !ofChildren.has(filter)
  return [...some].sort((a, b) => Number(isOfAny(a)) - Number(isOfAny(b)))
}

/** What went may have owned logs that fit the other, and its rows are told from the other's by contract and name alone. */
const mayShareFacts = (each: CoveredFilter, gone: CoveredFilter): boolean =>
  selectionsMeet(each.selection, gone.selection) ||
  (each.contract === gone.contract &&
    each.contract !== '' &&
    (each.name === null || gone.name === null || each.name === gone.name))

/** Another chain under the same key cannot be what the facts are of. Null: every change can be honoured. */
export function refusedChange(stored: RegisteredChain, options: ChainOptions): ChainChangedError | null {
  const changed = [
    { name: 'kind', was: stored.kind, is: options.kind },
    { name: 'chainId', was: stored.chainId, is: options.chainId },
  ].filter(({ was, is }) => was !== is)
  if (changed.length === 0) return null
  const list = (side: 'was' | 'is' | 'name') => changed.map((each) => each[side]).join(', ')
  return new ChainChangedError(options.chain, list('name'), list('was'), list('is'))
}

export const describeFilter = ({ contract, event }: Pick<CoveredFilter, 'contract' | 'event'>): string =>
  contract === '' ? event : `${contract} ${event}`
