/* Goal: the width only falls by refusals, whatever their order. Method: refusals as parallel ranges meet them. */
import { expect, test } from 'vitest'
import { CallFailure } from './call-failure.js'
import { LogWidth } from './log-width.js'

const refusal = new CallFailure('eth_getLogs', 'too wide', {
  code: -32_000,
  status: null,
  timedOut: false,
  tooLarge: false,
  retryAfterMs: null,
  words: 'block range too large',
})

test('a wider query that is refused later does not widen it again', () => {
  const width = new LogWidth()
  width.narrow(200, refusal)
  width.narrow(600, refusal)
  expect(width.blocksMax).toBe(100)
})

test('it never falls below one block', () => {
  const width = new LogWidth()
  for (const blocks of [2, 1, 1]) width.narrow(blocks, refusal)
  expect(width.blocksMax).toBe(1)
})

test('it doubles after 32 full queries in a row', () => {
  const width = new LogWidth()
  width.narrow(200, refusal)
  for (let query = 1; query < 32; query++) width.widen(100)
  width.widen(5)
  expect(width.blocksMax).toBe(100)
  width.widen(100)
  expect(width.blocksMax).toBe(200)
})
