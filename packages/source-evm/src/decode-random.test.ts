/*
 * Goal: what an encoder writes is read as viem reads it, whatever the ABI; what nobody writes harms nothing.
 * Method: random ABI shapes and values, encoded by viem and decoded by both; then their bytes changed and cut, and
 * offsets and lengths made to bombs. Where both read changed bytes, they read the same.
 */
import type { Hex, JsonValue } from '@lockstep/domain'
import fc from 'fast-check'
import { type AbiEvent, decodeAbiParameters } from 'viem'
import { describe, expect, test } from 'vitest'
import { compileEvent } from './decode-event.js'
import { UnfitLogError } from './log-data.js'
import { asViem, isHashed, logOf, plain, sample } from './random-abi.fixture.js'

const RUNS = 400

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
