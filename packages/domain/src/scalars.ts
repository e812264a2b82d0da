/**
 * Scalars that must not be mixed have types of their own. A branded type costs nothing at run time; the
 * constructor functions below are the only places where a bare value becomes one of them.
 */
type Brand<T, Name extends string> = T & { readonly __brand: Name }

/** A chain's key in `config/chains.yaml` (`ethereum`): lower-case letters, digits, `_` and `-`; at most 32. */
export type ChainKey = Brand<string, 'ChainKey'>

/** A block's number on its chain: an integer from 0 on. */
export type Height = Brand<number, 'Height'>

/**
 * Microseconds since 1970-01-01T00:00:00Z. PostgreSQL's `timestamptz` holds exactly these; a JavaScript `Date`
 * would drop the last three digits.
 */
export type TimeUs = Brand<bigint, 'TimeUs'>

/** Bytes as text: `0x` and an even number of lower-case hex digits. `0x` alone is "no bytes". */
export type Hex = `0x${string}`

export const NO_BYTES: Hex = '0x'

const CHAIN_KEY = /^[a-z][a-z0-9_-]{0,31}$/

/** True for a usable chain key. No colon: `rewind_timestamp_projection:<name>` must stay distinct. */
export const isChainKey = (text: string): text is ChainKey => CHAIN_KEY.test(text)

/** @throws TypeError where `text` is no chain key */
export function chainKey(text: string): ChainKey {
  if (!isChainKey(text)) throw new TypeError(`"${text}" is not a chain key`)
  return text
}

/** @throws TypeError where `value` is not an integer from 0 to 2^53 - 1 */
export function height(value: number | string | bigint): Height {
  const number = Number(value)
  if (!Number.isSafeInteger(number) || number < 0) throw new TypeError(`${value} is not a height`)
  return number as Height
}

/** `0x`-prefixed lower-case hex of the bytes. */
export const hexOf = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`

/** The bytes of a `Hex`. */
export const bytesOf = (hex: Hex): Buffer => Buffer.from(hex.slice(2), 'hex')

/** Order of chain keys: by code unit, as PostgreSQL's `collate "C"` does. */
export const compareChains = (a: ChainKey, b: ChainKey): number => (a < b ? -1 : a > b ? 1 : 0)
