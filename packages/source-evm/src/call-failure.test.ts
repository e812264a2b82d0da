/**
 * Goal: whatever a node puts into a refusal, it is read as one, and at a cost that does not grow with what it says.
 * Method: errors as viem throws them.
 */
import { RpcRequestError } from 'viem'
import { expect, test } from 'vitest'
import { readFailure } from './call-failure.js'
import { judge } from './judge-failure.js'

const refusal = (message: string, data?: unknown) => {
  const error = { code: -32000, message, data }
  return readFailure(
    'eth_getLogs',
    new RpcRequestError({ body: {}, url: 'http://node', error }),
    (text) => text,
  )
}

test('data that is nested deeper than JSON.stringify goes is a refusal as any other', () => {
  const deep: unknown = JSON.parse('['.repeat(200_000) + ']'.repeat(200_000))
  const failure = refusal('block range is too large', deep)
  expect(failure.reason).toBe('error -32000: block range is too large')
  expect(judge(failure)).toBe('too_wide')
})

test('of megabytes of words the beginning is judged', () => {
  const failure = refusal(`header not found${' range'.repeat(500_000)}`, 'limit '.repeat(500_000))
  expect(failure.facts.words.length).toBeLessThanOrEqual(4000)
  expect(judge(failure)).toBe('behind')
})
