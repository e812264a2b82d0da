import fc from 'fast-check'
import { expect, it } from 'vitest'
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
      expect(reads).toBeLessThanOrEqual(2 * bisectionSteps(times.length + 1))
      expect(asked.every((h) => h >= first && h < first + times.length)).toBe(true)
    }),
    { numRuns: 1000 },
  )
})

it('needs at most 6 headers for a bracket of a million blocks of a steady chain', async () => {
  for (const [spacing, jitter] of [
    [12, 0],
    [2, 0],
    [6, 1],
  ] as const) {
    const timeOf = (h: number) => 1_600_000_000 + h * spacing + (jitter === 0 ? 0 : (h * 7919) % 3)
    for (let target = 1_600_000_500; target < timeOf(1_000_000); target += spacing * 37_511 + 1) {
      const result = await searchCut(
        timeFromSeconds(target),
        {
          low: block(0, timeOf(0)),
          lowHeight: 0,
          highHeight: 1_000_000,
          highTime: timeFromSeconds(timeOf(1_000_000)),
        },
        async (h) => block(h, timeOf(h)),
      )
      expect(result.reads).toBeLessThanOrEqual(6)
    }
  }
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
  expect(await searchCut(50n as TimeUs, bracket, async () => null)).toMatchObject({ found: false, reads: 1 })
})
