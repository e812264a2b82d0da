/*
 * Goal: recorded refusals of real nodes are judged rightly.
 * Method: each is sent over HTTP by a node and read through viem, as in life. Skipped without LOCKSTEP_REAL_DATA.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { chainKey } from '@lockstep/domain'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { JsonRpcServer, RpcFault } from '../../testkit/src/rpc/index.js'
import { CallFailure } from './call-failure.js'
import { Endpoint } from './endpoint.js'
import { isBehind, isRangeRefusal, isThrottled, suggestedWidth } from './judge-failure.js'

interface Recorded {
  readonly provider: string
  readonly kind: string
  readonly message: string
  readonly code?: number
}

const folder = process.env.LOCKSTEP_REAL_DATA
const recorded: readonly Recorded[] =
  folder === undefined
    ? []
    : JSON.parse(readFileSync(join(folder, 'provider-errors/eth_getLogs-shared.json'), 'utf8'))

let fault = new RpcFault(0, '')
const server = new JsonRpcServer(() => {
  throw fault
})
beforeAll(() => server.start())
afterAll(() => server.stop())

async function failureFor(code: number, message: string): Promise<CallFailure> {
  fault = new RpcFault(code, message)
  const node = new Endpoint(chainKey('alpha'), server.url, 1_000)
  const thrown = await node
    .call(
      { method: 'eth_getLogs', params: [{ fromBlock: '0x1', toBlock: '0x2' }] },
      new AbortController().signal,
    )
    .catch((error: unknown) => error)
  if (thrown instanceof CallFailure) return thrown
  throw new Error('it did not fail')
}

// Where the code was not recorded, any of those that were seen must do.
const codesOf = ({ code }: Recorded): number[] =>
  code === undefined ? [-32000, -32005, -32602, -32603] : [code]

const KINDS_TO_NARROW = new Set(['range', 'result-size', 'misleading', 'rate-or-range'])

describe.skipIf(folder === undefined)('recorded refusals (LOCKSTEP_REAL_DATA)', () => {
  test.each(recorded.flatMap((each) => codesOf(each).map((code) => ({ ...each, code }))))(
    '$provider $code: $message',
    async ({ kind, code, message }) => {
      const failure = await failureFor(code, message)
      expect(isRangeRefusal(failure)).toBe(KINDS_TO_NARROW.has(kind))
      expect(isThrottled(failure)).toBe(kind === 'rate-limit')
      expect(isBehind(failure)).toBe(kind === 'head')
    },
  )
})

test('a suggested range is read', async () => {
  const words = 'Based on your parameters, this block range should work: [0x123c9b2, 0x123cba5]'
  expect(suggestedWidth(await failureFor(-32600, words))).toBe(500)
  expect(suggestedWidth(await failureFor(-32600, 'block range is too wide'))).toBeNull()
  expect(suggestedWidth(await failureFor(-32600, 'try [0x5, 0x1]'))).toBeNull()
})

test('our own words in the request do not count', async () => {
  const failure = await failureFor(-32603, 'internal error')
  expect(failure.facts.words).toBe('internal error')
})

test('a node that is behind is not asked for less, though it speaks of a limit', async () => {
  const words = 'block range exceeds the limit: it extends beyond current head block'
  expect(isRangeRefusal(await failureFor(-32602, words))).toBe(false)
})
