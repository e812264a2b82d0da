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

test('a megabyte of broken bytes costs no more than as many good ones', () => {
  const broken = new Uint8Array(1_000_000).fill(0xff)
  // A decoder that throws for each of them takes minutes, in which a worker's lease runs out.
  expect(storableTextOf(broken)).toHaveLength(2_000_000)
}, 20_000)

test('what is text stays text, as the platform decodes it', () => {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const edges = [
    0x03, 0x80, 0x800, 0x1000, 0xd800, 0xe000, 0x10000, 0x40000, 0x100000, 0x10f700, 0x10f800, 0x110000,
  ]
  for (const code of edges.flatMap((edge) => [edge - 2, edge - 1, edge, edge + 1])) {
    const character = code > 0x10ffff ? '' : String.fromCodePoint(code)
    if (!character.isWellFormed() || (code & ~0xff) === 0x10f700) continue
    const framed = Uint8Array.from([0xff, ...Buffer.from(character, 'utf8')])
    expect(storableTextOf(framed)).toBe(`\u{10F7FF}${decoder.decode(framed.subarray(1))}`)
  }
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
