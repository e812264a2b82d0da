import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type BlockRef,
  bisectionSteps,
  height,
  hexOf,
  searchCut,
  type TimeUs,
  timeFromSeconds,
} from './index.js'

const block = (h: number, seconds: number | bigint): BlockRef => ({
  height: height(h),
  hash: hexOf(Buffer.from(String(h))),
  parentHash: null,
  time: timeFromSeconds(seconds),
})

/** Searches among `times` (of heights `first`, `first + 1`, …), bracketed by the height before and the last one. */
async function search(times: readonly number[], target: number, first = 0) {
  const asked: number[] = []
  const last = times.length - 1
  const result = await searchCut(
    timeFromSeconds(target),
    {
      low: null,
      lowHeight: first - 1,
      highHeight: first + last,
      highTime: timeFromSeconds(times[last] ?? 0),
    },
    async (h) => {
      asked.push(h)
      return block(h, times[h - first] ?? Number.NaN)
    },
  )
  return { cut: result.found ? (result.block?.height ?? null) : 'missing', asked, reads: result.reads }
}

it('equals a linear scan on every sequence that never falls, within its budget of headers', async () => {
  const sequences = fc.array(fc.oneof(fc.nat(3), fc.nat(100_000)), { minLength: 1, maxLength: 300 })
  await fc.assert(
    fc.asyncProperty(sequences, fc.nat(1000), fc.nat(), async (steps, first, pick) => {
      const times: number[] = []
      for (const step of steps) times.push((times.at(-1) ?? 0) + step)
      const target = pick % ((times.at(-1) ?? 0) + 1) // from genesis' time on
      const end = (times.at(-1) ?? 0) + 1
      const { cut, reads, asked } = await search([...times, end], target, first)
      const scan = times.findLastIndex((time) => time <= target)
      expect(cut).toBe(scan < 0 ? null : first + scan)
      expect(reads).toBeLessThanOrEqual(Math.max(0, 2 * bisectionSteps(times.length + 1) - 1))
      expect(asked.every((h) => h >= first && h < first + times.length)).toBe(true)
    }),
    { numRuns: 1000 },
  )
})

describe('a bracket of a million blocks of a steady chain', () => {
  const MILLION = 1_000_000
  const draw = fc.integer({ min: 0, max: 0x7fffffff })
  /** Microseconds from one block to the next, by a number between 0 and 1. */
  const steady: Record<string, (random: () => number) => number> = {
    'Ethereum: 12 s, and now and then a slot is missed': (random) => 12e6 * (random() < 0.01 ? 2 : 1),
    'Base: 2 s': () => 2e6,
    'Cosmos: about 6 s, in microseconds, with longer rounds': (random) =>
      Math.round(5.5e6 + random() * 1e6 + (random() < 0.01 ? 6e6 : 0)),
    'a chain of about 400 ms, in milliseconds': (random) => 1000 * Math.round(380 + random() * 40),
  }
  it.each(Object.entries(steady))('needs at most 6 headers: %s', async (_, step) => {
    let state = 1
    const random = () => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31
      return state / 2 ** 31
    }
    const times = new Float64Array(MILLION + 1)
    times[0] = 1.6e15
    for (let h = 1; h <= MILLION; h++) times[h] = (times[h - 1] ?? 0) + step(random)
    const timeAt = (h: number) => BigInt(times[h] ?? 0) as TimeUs
    const readHeader = async (h: number) => ({ ...block(h, 0), time: timeAt(h) })
    const [low, bracket] = [
      await readHeader(0),
      { lowHeight: 0, highHeight: MILLION, highTime: timeAt(MILLION) },
    ]
    const span = timeAt(MILLION) - timeAt(0)
    await fc.assert(
      fc.asyncProperty(draw, async (part) => {
        const target = (timeAt(0) + (span * BigInt(part)) / 2n ** 31n) as TimeUs
        const found = await searchCut(target, { ...bracket, low }, readHeader)
        const cut = (found.found && found.block?.height) || 0
        expect(timeAt(cut) <= target && target < timeAt(cut + 1)).toBe(true)
        expect(found.reads).toBeLessThanOrEqual(6)
        // Where nothing is stored below, the first block is asked for too.
        const blind = await searchCut(target, { ...bracket, low: null, lowHeight: -1 }, readHeader)
        expect(blind).toEqual({ ...found, reads: expect.any(Number) })
        expect(blind.reads).toBeLessThanOrEqual(7)
      }),
      { numRuns: 500 },
    )
  })
})

it('tells at once that T lies before the first block', async () => {
  const times = Array.from({ length: 1000 }, (_, h) => 1_600_000_000 + h)
  expect(await search(times, 1_500_000_000, 1000)).toMatchObject({ cut: null, reads: 1 })
})

it('finds the cut over a node that has pruned the first block, and tells the block above', async () => {
  const bracket = { low: null, lowHeight: -1, highHeight: 1000, highTime: timeFromSeconds(10_000) }
  const found = await searchCut(timeFromSeconds(9_005), bracket, async (h) =>
    h < 400 ? null : block(h, h * 10),
  )
  expect(found).toMatchObject({ found: true, block: block(900, 9000), above: block(901, 9010) })
})

it('never lets a block after T survive just below the cut, whatever the times do', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(50), { minLength: 2, maxLength: 80 }),
      fc.nat(50),
      async (times, target) => {
        const { cut } = await search([...times, 1000], target)
        if (typeof cut === 'number') expect(times[cut]).toBeLessThanOrEqual(target)
        expect((typeof cut === 'number' ? [...times, 1000][cut + 1] : times[0]) ?? 0).toBeGreaterThan(target)
      },
    ),
  )
})

it('S11: equal block times give one definite cut', async () => {
  const t = 1_700_000_000
  const times = [t, t + 1, t + 2, t + 2, t + 2, t + 2, t + 3]
  expect((await search(times, t + 2, 10)).cut).toBe(15)
  expect((await search(times, t + 1, 10)).cut).toBe(11)
  const equal = [...Array.from({ length: 21 }, () => t + 2), t + 9]
  expect((await search(equal, t + 2, 20)).cut).toBe(40)
  expect((await search(equal, t + 1, 20)).cut).toBeNull()
})

it('S12: a genesis time of zero is a normal time', async () => {
  const times = [0, 0, 1_700_000_000, 1_700_000_012]
  expect((await search(times, 1_699_999_999)).cut).toBe(1)
  expect((await search(times, 0)).cut).toBe(1)
  expect((await search(times, 1_700_000_005)).cut).toBe(2)
})

it('tells which height the node does not have', async () => {
  const bracket = { low: null, lowHeight: -1, highHeight: 100, highTime: 100n as TimeUs }
  const search = await searchCut(50n as TimeUs, bracket, async () => null)
  expect(search).toEqual({ found: false, missing: 49, reads: 2 })
})
