/*
 * Goal: recorded refusals of real nodes are judged rightly.
 * Method: each is sent over HTTP by a node and read through viem, as in life. Skipped without LOCKSTEP_REAL_DATA.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { chainKey } from '@lockstep/domain'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { endpointOf, HttpFailure, JsonRpcServer, RpcFault } from '../../testkit/src/rpc/index.js'
import { CallFailure } from './call-failure.js'
import { Endpoint } from './endpoint.js'
import {
  isBehind,
  isRangeRefusal,
  isThrottled,
  isWorthAskingAgain,
  judge,
  suggestedWidth,
} from './judge-failure.js'

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

let fault: RpcFault | HttpFailure = new RpcFault(0, '')
const server = new JsonRpcServer(() => {
  throw fault
})
beforeAll(() => server.start())
afterAll(() => server.stop())

function failureFor(code: number, message: string): Promise<CallFailure> {
  return failureOf(new RpcFault(code, message))
}

async function failureOf(answer: RpcFault | HttpFailure): Promise<CallFailure> {
  fault = answer
  const node = new Endpoint(chainKey('alpha'), endpointOf(server.url), 5_000)
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

describe('by HTTP status, code or words', () => {
  const page = (status: number, body = '<html>limit exceeded, request timed out</html>', headers = {}) =>
    new HttpFailure({ kind: 'status', status, body, headers })
  test.each([
    ['HTTP 429', page(429), 'throttled'],
    ['HTTP 403 with Retry-After', page(403, 'no', { 'retry-after': '3' }), 'throttled'],
    ['HTTP 413', page(413), 'too_wide'],
    ['HTTP 504', page(504), 'too_wide'],
    ['HTTP 503, whatever its page says', page(503), 'busy'],
    ['HTTP 500, whatever its page says', page(500), 'failed'],
    ['429 as a code', new RpcFault(429, 'slow down'), 'throttled'],
    ['-32005 without more', new RpcFault(-32005, 'request refused'), 'busy'],
    [
      '-32005 that is a rate',
      new RpcFault(-32005, 'project ID request rate exceeded: too many requests'),
      'throttled',
    ],
    ['-32005 that is a size', new RpcFault(-32005, 'query returned more than 10000 results'), 'too_wide'],
    ['-32000 busy', new RpcFault(-32000, 'server is busy, try again later'), 'busy'],
    ['-32601', new RpcFault(-32601, 'the method eth_x does not exist/is not available'), 'unsupported'],
    ['4444', new RpcFault(4444, 'pruned history unavailable'), 'pruned'],
    ['-32603 without more', new RpcFault(-32603, 'internal error'), 'failed'],
  ])('%s', async (_, answer, means) => {
    const failure = await failureOf(answer)
    expect(judge(failure)).toBe(means)
    expect(isWorthAskingAgain(failure)).toBe(
      means === 'throttled' || means === 'busy' || failure.facts.code === -32005,
    )
  })
})
