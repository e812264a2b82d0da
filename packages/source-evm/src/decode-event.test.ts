/*
 * Goal: arguments read as documented, and exactly what viem reads where viem reads logs rightly.
 * Method: hand-made corner cases; then random ABIs with random values, encoded by viem, decoded by both.
 */
import type { Hex, JsonValue } from '@lockstep/domain'
import {
  type AbiEvent,
  type AbiParameter,
  decodeEventLog,
  encodeAbiParameters,
  encodeEventTopics,
  pad,
  parseAbiItem,
  toEventSelector,
  toHex,
} from 'viem'
import { describe, expect, test } from 'vitest'
import { decodeEvent, UnfitLogError } from './decode-event.js'

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
    const data = encodeAbiParameters(tuple.inputs, [[{ who, ok: true }], 1n, 2n, [3, '0xAB']])
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
      ['__proto__', 'AB\uFFFDC'],
      ['b', '\uFFFD\uFFFD'],
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

  test('says so too for data whose pointers lead outside', () => {
    const text = event('event E(string s)')
    const log = { topics: [toEventSelector(text)], data: `0x${'f'.repeat(64)}` as Hex }
    expect(() => decodeEvent(text, log)).toThrow(UnfitLogError)
  })
})

describe('random ABIs', () => {
  const SEED = 20260101
  test(`read as viem reads them (seed ${SEED})`, () => {
    const random = randomOf(SEED)
    for (let round = 0; round < 400; round++) {
      const abi = randomEvent(random)
      const values = abi.inputs.map((input) => randomValue(random, input))
      const log = encodeLog(abi, values)
      const expected = decodeEventLog({ abi: [abi], ...log, strict: true }) as {
        args?: Record<string, unknown>
      }
      const named = Object.fromEntries(
        abi.inputs.map(({ name }) => [name, plain(expected.args?.[name ?? ''])]),
      )
      expect(decodeEvent(abi, log), `round ${round}`).toEqual(named)
    }
  })
})

/** What viem gives, in the words of facts. */
function plain(value: unknown): JsonValue {
  if (typeof value === 'bigint' || typeof value === 'number') return String(value)
  if (typeof value === 'boolean') return value
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]))
  }
  return /^0x[0-9a-f]*$/i.test(String(value)) ? String(value).toLowerCase() : String(value)
}

function encodeLog(abi: AbiEvent, values: readonly unknown[]): { topics: [Hex, ...Hex[]]; data: Hex } {
  const args = Object.fromEntries(
    abi.inputs.map(({ name, indexed }, index) => [name, indexed ? values[index] : null]),
  )
  const hashed = (type: string) => type === 'tuple' || type.endsWith(']')
  const topics = abi.inputs.flatMap(({ type, indexed }) => (indexed && hashed(type) ? [WORD] : []))
  const encoded =
    topics.length > 0 // viem cannot encode these
      ? [toEventSelector(abi), ...abi.inputs.filter((input) => input.indexed).map(() => WORD)]
      : encodeEventTopics({ abi: [abi], args } as never)
  const plainInputs = abi.inputs.filter((input) => !input.indexed)
  const plainValues = values.filter((_, index) => !abi.inputs[index]?.indexed)
  return { topics: encoded as [Hex, ...Hex[]], data: encodeAbiParameters(plainInputs, plainValues) }
}

type Random = (below: number) => number

/** mulberry32 */
function randomOf(seed: number): Random {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296) * below)
  }
}

function randomEvent(random: Random): AbiEvent {
  let indexedLeft = random(4)
  const inputs = Array.from({ length: random(6) }, (_, index) => {
    const parameter = randomParameter(random, `arg${index}`, 2)
    const indexed = indexedLeft > 0 && random(2) === 0
    if (indexed) indexedLeft -= 1
    // A random word is no valid bool, address or small integer; those are encoded, not made up.
    return { ...parameter, indexed }
  })
  return { type: 'event', name: 'Random', inputs: oneKindOfTopics(inputs) }
}

/** Either all indexed ones are hashed, or none, so that the topics can be made. */
function oneKindOfTopics(inputs: readonly (AbiParameter & { indexed: boolean })[]): AbiEvent['inputs'] {
  const isHashed = ({ type }: AbiParameter) => type === 'tuple' || type.endsWith(']')
  const hashed = inputs.find((input) => input.indexed && isHashed(input)) !== undefined
  return inputs.map((input) => ({ ...input, indexed: input.indexed && isHashed(input) === hashed }))
}

function randomParameter(random: Random, name: string, depth: number): AbiParameter {
  const kind = random(depth > 0 ? 9 : 7)
  if (kind === 7) {
    const components = Array.from({ length: 1 + random(3) }, (_, at) =>
      randomParameter(random, `field${at}`, depth - 1),
    )
    return { name, type: 'tuple', components }
  }
  if (kind === 8) {
    const element = randomParameter(random, name, depth - 1)
    return { ...element, type: `${element.type}[${random(2) === 0 ? '' : 1 + random(3)}]` }
  }
  const bits = 8 * (1 + random(32))
  const types = [`uint${bits}`, `int${bits}`, 'address', 'bool', 'string', 'bytes', `bytes${1 + random(32)}`]
  return { name, type: types[kind] ?? 'bool' }
}

function randomValue(random: Random, parameter: AbiParameter): unknown {
  const { type } = parameter
  const list = /\[(\d*)\]$/.exec(type)
  if (list !== null) {
    const element = { ...parameter, type: type.slice(0, -list[0].length) }
    return Array.from({ length: list[1] === '' ? random(4) : Number(list[1]) }, () =>
      randomValue(random, element),
    )
  }
  if (type === 'tuple' && 'components' in parameter) {
    return Object.fromEntries(parameter.components.map((each) => [each.name, randomValue(random, each)]))
  }
  if (type === 'bool') return random(2) === 1
  if (type === 'string') return ['', 'plain', 'naïve ☃ 𝄞', 'x'.repeat(70)][random(4)]
  if (type === 'address') return randomBytes(random, 20)
  if (type === 'bytes') return randomBytes(random, random(70))
  if (type.startsWith('bytes')) return randomBytes(random, Number(type.slice(5)))
  return randomInteger(random, type)
}

const randomBytes = (random: Random, length: number): Hex =>
  `0x${Array.from({ length }, () => random(256).toString(16).padStart(2, '0')).join('')}`

function randomInteger(random: Random, type: string): bigint | number {
  const signed = type.startsWith('int')
  const bits = Number(type.replace(/\D+/, ''))
  const unsigned = BigInt(randomBytes(random, bits / 8))
  const value = signed ? BigInt.asIntN(bits, unsigned) : unsigned
  return bits <= 48 ? Number(value) : value // as viem's types want it
}
