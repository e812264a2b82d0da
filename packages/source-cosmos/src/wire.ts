/*
 * Reading a node's JSON without trusting it: each reader proves one shape and names the place that breaks it. What
 * a reader throws is turned into a `MalformedAnswerError` where the endpoint and the method are known.
 */

/** A JSON value at `path` is not of the documented shape. Never leaves this package. */
export class ShapeError extends Error {
  constructor(path: string, expected: string, found: unknown) {
    super(`${path} is ${shown(found)}, but should be ${expected}`)
  }
}

export type JsonRecord = Readonly<Record<string, unknown>>

export function recordAt(value: unknown, path: string): JsonRecord {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ShapeError(path, 'an object', value)
  }
  return value as JsonRecord
}

/** Go encodes an empty list as `null` or leaves it out: both are empty lists. */
export function listAt(value: unknown, path: string): readonly unknown[] {
  if (value === null || value === undefined) return []
  if (!Array.isArray(value)) throw new ShapeError(path, 'a list', value)
  return value
}

export function textAt(value: unknown, path: string): string {
  if (typeof value !== 'string') throw new ShapeError(path, 'a text', value)
  return value
}

/** A count as CometBFT writes it: 64-bit integers are decimal strings, smaller ones are numbers. */
export function countAt(value: unknown, path: string): number {
  const count = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
  if (typeof count !== 'number' || !Number.isSafeInteger(count) || count < 0) {
    throw new ShapeError(path, 'an integer from 0 on', value)
  }
  return count
}

function shown(value: unknown): string {
  if (value === undefined) return 'missing'
  const text = JSON.stringify(value) ?? String(value)
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}
