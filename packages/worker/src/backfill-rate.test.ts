import { expect, it } from 'vitest'
import { BackfillRate } from './backfill-rate.js'

it('is blocks over the seconds of work, and says nothing of a handful of blocks', () => {
  const rate = new BackfillRate()
  expect(rate.perSecond).toBeNull()
  rate.add(49, 0.1)
  expect(rate.perSecond).toBeNull()
  rate.add(151, 1.9)
  expect(rate.perSecond).toBe(100)
})

it('follows a node that became slow', () => {
  const rate = new BackfillRate()
  for (let second = 0; second < 600; second++) rate.add(1000, 1)
  expect(rate.perSecond).toBe(1000)
  for (let second = 0; second < 600; second++) rate.add(10, 1)
  expect(rate.perSecond).toBeLessThan(40)
})
