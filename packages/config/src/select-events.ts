import { type AbiEvent, parseAbiItem, toEventSignature } from 'viem'
import { isMapping } from './config-document.js'
import type { EvmEventOptions, TopicFilter } from './options.js'
import type { Place } from './place.js'
import { resolveWhere } from './resolve-where.js'

/** The events that the config names, in the order of the ABI; all where it names none. */
export function selectEvents(place: Place, known: readonly AbiEvent[]): EvmEventOptions[] | null {
  if (place.value === undefined) return [...known]
  const wishes = place.children().map((item) => readWish(item, known))
  if (!wishes.every((wish) => wish !== null)) return null
  return known.flatMap((event) => {
    const ofEvent = wishes.flat().filter((wish) => wish.event === event)
    return ofEvent.length === 0 ? [] : [chosen(event, ofEvent)]
  })
}

interface EventWish {
  readonly event: AbiEvent
  /** Null: all its logs. */
  readonly where: TopicFilter | null
}

/** An event named twice has the logs of both wishes. */
function chosen(event: AbiEvent, wishes: readonly EventWish[]): EvmEventOptions {
  const filters = wishes.map(({ where }) => where)
  return filters.every((filter) => filter !== null) ? { ...event, where: filters } : event
}

/** One item: a name, or a name and `where`. A name may mean several overloads. */
function readWish(item: Place, known: readonly AbiEvent[]): EventWish[] | null {
  const place = isMapping(item.value) ? item.child('name') : item
  if (typeof place.value !== 'string') return null // reported with the shape
  const name = place.value
  const found = known.filter((event) => isCalled(event, name))
  if (found.length === 0) return refuseUnknownEvent(place, name, known)
  const where = item.child('where')
  if (where.value === undefined) return found.map((event) => ({ event, where: null }))
  const wishes: EventWish[] = []
  for (const event of found) {
    const filter = resolveWhere(where, event)
    if (filter === null) return null // once is enough: the next overload would say it again
    wishes.push({ event, where: filter })
  }
  return wishes
}

/** By its name or its signature. */
export const isCalled = (event: AbiEvent, name: string): boolean =>
  event.name === name.trim() || toEventSignature(event) === signatureOf(name)

/** `event Transfer(address indexed from, address, uint)` and shorter forms as `Transfer(address,address,uint256)`. */
function signatureOf(text: string): string | null {
  if (!text.includes('(')) return null
  try {
    return toEventSignature(parseAbiItem(`event ${text.trim().replace(/^event\s+/, '')}`) as AbiEvent)
  } catch {
    return null
  }
}

function refuseUnknownEvent(place: Place, name: string, known: readonly AbiEvent[]): null {
  const names = known.map((event) => (name.includes('(') ? toEventSignature(event) : event.name))
  return place.refuse(
    `the ABI has no event ${place.quote(name)}`,
    place.document.show(place.suggest(name, [...new Set(names)])),
  )
}
