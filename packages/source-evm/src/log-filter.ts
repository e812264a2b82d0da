import type { Hex, KnownChildren } from '@lockstep/domain'
import { addressesOf, isOfAny, type TopicPattern, type WatchedEvent } from './event-index.js'

/** What a node is asked for: a superset of what some events want together. */
export interface LogFilter {
  /** Left out: of any address. */
  readonly address?: readonly string[]
  readonly topics?: TopicPattern
}

/** geth refuses more addresses, or values of one topic, in a query (`--rpc.logquerylimit`); others take no fewer. */
const VALUES_MAX = 1_000

const TOPICS_MAX = 4

/**
 * The queries that together find all logs of the events: one by addresses, and one for what is looked for at any
 * address, or at too many to name. The first is left out where the second finds its logs too. None where nothing is
 * looked for.
 */
export function logFiltersOf(events: readonly WatchedEvent[], children: KnownChildren): LogFilter[] {
  const places = events.map((event) => ({ event, addresses: addressesOf(event, children) }))
  const named = places.filter(({ event, addresses }) => !isOfAny(event) && addresses.length > 0)
  const listed = within(named) ? named : within(named.filter(isListed)) ? named.filter(isListed) : []
  const wide = [
    ...places.filter(({ event }) => isOfAny(event)),
    ...named.filter((place) => !listed.includes(place)),
  ]
  const wideFilter = wide.length === 0 ? null : { ...topicsFor(wide.map(({ event }) => event)) }
  const left = listed.filter(({ event }) => wideFilter === null || !finds(wideFilter, event))
  return [...(left.length === 0 ? [] : [byAddress(left)]), ...(wideFilter === null ? [] : [wideFilter])]
}

/** Whether the query finds all logs of the event, at whatever address. */
export const finds = ({ address, topics }: LogFilter, event: WatchedEvent): boolean =>
  address === undefined &&
  event.patterns.every((pattern) =>
    (topics ?? []).every(
      (wanted, at) =>
        wanted === null || (pattern[at] ?? null)?.every((topic) => wanted.includes(topic)) === true,
    ),
  )

interface Place {
  readonly event: WatchedEvent
  readonly addresses: readonly string[]
}

const isListed = ({ event }: Place): boolean => !event.ofChildren

const union = (places: readonly Place[]): string[] => [
  ...new Set(places.flatMap(({ addresses }) => addresses)),
]

const within = (places: readonly Place[]): boolean => union(places).length <= VALUES_MAX

const byAddress = (places: readonly Place[]): LogFilter => ({
  address: union(places),
  ...topicsFor(places.map(({ event }) => event)),
})

/** In each place the values of all patterns, unless one of them takes any there. */
function topicsFor(events: readonly WatchedEvent[]): { topics?: TopicPattern } {
  const patterns = events.flatMap((event) => event.patterns)
  const topics = Array.from({ length: TOPICS_MAX }, (_, at): readonly Hex[] | null => {
    if (patterns.some((pattern) => (pattern[at] ?? null) === null)) return null
    const values = [...new Set(patterns.flatMap((pattern) => pattern[at] ?? []))]
    return values.length > VALUES_MAX ? null : values
  })
  while (topics.length > 0 && topics.at(-1) === null) topics.pop()
  return topics.length === 0 ? {} : { topics }
}
