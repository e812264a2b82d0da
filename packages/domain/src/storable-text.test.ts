/*
 * Every text of a chain can be stored, ordinary ones stay as they are, and the bytes come back. By examples, and by
 * random bytes that are often broken UTF-8.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { bytesOfText, storableJson, storableText, storableTextOf } from './index.js'

const bytes = (hex: string) => Uint8Array.from(Buffer.from(hex, 'hex'))

test.each([
  ['an ordinary text', '48c3a96c6c6f20f09f9880', 'H\u00e9llo \u{1F600}'],
  ['a backslash and a replacement character', '5cefbfbd', '\\\uFFFD'],
  ['a byte order mark', 'efbbbf41', '\uFEFFA'],
  ['a zero byte', '41420043', 'AB\u{10F700}C'],
  ['bytes that are no UTF-8', 'fffe', '\u{10F7FF}\u{10F7FE}'],
  ['a sequence that is cut off', '41e282', 'A\u{10F7E2}\u{10F782}'],
  ['a surrogate in UTF-8', 'eda080', '\u{10F7ED}\u{10F7A0}\u{10F780}'],
  ['a character of the rule itself', 'f48f9c80', '\u{10F7F4}\u{10F78F}\u{10F79C}\u{10F780}'],
])('%s', (_, hex, text) => {
  expect(storableTextOf(bytes(hex))).toBe(text)
  expect(Buffer.from(bytesOfText(text)).toString('hex')).toBe(hex)
})

test('any bytes come back, and their text can be stored', () => {
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 6 }),
    fc.string({ unit: 'binary' }).map((text) => Uint8Array.from(Buffer.from(text, 'utf8'))),
    fc.constantFrom('00', 'f48f9c80', 'f48f9fbf', 'c3', 'eda080').map(bytes),
  )
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const whole = Buffer.concat(pieces)
      const text = storableTextOf(whole)
      expect(text.isWellFormed()).toBe(true)
      expect(text).not.toContain('\0')
      expect(Buffer.from(bytesOfText(text)).equals(whole)).toBe(true)
    }),
    { numRuns: 500 },
  )
})

test('text and bytes follow one rule', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(storableText(text)).toBe(storableTextOf(Buffer.from(text, 'utf8')))
    }),
  )
  expect(storableText('a\ud800b')).toBe('a\u{10F7ED}\u{10F7A0}\u{10F780}b')
})

test('keys of JSON follow it too', () => {
  expect(storableJson({ 'a\0': ['b\0', { c: null }] })).toEqual({
    'a\u{10F700}': ['b\u{10F700}', { c: null }],
  })
})
