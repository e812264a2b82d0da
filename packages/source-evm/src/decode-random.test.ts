/*
 * Goal: what an encoder writes is read as viem reads it, whatever the ABI; what nobody writes harms nothing.
 * Method: random ABI shapes and values, encoded by viem and decoded by both; then their bytes changed and cut, and
 * offsets and lengths made to bombs. Where both read changed bytes, they read the same.
 */
import { bytesOfText, type Hex, hexOf, type JsonValue } from '@lockstep/domain'
import fc from 'fast-check'
import {
  type AbiEvent,
  type AbiParameter,
  decodeAbiParameters,
  encodeAbiParameters,
  encodeEventTopics,
  keccak256,
  toEventSelector,
} from 'viem'
import { describe, expect, test } from 'vitest'
import { compileEvent } from './decode-event.js'
import { UnfitLogError } from './log-data.js'

const RUNS = 400

const bits = fc.integer({ min: 1, max: 32 }).map((bytes) => 8 * bytes)
const elementary = fc.oneof(
  bits.map((size) => `uint${size}`),
  bits.map((size) => `int${size}`),
  fc.integer({ min: 1, max: 32 }).map((size) => `bytes${size}`),
  fc.constantFrom('address', 'bool', 'string', 'bytes'),
)

/** Of at most so many levels; names may be missing, but do not repeat, for viem then loses one. */
function parameters(depth: number, max: number): fc.Arbitrary<AbiParameter[]> {
  return fc
    .tuple(fc.array(shape(depth), { minLength: depth === 3 ? 0 : 1, maxLength: max }), fc.boolean())
    .map(([list, named]) =>
      list.map((each, at) => ({ ...each, name: named ? `n${at}` : '' }) as AbiParameter),
    )
}

function shape(depth: number): fc.Arbitrary<{ type: string }> {
  const simple = elementary.map((type) => ({ type }))
  if (depth === 0) return simple
  const tuple = parameters(depth - 1, 3).map((components) => ({ type: 'tuple', components }))
  const length = fc.option(fc.integer({ min: 1, max: 3 }), { nil: '' as const })
  const list = fc
    .tuple(shape(depth - 1), length)
    .map(([element, many]) => ({ ...element, type: `${element.type}[${many}]` }))
  return fc.oneof({ weight: 4, arbitrary: simple }, tuple, list)
}

const bytes = (size: number): fc.Arbitrary<Hex> =>
  fc.uint8Array({ minLength: size, maxLength: size }).map((value) => hexOf(value))

/** In the form that viem encodes. */
function valuesOf(parameter: AbiParameter): fc.Arbitrary<unknown> {
  const { type } = parameter
  const list = /^(.*)\[(\d*)\]$/.exec(type)
  if (list !== null) {
    const length =
      list[2] === '' ? { maxLength: 4 } : { minLength: Number(list[2]), maxLength: Number(list[2]) }
    return fc.array(valuesOf({ ...parameter, type: list[1] as string }), length)
  }
  if (type === 'tuple' && 'components' in parameter) {
    const { components } = parameter
    const named = components.every(({ name }) => name !== '')
    return fc
      .tuple(...components.map(valuesOf))
      .map((values) =>
        named ? Object.fromEntries(components.map(({ name }, at) => [name, values[at]])) : values,
      )
  }
  if (type === 'bool') return fc.boolean()
  if (type === 'address') return bytes(20)
  if (type === 'string')
    return fc.string({ unit: 'binary', maxLength: 40 }).filter((text) => text.isWellFormed())
  if (type === 'bytes') return fc.integer({ min: 0, max: 70 }).chain(bytes)
  if (type.startsWith('bytes')) return bytes(Number(type.slice(5)))
  const size = Number(type.replace(/\D+/, ''))
  const signed = type.startsWith('int')
  const [min, max] = signed
    ? [-(2n ** BigInt(size - 1)), 2n ** BigInt(size - 1) - 1n]
    : [0n, 2n ** BigInt(size) - 1n]
  return fc
    .oneof(fc.bigInt({ min, max }), fc.constantFrom(min, max, 0n))
    .map((value) => (size <= 48 ? Number(value) : value))
}

