/*
 * Goal: arguments are read as documented, and a log that does not fit is told from one that does, with the reason.
 * Method: corner cases by hand, encoded by viem where an encoder writes such.
 */
import type { Hex } from '@lockstep/domain'
import { type AbiEvent, encodeAbiParameters, pad, parseAbiItem, toEventSelector, toHex } from 'viem'
import { describe, expect, test } from 'vitest'
import { compileEvent, type LogContent } from './decode-event.js'
import { UnfitLogError } from './log-data.js'

const decodeEvent = (event: AbiEvent, log: LogContent) => compileEvent(event)(log)

const event = (text: string): AbiEvent => parseAbiItem(text as 'event X()') as unknown as AbiEvent

const TRANSFER = event('event Transfer(address indexed from, address indexed to, uint256 value)')
const WORD: Hex = `0x${'0'.repeat(63)}7`

describe('decodeEvent', () => {
  test('reads integers of any width as decimal strings', () => {
    const wide = event('event E(uint8 a, int256 b, uint256 indexed c)')
    const data = encodeAbiParameters([{ type: 'uint8' }, { type: 'int256' }], [7, -(2n ** 255n)])
    const topics: Hex[] = [toEventSelector(wide), `0x${'f'.repeat(64)}`]
    expect(decodeEvent(wide, { topics, data })).toEqual({
      a: '7',
      b: (-(2n ** 255n)).toString(),
      c: (2n ** 256n - 1n).toString(),
    })
  })

  test('keeps names of tuple fields, and numbers what has no name or one that is taken', () => {
    const tuple: AbiEvent = {
      type: 'event',
      name: 'E',
      inputs: [
        {
          name: 'pair',
          type: 'tuple[]',
          components: [
            { name: 'who', type: 'address' },
            { name: 'ok', type: 'bool' },
          ],
        },
        { name: '', type: 'uint256' },
        { name: 'pair', type: 'uint256' },
        {
          name: 'odd',
          type: 'tuple',
          components: [
            { name: 'a', type: 'uint8' },
            { name: '', type: 'bytes' },
          ],
        },
      ],
    }
    const who = '0xAbCdEf0123456789aBcDeF0123456789ABCDEF01'.toLowerCase() as Hex
    const data = encodeAbiParameters(tuple.inputs, [[{ who, ok: true }], 1n, 2n, [3, '0xab']])
    expect(decodeEvent(tuple, { topics: [toEventSelector(tuple)], data })).toEqual({
      pair: [{ who, ok: true }],
      1: '1',
      2: '2',
      odd: { a: '3', 1: '0xab' },
    })
  })

  test('gives an indexed value without a fixed size as its hash', () => {
    const hashed = event('event E(string indexed s, bytes indexed b, uint8[2] indexed l, bytes4 indexed f)')
    const topics: Hex[] = [toHex(1, { size: 32 }), toHex(2, { size: 32 }), toHex(3, { size: 32 })]
    expect(
      decodeEvent(
        { ...hashed, anonymous: true },
        { topics: [...topics, pad('0x12345678', { dir: 'right' })], data: '0x' },
      ),
    ).toEqual({ s: topics[0], b: topics[1], l: topics[2], f: '0x12345678' })
  })

  test('makes text storable and leaves a key __proto__ a key', () => {
    const hostile = event('event E(string a, string b)')
    const renamed: AbiEvent = {
      ...hostile,
      inputs: [
        { ...hostile.inputs[0], name: '__proto__', type: 'string' },
        { name: 'b', type: 'string' },
      ],
    }
    const data = encodeAbiParameters([{ type: 'bytes' }, { type: 'bytes' }], ['0x41420043', '0xfffe'])
    const args = decodeEvent(renamed, { topics: [toEventSelector(hostile)], data })
    expect(Object.entries(args)).toEqual([
      ['__proto__', 'AB\u{10F700}C'],
      ['b', '\u{10F7FF}\u{10F7FE}'],
    ])
  })

  test.each<[string, Hex[], Hex, RegExp]>([
    ['too many topics', [WORD, WORD, WORD], WORD, /has 2 indexed arguments, and the log has 3/],
    ['too few topics', [WORD], WORD, /has 2 indexed arguments, and the log has 1/],
    ['no data', [WORD, WORD], '0x', /the data do not fit the ABI/],
    ['short data', [WORD, WORD], '0x1234', /the data do not fit the ABI/],
  ])('says why a log does not fit: %s', (_, topics, data, words) => {
    const log = { topics: [toEventSelector(TRANSFER), ...topics], data }
    expect(() => decodeEvent(TRANSFER, log)).toThrow(UnfitLogError)
    expect(() => decodeEvent(TRANSFER, log)).toThrow(words)
  })

  const word = (value: bigint | number): string => value.toString(16).padStart(64, '0')
  const FULL = 'f'.repeat(64)
  test.each([
    ['uint8', word(256)],
    ['uint128', FULL],
    ['int8', word(128)],
    ['int8', `${'f'.repeat(62)}7f`],
    ['address', word(2n ** 160n)],
    ['bool', word(2)],
    ['bool', word(2n ** 255n + 1n)],
    ['bytes4', `12345678${word(1).slice(8)}`],
    ['function', FULL],
  ])('a word with other padding than an encoder writes does not fit: %s 0x%s', (type, digits) => {
    const plain: AbiEvent = { type: 'event', name: 'E', inputs: [{ name: 'a', type }] }
    const reason = new RegExp(`0x${digits} is no ${type}`)
    expect(() => decodeEvent(plain, { topics: [WORD], data: `0x${digits}` })).toThrow(reason)
    const indexed: AbiEvent = { type: 'event', name: 'E', inputs: [{ name: 'a', type, indexed: true }] }
    expect(() => decodeEvent(indexed, { topics: [WORD, `0x${digits}`], data: '0x' })).toThrow(reason)
  })

  test.each([
    ['a text without the filling of its last word', 'string', `${word(32)}${word(2)}4142`, 'AB'],
    ['a text with a filling of other bytes', 'string', `${word(32)}${word(2)}4142${'ff'.repeat(30)}`, 'AB'],
    ['bytes that nothing points to', 'uint8', `${word(7)}${FULL}`, '7'],
    [
      'values that share a place',
      '(bytes a, bytes b)',
      `${word(32)}${word(64)}${word(64)}${word(1)}aa`,
      { a: '0xaa', b: '0xaa' },
    ],
  ])('%s fit', (_, type, digits, value) => {
    const lenient = event(`event E(${type} a)`)
    expect(decodeEvent(lenient, { topics: [WORD], data: `0x${digits}` })).toEqual({ a: value })
  })

  test('says so too for data whose pointers lead outside', () => {
    const text = event('event E(string s)')
    const log = { topics: [toEventSelector(text)], data: `0x${'f'.repeat(64)}` as Hex }
    expect(() => decodeEvent(text, log)).toThrow(UnfitLogError)
  })
})
