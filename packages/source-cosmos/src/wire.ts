/*
 * Reading a node's JSON without trusting it: each reader proves one shape and names the place that breaks it. What
 * a reader throws is turned into a `MalformedAnswerError` where the endpoint and the method are known.
 */
import { jsonText } from '@lockstep/domain'

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

/** A 64-bit integer of either sign, exact. */
export function integerAt(value: unknown, path: string): bigint {
  if (typeof value === 'string' && /^-?\d{1,20}$/.test(value)) return BigInt(value)
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value)
  throw new ShapeError(path, 'an integer', value)
}

/** Bytes as hex digits; left out: none. */
export function bytesAt(value: unknown, path: string): Buffer {
  if (value === null || value === undefined) return Buffer.alloc(0)
  if (typeof value !== 'string' || !/^(?:[0-9A-Fa-f]{2})*$/.test(value))
    throw new ShapeError(path, 'hex digits', value)
  return Buffer.from(value, 'hex')
}

/** Null for what no encoder writes: another alphabet, a missing end, bits set that stand for nothing (`dGVzdB==`). */
export function bytesOfBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : null
}

function shown(value: unknown): string {
  if (value === undefined) return 'missing'
  const text = jsonText(value)
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}
