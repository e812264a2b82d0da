import { expect, it } from 'vitest'
import { type BlockRef, findForkPoint, type Height, type Hex, height, timeFromSeconds } from './index.js'

const ref = (h: number, branch: string): BlockRef => ({
  height: height(h),
  hash: `0x${branch}${h}` as Hex,
  parentHash: `0x${branch}${h - 1}` as Hex,
  time: timeFromSeconds(h),
})

/** Stored `heights` of branch a; the node has branch a up to `forkedAfter` and branch b from there to `head`. */
const search = (
  heights: readonly number[],
  forkedAfter: number,
  options: { head?: number; start?: number; max?: number } = {},
) =>
  findForkPoint({
    stored: (async function* () {
      for (const h of [...heights].sort((x, y) => y - x)) yield ref(h, 'a')
    })(),
    readHeader: async (h: Height) =>
      h > (options.head ?? 1000) ? null : ref(h, h <= forkedAfter ? 'a' : 'b'),
    startHeight: height(options.start ?? 0),
    rollbackDepthMax: options.max ?? 10,
  })

const upTo = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

it('finds the highest stored block that both agree on', async () => {
  expect(await search(upTo(100, 110), 107)).toMatchObject({ outcome: 'fork_point', block: { height: 107 } })
})

it('skips heights that are not stored', async () => {
  expect(await search([100, 103, 110], 105)).toMatchObject({ outcome: 'fork_point', block: { height: 103 } })
})

it('allows exactly the greatest depth, counted from the highest stored block', async () => {
  expect(await search(upTo(100, 110), 101)).toMatchObject({ outcome: 'fork_point', block: { height: 101 } })
  expect(await search(upTo(100, 110), 100)).toMatchObject({ outcome: 'fork_point', block: { height: 100 } })
  expect(await search(upTo(99, 110), 99)).toMatchObject({ outcome: 'too_deep', lowest: { height: 100 } })
})

it('goes back to before the start where the first block itself was replaced', async () => {
  expect(await search(upTo(100, 105), 99, { start: 100 })).toMatchObject({ outcome: 'before_start' })
  expect(await search(upTo(100, 110), 99, { start: 100 })).toMatchObject({ outcome: 'too_deep' })
})

it('stops where the stored blocks end above the start', async () => {
  expect(await search([299, 300], 295, { start: 200 })).toMatchObject({
    outcome: 'too_deep',
    lowest: { height: 299 },
  })
})

it('takes a node without the block for no proof of a fork', async () => {
  expect(await search(upTo(100, 110), 107, { head: 109 })).toMatchObject({ outcome: 'unsure', missing: 110 })
})
