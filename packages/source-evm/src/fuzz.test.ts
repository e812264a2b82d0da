/*
 * Goal: whatever a node answers, only errors for people come out, and what comes out instead of one is whole.
 * Method: a node over HTTP that answers with random JSON, random bytes, or honestly save for one field; beside what
 * random does not find: answers that are very deep or very long.
 */
import { type ChainSource, type Hex, height, LockstepError } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { addressOf, evmChainOptions, SimulatedEvmNode, transferLog } from '../../testkit/src/evm/index.js'
import { createEvmSource } from './index.js'

const RUNS = 60
const TX: Hex = `0x${'11'.repeat(32)}`
const METHODS = [
  'eth_chainId',
  'eth_getBlockByNumber',
  'eth_getLogs',
  'eth_getBlockReceipts',
  'eth_getTransactionByBlockHashAndIndex',
  'eth_getTransactionReceipt',
  'eth_getTransactionByHash',
]

let node: SimulatedEvmNode
let source: ChainSource

beforeEach(async () => {
  node = new SimulatedEvmNode({ chainId: 1 })
  const log = transferLog(
    { token: addressOf(9), from: addressOf(1), to: addressOf(2), value: 5n },
    { txHash: TX },
  )
  node.extend([{ logs: [log, log] }, {}, {}])
  await node.start()
  const options = evmChainOptions({ rpc: [node.url], transactions: true })
  source = createEvmSource(options, { logger: silentLogger(), requestTimeoutMs: 5_000 })
})
afterEach(async () => {
  await source.close()
  await node.stop()
})

/** What each question gives: a value, or a LockstepError's code. Any other error fails. */
async function askAll(): Promise<Record<string, unknown>> {
  const questions = {
    block: () => source.block(height(1)),
    range: () => source.range(height(1), height(3)),
    tip: () => source.tip(),
    header: () => source.header(height(2)),
    transaction: () => source.blockOfTransaction(TX),
  }
  const answers: Record<string, unknown> = {}
  for (const [name, ask] of Object.entries(questions)) {
    answers[name] = await ask().catch((error: unknown) => {
      expect(error).toBeInstanceOf(LockstepError)
      return 'refused'
    })
  }
  return answers
}

const eventsOf = (answers: Record<string, unknown>): number[] =>
  ['block', 'range'].flatMap((name) => {
    const answer = answers[name] as { events?: unknown[]; blocks?: { events: unknown[] }[] } | string | null
    if (answer === null || typeof answer === 'string') return []
    return [answer.events?.length ?? answer.blocks?.reduce((sum, { events }) => sum + events.length, 0) ?? 0]
  })

const json = fc.jsonValue({ maxDepth: 3 })

test('random JSON in place of a result', async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...METHODS), json, async (method, value) => {
      node.answer(method, () => value)
      const answers = await askAll()
      for (const events of eventsOf(answers)) expect(events).toBe(2)
      node.answer(method, null)
    }),
    { numRuns: RUNS },
  )
})

test('random bytes in place of an HTTP answer', async () => {
  const body = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.json(),
    fc.constantFrom('', '{', '[]', '{"id":1}', 'null'),
  )
  await fc.assert(
    fc.asyncProperty(body, fc.constantFrom(200, 204, 302, 400, 413, 429, 500), async (text, status) => {
      node.disturb = () => ({ kind: 'status', status, body: status === 204 ? '' : text })
      for (const answer of Object.values(await askAll())) expect(answer).toBe('refused')
    }),
    { numRuns: RUNS },
  )
})

test('an honest answer save for one field', async () => {
  const fields = fc
    .constantFrom(
      'number hash parentHash timestamp logsBloom transactions address data blockHash blockNumber'
        .split(' ')
        .concat(
          'transactionHash transactionIndex logIndex removed status gasUsed logs from to value gas'.split(
            ' ',
          ),
        ),
    )
    .chain((names) => fc.constantFrom(...names))
  const honest = await askAll()
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...METHODS), fields, fc.option(json), async (method, field, value) => {
      node.answer(method, (_, answer) => change(answer(), field, value))
      const answers = await askAll()
      for (const events of eventsOf(answers)) expect(events).toBe(2)
      node.answer(method, null)
      if (answers.block !== 'refused' && method === 'eth_getBlockByNumber' && field !== 'transactions')
        expect((answers.block as { events: unknown }).events).toEqual(
          (honest.block as { events: unknown }).events,
        )
    }),
    { numRuns: 2 * RUNS },
  )
})

/** The field of the first object that has it; null leaves it out. */
function change(answer: unknown, field: string, value: unknown): unknown {
  if (Array.isArray(answer)) return answer.map((each, at) => (at === 0 ? change(each, field, value) : each))
  if (typeof answer !== 'object' || answer === null || !(field in answer)) return answer
  const { [field]: _, ...others } = answer as Record<string, unknown>
  return value === null ? others : { ...others, [field]: value }
}

describe('an answer', () => {
  test('that is nested very deep is refused', async () => {
    const body = `{"jsonrpc":"2.0","id":1,"result":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    node.disturb = () => ({
      kind: 'status',
      status: 200,
      body,
      headers: { 'content-type': 'application/json' },
    })
    for (const answer of Object.values(await askAll())) expect(answer).toBe('refused')
  })

  test('of megabytes in one log is read', async () => {
    const data: Hex = `0x${'5'.padStart(64, '0')}${'ab'.repeat(6_000_000)}`
    node.answer('eth_getLogs', (_, honest) =>
      (honest() as object[]).slice(0, 1).map((log) => ({ ...log, data })),
    )
    const block = await source.block(height(1))
    expect(block?.events[0]?.args?.value).toBe('5') // what nothing points to is passed over
    expect(block?.events[0]?.raw.data.length).toBe(data.length)
  })

  test('that is longer than we read is cut off', async () => {
    node.answer('eth_getBlockByNumber', (_, honest) => ({
      ...(honest() as object),
      extraData: 'x'.repeat(40_000_000),
    }))
    await expect(source.header(height(1))).rejects.toThrow(/too large/)
  })
})