const isHashed = ({ type }: AbiParameter): boolean => /^(string|bytes|tuple)$|\]$/.test(type)

interface Sample {
  readonly event: AbiEvent
  readonly values: readonly unknown[]
}

const sample: fc.Arbitrary<Sample> = fc
  .tuple(parameters(3, 6), fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }), fc.boolean())
  .map(([list, wishes, anonymous]): AbiEvent => {
    let left = anonymous ? 4 : 3
    const inputs = list.map((each, at) => ({ ...each, indexed: wishes[at] === true && left-- > 0 }))
    return { type: 'event', name: 'Random', inputs, anonymous }
  })
  .chain((event) => fc.tuple(...event.inputs.map(valuesOf)).map((values) => ({ event, values })))

/** A topic as the ABI specification has it; viem hashes text and bytes, of tuples and lists any hash will do. */
function topicOf(input: AbiParameter, value: unknown): Hex {
  if (isHashed(input) && !/^(string|bytes)$/.test(input.type))
    return keccak256(encodeAbiParameters([input], [value]))
  const event = { type: 'event', name: 'E', inputs: [{ ...input, name: 'x', indexed: true }] } as const
  return encodeEventTopics({ abi: [event], args: { x: value } } as never)[1] as Hex
}

function logOf({ event, values }: Sample): { topics: Hex[]; data: Hex } {
  const topics = event.inputs.flatMap((input, at) => (input.indexed ? [topicOf(input, values[at])] : []))
  const plain = event.inputs.filter(({ indexed }) => !indexed)
  return {
    topics: event.anonymous ? topics : [toEventSelector(event), ...topics],
    data: encodeAbiParameters(
      plain,
      values.filter((_, at) => !event.inputs[at]?.indexed),
    ),
  }
}

/** What viem gives, in the words of facts. */
function plain(value: unknown, parameter: AbiParameter): JsonValue {
  const element = /^(.*)\[\d*\]$/.exec(parameter.type)?.[1]
  if (element !== undefined)
    return (value as unknown[]).map((item) => plain(item, { ...parameter, type: element }))
  if (parameter.type === 'tuple' && 'components' in parameter) {
    const fields = value as Record<string, unknown>
    return Object.fromEntries(
      parameter.components.map((each, at) => {
        const key = each.name || String(at)
        return [key, plain(fields[key], each)]
      }),
    )
  }
  if (typeof value === 'bigint' || typeof value === 'number') return String(value)
  if (typeof value === 'boolean') return value
  return parameter.type === 'string' ? String(value) : String(value).toLowerCase()
}

/** Ours with every text as viem gives it: broken bytes replaced. */
function asViem(value: JsonValue, parameter: AbiParameter): JsonValue {
  const element = /^(.*)\[\d*\]$/.exec(parameter.type)?.[1]
  if (element !== undefined)
    return (value as JsonValue[]).map((item) => asViem(item, { ...parameter, type: element }))
  if (parameter.type === 'tuple' && 'components' in parameter) {
    const fields = value as Record<string, JsonValue>
    return Object.fromEntries(
      parameter.components.map((each, at) => {
        const key = each.name || String(at)
        return [key, asViem(fields[key] as JsonValue, each)]
      }),
    )
  }
  return parameter.type === 'string'
    ? new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytesOfText(value as string))
    : value
}

