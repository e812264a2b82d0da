import type { JsonValue } from './block.js'

/*
 * Chains hold texts that PostgreSQL refuses: with a zero byte, or with bytes that are no UTF-8. The rule, which loses
 * nothing and leaves every ordinary text as it is: each byte NN that cannot be stored becomes the one character
 * U+10F7NN, of a plane that is kept for private use. A text that holds such a character itself has its four bytes
 * written so too; therefore `bytesOfText` always gives the very bytes back. (Python's surrogateescape, PEP 383, is the
 * same idea with surrogates, which PostgreSQL refuses as well.)
 */

const ESCAPE = 0x10f700
/** Whether anything of a well-formed text has to be escaped. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this is the character that PostgreSQL refuses
const NEEDS_ESCAPE = /[\u0000\u{10F700}-\u{10F7FF}]/u

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Text of a chain's bytes as `text` and `jsonb` can hold it. */
export function storableTextOf(bytes: Uint8Array): string {
  const whole = decoded(bytes)
  if (whole !== null && !NEEDS_ESCAPE.test(whole)) return whole
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceLength(bytes[at] as number)
    const character = decoded(bytes.subarray(at, at + length))
    const fits = character !== null && length <= bytes.length - at && !NEEDS_ESCAPE.test(character)
    text += fits ? character : escaped(bytes.subarray(at, at + (character === null ? 1 : length)))
    at += character === null ? 1 : length
  }
  return text
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

const escaped = (bytes: Uint8Array): string =>
  [...bytes].map((byte) => String.fromCodePoint(ESCAPE + byte)).join('')

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

/** By its first byte (RFC 3629); 1 for one that begins nothing. */
const sequenceLength = (first: number): number => (first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4)
