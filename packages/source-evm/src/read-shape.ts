import type { Hex, MalformedAnswerError } from '@lockstep/domain'

/** Makes the error that names node and method. */
export interface AnswerBlame {
  malformed(method: string, problem: string): MalformedAnswerError
}

/** A JSON object of an answer, of which nothing is known yet. */
export type Fields = { readonly [name: string]: unknown }

export function readFields(blame: AnswerBlame, method: string, what: string, value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw blame.malformed(method, `${what} is ${show(value)}, not an object`)
}

export function readList(
  blame: AnswerBlame,
  method: string,
  what: string,
  value: unknown,
): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw blame.malformed(method, `${what} is ${show(value)}, not a list`)
}

/** A QUANTITY of the JSON-RPC specification. Leading zeros, which it forbids and some nodes send, are let through. */
export function readQuantity(blame: AnswerBlame, method: string, what: string, value: unknown): bigint {
  if (typeof value === 'string' && /^0x[0-9a-f]{1,64}$/i.test(value)) return BigInt(value)
  throw blame.malformed(method, `${what} is ${show(value)}, not a hex quantity`)
}

/** A quantity that is an index or a height, up to `max`. */
export function readIndex(
  blame: AnswerBlame,
  method: string,
  what: string,
  value: unknown,
  max = Number.MAX_SAFE_INTEGER,
): number {
  const number = Number(readQuantity(blame, method, what, value))
  if (number <= max) return number
  throw blame.malformed(method, `${what} is ${show(value)}, which is too large`)
}

/** Bytes in lower-case hex; exactly so many where `bytes` is given. */
export function readBytes(
  blame: AnswerBlame,
  method: string,
  what: string,
  value: unknown,
  bytes?: number,
): Hex {
  // Not `([0-9a-f]{2})*`: V8 takes its stack for each repetition of a group, and runs out of it at some megabytes.
  const fits = typeof value === 'string' && value.length % 2 === 0 && /^0x[0-9a-f]*$/i.test(value)
  if (fits && (bytes === undefined || value.length === 2 + 2 * bytes)) return value.toLowerCase() as Hex
  throw blame.malformed(
    method,
    `${what} is ${show(value)}, not ${bytes === undefined ? 'hex' : `${bytes} bytes of hex`}`,
  )
}

const SHOWN_CHARS_MAX = 80

/** Of lists and objects the size alone: an answer may be megabytes, or nested deeper than JSON.stringify goes. */
function show(value: unknown): string {
  if (value === undefined) return 'missing'
  if (typeof value === 'string') return JSON.stringify(shorten(value))
  if (typeof value !== 'object' || value === null) return String(value)
  if (Array.isArray(value)) return value.length === 0 ? '[]' : `a list of ${value.length}`
  const keys = Object.keys(value)
  return keys.length === 0 ? '{}' : `an object with ${shorten(keys.slice(0, SHOWN_KEYS_MAX).join(', '))}`
}

const SHOWN_KEYS_MAX = 5

const shorten = (text: string): string =>
  text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text
