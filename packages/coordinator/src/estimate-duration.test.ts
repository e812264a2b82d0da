import { type Height, height } from '@lockstep/domain'
import { expect, it } from 'vitest'
import { estimateIndexingAgain, estimateRefetch, estimateRemoval } from './estimate-duration.js'

const status = {
  headHeight: height(1000) as Height | null,
  checkpointHeight: height(990) as Height | null,
  endHeight: null as Height | null,
  startHeight: height(100),
  backfillBlocksPerSecond: 50 as number | null,
}

it('indexing again goes from the cut to the head, at the rate of the last backfill', () => {
  expect(estimateRefetch(status, 800)).toEqual({ blocks: 200, blocksPerSecond: 50, seconds: 4 })
  expect(estimateRefetch(status, null)).toMatchObject({ blocks: 901, seconds: 18.02 }) // from its start on
  expect(estimateRefetch({ ...status, endHeight: height(900) }, 800)).toMatchObject({ blocks: 100 })
  expect(estimateRefetch({ ...status, headHeight: null }, 800)).toMatchObject({ blocks: 190 })
})

it('tells plainly what was not measured, and that no time is needed for nothing', () => {
  expect(estimateRefetch({ ...status, backfillBlocksPerSecond: null }, 800)).toMatchObject({
    blocks: 200,
    seconds: null,
  })
  expect(estimateRefetch({ ...status, backfillBlocksPerSecond: null }, 1000)).toMatchObject({ seconds: 0 })
})

it('chains work at the same time, so the slowest decides; one that is not known leaves all open', () => {
  expect(
    estimateRemoval(
      [
        { blocks: 10, events: 90 },
        { blocks: 1, events: 1 },
      ],
      50,
    ),
  ).toBe(2)
  expect(estimateRemoval([{ blocks: 10, events: 90 }], null)).toBeNull()
  const [fast, slow] = [estimateRefetch(status, 990), estimateRefetch(status, 800)]
  expect(estimateIndexingAgain([fast, slow])).toBe(4)
  expect(estimateIndexingAgain([slow, { blocks: 1, blocksPerSecond: null, seconds: null }])).toBeNull()
  expect(estimateIndexingAgain([])).toBe(0)
})
