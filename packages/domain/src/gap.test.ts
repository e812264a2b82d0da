/**
 * Goal: every height that a filter misses is fetched once, from below, with all filters that miss it.
 * Method: gaps by hand, and random ones that are opened and filled to their end beside a plain set of heights.
 */
import { expect, test } from 'vitest'
import { fillGaps, type Gap, height, nextPiece, openGap } from './index.js'

const gap = (filter: string, from: number, to: number): Gap => ({
  filter,
  from: height(from),
  to: height(to),
})

test('the lowest height comes first, with all filters that miss it, up to where another one joins', () => {
  const gaps = [gap('a', 10, 100), gap('b', 10, 50), gap('c', 40, 60)]
  expect(nextPiece(gaps, 1000, height(500))).toEqual({ from: 10, to: 39, filters: ['a', 'b'] })
  expect(nextPiece(gaps, 5, height(500))).toMatchObject({ from: 10, to: 14 })
})

test('above the finalized height blocks are taken one by one', () => {
  expect(nextPiece([gap('a', 10, 20)], 100, height(12))).toMatchObject({ from: 10, to: 12 })
  expect(nextPiece([gap('a', 13, 20)], 100, height(12))).toMatchObject({ from: 13, to: 13 })
  expect(nextPiece([gap('a', 13, 20)], 100, null)).toMatchObject({ from: 13, to: 13 })
})

test('no gap, no piece; a gap that ends before it begins is none', () => {
  expect(nextPiece([], 10, height(5))).toBeNull()
  expect(openGap([], gap('a', 5, 4))).toEqual([])
})

test('gaps that touch become one, others stay', () => {
  const gaps = [gap('a', 1, 4), gap('a', 9, 12), gap('b', 5, 8)]
  expect(openGap(gaps, gap('a', 5, 8))).toEqual([gap('b', 5, 8), gap('a', 1, 12)])
  expect(openGap(gaps, gap('a', 6, 7))).toContainEqual(gap('a', 6, 7))
})

test('any gaps are filled by pieces of their own heights, each height of each filter once', () => {
  let seed = 1
  const random = (below: number): number => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % below
  }
  for (let round = 0; round < 200; round++) {
    const missing = new Map<string, Set<number>>()
    let gaps: Gap[] = []
    for (let count = random(6); count >= 0; count--) {
      const from = random(60)
      const next = gap('abc'.charAt(random(3)), from, from + random(20))
      gaps = openGap(gaps, next)
      const heights = missing.get(next.filter) ?? new Set()
      for (let each: number = next.from; each <= next.to; each++) heights.add(each)
      missing.set(next.filter, heights)
    }
    const whole = random(2) === 0 ? null : height(random(80))
    for (let piece = nextPiece(gaps, 7, whole); piece !== null; piece = nextPiece(gaps, 7, whole)) {
      for (const filter of piece.filters)
        for (let each: number = piece.from; each <= piece.to; each++)
          expect(missing.get(filter)?.delete(each), `round ${round}: ${filter} ${each}`).toBe(true)
      gaps = fillGaps(gaps, piece)
    }
    expect([...missing.values()].every((heights) => heights.size === 0)).toBe(true)
  }
})
