import type { TimeUs } from './scalars.js'

/** Microseconds in a second: block times of EVM chains are whole seconds. */
export const US_PER_SECOND = 1_000_000n

/** Block time from whole seconds (EVM). */
export const timeFromSeconds = (seconds: bigint | number): TimeUs =>
  (BigInt(seconds) * US_PER_SECOND) as TimeUs

/** From `Date.now()`. */
export const timeFromMs = (ms: number): TimeUs => (BigInt(Math.floor(ms)) * 1000n) as TimeUs

export const timeUs = (us: bigint): TimeUs => us as TimeUs

// RFC 3339: the zone is not optional, since a time without one means something else on every machine.
const RFC3339 =
  /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,12}))?)?\s*([Zz]|[+-]\d{2}:?\d{2})$/

/**
 * An RFC 3339 time with zone as microseconds. Finer digits are floored, here and only here, so that a time that
 * a Cosmos node gives in nanoseconds equals itself wherever it is compared.
 *
 * @returns null where the text is no such time (a missing zone, a 31st of June)
 */
export function parseTime(text: string): TimeUs | null {
  const match = RFC3339.exec(text.trim())
  if (!match) return null
  const [, year, month, day, hour, minute, second = '00', fraction = '', zone = 'Z'] = match
  const leap = second === '60' // RFC 3339 allows it; it is the first instant of the next minute
  const wall = `${year}-${month}-${day}T${hour}:${minute}:${leap ? '59' : second}Z`
  const ms = Date.parse(wall)
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== `${year}-${month}-${day}`) return null
  const offset = zoneMinutes(zone)
  if (offset === null) return null
  const us = BigInt(fraction.padEnd(6, '0').slice(0, 6))
  const seconds = BigInt(ms / 1000) - BigInt(offset) * 60n + (leap ? 1n : 0n)
  return (seconds * US_PER_SECOND + us) as TimeUs
}

function zoneMinutes(zone: string): number | null {
  if (zone === 'Z' || zone === 'z') return 0
  const hours = Number(zone.slice(1, 3))
  const minutes = Number(zone.slice(-2))
  if (hours > 23 || minutes > 59) return null
  return (zone[0] === '-' ? -1 : 1) * (hours * 60 + minutes)
}

/** `2023-11-14T22:13:20.000000Z`: always UTC, always six digits, so that equal times are equal texts. */
export function formatTime(time: TimeUs): string {
  const us = ((time % US_PER_SECOND) + US_PER_SECOND) % US_PER_SECOND
  const seconds = (time - us) / US_PER_SECOND
  const date = new Date(Number(seconds) * 1000).toISOString().slice(0, 19)
  return `${date}.${us.toString().padStart(6, '0')}Z`
}

/** For people: without the fraction where it is zero. */
export const formatTimeShort = (time: TimeUs): string => formatTime(time).replace(/\.0+Z$/, 'Z')

/** Whole and fractional seconds from `earlier` to `later`; negative where they are swapped. */
export const secondsBetween = (earlier: TimeUs, later: TimeUs): number => Number(later - earlier) / 1e6
