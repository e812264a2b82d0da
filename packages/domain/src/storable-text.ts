import type { JsonValue } from './block.js'

/*
 * Chains hold texts that PostgreSQL refuses: with a zero byte, or with bytes that are no UTF-8. The rule, which loses
 * nothing and leaves every ordinary text as it is: each byte NN that cannot be stored becomes the one character
 * U+10F7NN, of a plane that is kept for private use. A text that holds such a character itself has its four bytes
 * written so too; therefore `bytesOfText` always gives the very bytes back. (Python's surrogateescape, PEP 383, is the
 * same idea with surrogates, which PostgreSQL refuses as well.)
 */

const ESCAPE = 0x10f700
/** Of each byte. */
const ESCAPED = Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(ESCAPE + byte))
/** Whether anything of a well-formed text has to be escaped. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this is the character that PostgreSQL refuses
const NEEDS_ESCAPE = /[\u0000\u{10F700}-\u{10F7FF}]/u

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Text of a chain's bytes as `text` and `jsonb` can hold it. In time of their number: anyone may write them. */
export function storableTextOf(bytes: Uint8Array): string {
  const whole = decoded(bytes)
  if (whole !== null && !NEEDS_ESCAPE.test(whole)) return whole
  const parts: string[] = []
  let from = 0 // where what stays as it is begins
  for (let at = 0; at < bytes.length; ) {
    const length = characterLength(bytes, at)
    if (length > 0 && !isReserved(bytes, at)) at += length
    else {
      if (from < at) parts.push(strict.decode(bytes.subarray(from, at)))
      from = at + Math.max(1, length)
      while (at < from) parts.push(ESCAPED[bytes[at++] as number] as string)
    }
  }
  if (from < bytes.length) parts.push(strict.decode(bytes.subarray(from)))
  return parts.join('')
}

/** The same for text that came as text: JSON may hold U+0000 and halves of surrogate pairs. */
export function storableText(text: string): string {
  if (text.isWellFormed() && !NEEDS_ESCAPE.test(text)) return text
  return [...text].map((each) => (fitsAsIs(each) ? each : escaped(looseBytes(each)))).join('')
}

/** What `storableTextOf` was given: the way back. */
export function bytesOfText(text: string): Uint8Array {
  return Buffer.concat(
    [...text].map((each) => {
      const code = each.codePointAt(0) as number
      return (code & ~0xff) === ESCAPE ? Buffer.of(code & 0xff) : Buffer.from(each, 'utf8')
    }),
  )
}

/** `storableText` for every string in the value, keys included. */
export function storableJson<T extends JsonValue>(value: T): T {
  if (typeof value === 'string') return storableText(value) as T
  if (Array.isArray(value)) return value.map(storableJson) as unknown as T
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [storableText(key), storableJson(item as JsonValue)]),
  ) as T
}

const fitsAsIs = (character: string): boolean => character.isWellFormed() && !NEEDS_ESCAPE.test(character)

const escaped = (bytes: Uint8Array): string => [...bytes].map((byte) => ESCAPED[byte]).join('')

/** UTF-8, also of half a surrogate pair, which has no UTF-8 of its own: as WTF-8 writes it. */
function looseBytes(character: string): Uint8Array {
  const code = character.codePointAt(0) as number
  if (character.isWellFormed()) return Buffer.from(character, 'utf8')
  return Uint8Array.of(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f))
}

function decoded(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes)
  } catch {
    return null
  }
}

/** Of the well-formed sequence that begins there, as in the table of the Unicode Standard (3-7); 0: there is none. */
function characterLength(bytes: Uint8Array, at: number): number {
  const first = bytes[at] as number
  if (first < 0x80) return 1
  const length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0
  if (length === 0 || at + length > bytes.length) return 0
  const second = bytes[at + 1] as number
  if (second < (LEAST_SECOND[first] ?? 0x80) || second > (MOST_SECOND[first] ?? 0xbf)) return 0
  for (let next = at + 2; next < at + length; next++) if (((bytes[next] as number) & 0xc0) !== 0x80) return 0
  return length
}

/** What would be a longer form of a shorter sequence, half of a surrogate pair, or lie beyond U+10FFFF. */
const LEAST_SECOND: Readonly<Record<number, number>> = { 224: 0xa0, 240: 0x90 }
const MOST_SECOND: Readonly<Record<number, number>> = { 237: 0x9f, 244: 0x8f }

/** Whether the character that begins there is one that `NEEDS_ESCAPE` finds: U+10F700 is f4 8f 9c 80. */
function isReserved(bytes: Uint8Array, at: number): boolean {
  if (bytes[at] === 0) return true
  const third = bytes[at + 2] as number
  return bytes[at] === 0xf4 && bytes[at + 1] === 0x8f && third >= 0x9c && third <= 0x9f
}