describe('random events', () => {
  test('are read as viem reads them', () => {
    fc.assert(
      fc.property(sample, (given) => {
        const { event } = given
        const log = logOf(given)
        const own = compileEvent(event)(log)
        let topicAt = event.anonymous ? 0 : 1
        const expected = event.inputs.map((input, at): JsonValue => {
          const topic = input.indexed ? log.topics[topicAt++] : undefined
          return topic !== undefined && isHashed(input) ? topic : plain(given.values[at], input)
        })
        expect(
          event.inputs.map((input, at) => {
            const value = own[input.name || String(at)] as JsonValue
            return input.indexed && isHashed(input) ? value : asViem(value, input)
          }),
        ).toEqual(expected)
      }),
      { numRuns: RUNS },
    )
  })

  test('with changed or missing bytes do not fit, or are what viem reads', () => {
    const change = fc.record({
      at: fc.nat(),
      word: fc.oneof(
        fc.bigInt({ min: 0n, max: 600n }),
        fc.constantFrom(2n ** 256n - 1n, 2n ** 256n - 32n, 2n ** 255n, 2n ** 32n, 2n ** 53n),
      ),
      keep: fc.option(fc.nat()),
    })
    fc.assert(
      fc.property(sample, change, (given, { at, word, keep }) => {
        const log = logOf(given)
        const words = (log.data.length - 2) / 64
        if (words === 0) return
        const place = 2 + 64 * (at % words)
        const changed =
          log.data.slice(0, place) + word.toString(16).padStart(64, '0') + log.data.slice(place + 64)
        const data = changed.slice(0, keep === null ? undefined : 2 + 2 * (keep % (32 * words))) as Hex
        expectReadAlike(given.event, { ...log, data })
      }),
      { numRuns: 4 * RUNS },
    )
  })

  test('of random bytes do not fit, or are what viem reads', () => {
    fc.assert(
      fc.property(sample, fc.uint8Array({ maxLength: 300 }), (given, random) => {
        expectReadAlike(given.event, { ...logOf(given), data: `0x${Buffer.from(random).toString('hex')}` })
      }),
      { numRuns: RUNS },
    )
  })
})

/** Every reading of ours is one of viem's; ours refuses more. */
function expectReadAlike(event: AbiEvent, log: { topics: Hex[]; data: Hex }): void {
  let own: Record<string, JsonValue>
  try {
    own = compileEvent(event)(log) as Record<string, JsonValue>
  } catch (error) {
    expect(error).toBeInstanceOf(UnfitLogError)
    return
  }
  const inData = event.inputs.flatMap((input, at) =>
    input.indexed ? [] : [{ input, key: input.name || String(at) }],
  )
  if (inData.length === 0) return
  const viem = decodeAbiParameters(
    inData.map(({ input }) => input),
    log.data,
  ) as readonly unknown[]
  expect(inData.map(({ input, key }) => asViem(own[key] as JsonValue, input))).toEqual(
    inData.map(({ input }, at) => plain(viem[at], input)),
  )
}

describe('bombs', () => {
  const word = (value: number | bigint): string => value.toString(16).padStart(64, '0')
  const of = (type: string): AbiEvent => ({
    type: 'event',
    name: 'E',
    inputs: [{ name: 'a', type }],
    anonymous: true,
  })
  const bombs: [string, string, string][] = [
    ['a list that says 2^32 elements', 'uint8[]', word(32) + word(2n ** 32n)],
    ['a list of nothings', 'uint8[0][]', word(32) + word(64)],
    ['a fixed list of nothings', 'uint8[0][4294967295]', word(0)],
    ['a text that says 2^31 bytes', 'string', word(32) + word(2n ** 31n)],
    ['lists in lists that all lie in one place', 'uint8[][][][][][]', word(64).repeat(600)],
    [
      'many texts in one place',
      'bytes[]',
      word(32) + word(200) + word(200 * 32).repeat(200) + word(6_000) + 'ab'.repeat(6_000),
    ],
  ]
  test.each(bombs)('%s', (_, type, digits) => {
    expect(() => compileEvent(of(type))({ topics: [], data: `0x${digits}` })).toThrow(UnfitLogError)
  })
})
