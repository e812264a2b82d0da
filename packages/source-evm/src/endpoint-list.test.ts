/*
 * Goal: a dead endpoint is no error while another works, a wrong one never gives a block, and nothing leaks a key.
 * Method: the source over HTTP against two or three nodes that die, lie and come back.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ChainSource, height, RpcUnavailableError, WrongChainError } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { evmChainOptions, SimulatedEvmChain, SimulatedEvmNode } from '../../testkit/src/evm/index.js'
import { createEvmSource } from './index.js'
import { recordingLogger } from './recording-logger.fixture.js'

/** An address where nothing listens. */
let dead: string

let chain: SimulatedEvmChain
let first: SimulatedEvmNode
let second: SimulatedEvmNode
const sources: ChainSource[] = []

beforeEach(async () => {
  chain = new SimulatedEvmChain({ chainId: 1 })
  chain.extend(10)
  first = new SimulatedEvmNode(chain)
  second = new SimulatedEvmNode(chain)
  await Promise.all([first.start(), second.start()])
  const gone = new SimulatedEvmNode(chain)
  dead = await gone.start()
  await gone.stop()
})
afterEach(async () => {
  vi.restoreAllMocks()
  for (const source of sources.splice(0)) await source.close()
  await Promise.all([first.stop(), second.stop()])
})

function sourceOf(
  rpc: readonly string[],
  { requestTimeoutMs = 2_000, logger = silentLogger() } = {},
): ChainSource {
  const source = createEvmSource(evmChainOptions({ rpc }), { logger, requestTimeoutMs })
  sources.push(source)
  return source
}

const failureOf = async (promise: Promise<unknown>): Promise<Error> => {
  const thrown = await promise.then(() => null).catch((error: unknown) => error)
  if (thrown instanceof Error) return thrown
  throw new Error('it did not fail')
}

const withoutPorts = (text: string): string => text.replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:<port>')

describe('check (S27)', () => {
  test('passes where one of two endpoints is dead', async () => {
    await sourceOf([dead, first.url]).check()
  })

  test('refuses where any endpoint is of another chain, naming both ids', async () => {
    second.reportedChainId = 137
    const error = await failureOf(sourceOf([first.url, second.url]).check())
    expect(error).toBeInstanceOf(WrongChainError)
    expect(withoutPorts(error.message)).toMatchInlineSnapshot(
      `"Chain alpha: the node at http://127.0.0.1:<port> is of chain 137, but the config says 1."`,
    )
  })

  test('says what is wrong with each where none works', async () => {
    first.failNext(1, { kind: 'status', status: 503 })
    const error = await failureOf(sourceOf([dead, first.url]).check())
    expect(error).toBeInstanceOf(RpcUnavailableError)
    expect(withoutPorts(error.message)).toMatchInlineSnapshot(
      `"Chain alpha: the node at http://127.0.0.1:<port>, http://127.0.0.1:<port> does not answer: http://127.0.0.1:<port>: eth_chainId: connect ECONNREFUSED 127.0.0.1:<port>; http://127.0.0.1:<port>: eth_chainId: HTTP 503"`,
    )
  })
})

describe('failover', () => {
  test('sticks to the endpoint that answered', async () => {
    const source = sourceOf([first.url, second.url])
    await source.tip()
    first.failNext(1, { kind: 'drop' })
    expect((await source.tip()).head.height).toBe(10)
    const before = first.httpRequests
    await source.tip()
    await source.block(height(3))
    expect(first.httpRequests).toBe(before)
  })

  test('comes back to the first when the second fails', async () => {
    const source = sourceOf([first.url, second.url])
    first.failNext(1, { kind: 'status', status: 500 })
    await source.tip()
    await second.stop()
    expect((await source.tip()).head.height).toBe(10)
  })

  test('asks another endpoint where one has no such block (S02)', async () => {
    first.lowerHead(5)
    expect((await sourceOf([first.url, second.url]).header(height(8)))?.height).toBe(8)
    expect(await sourceOf([first.url, dead]).header(height(8))).toBeNull()
  })

  test('takes pruned heights from an endpoint that keeps them (S21)', async () => {
    first.prune(5)
    const range = await sourceOf([first.url, second.url]).range(height(2), height(9))
    expect(range.first.height).toBe(2)
    const alone = sourceOf([first.url])
    await expect(alone.range(height(2), height(9))).rejects.toMatchObject({ code: 'height_pruned' })
    // The dead one may have them: the chain waits for it rather than stop.
    await expect(sourceOf([first.url, dead]).range(height(2), height(9))).rejects.toMatchObject({
      retryable: true,
    })
  })

  test('of all endpoints is one error: what a person must do comes first', async () => {
    first.prune(5)
    second.reportedChainId = 5 // shut out: nothing is waited for
    await expect(sourceOf([first.url, second.url]).range(height(2), height(9))).rejects.toMatchObject({
      code: 'height_pruned',
    })
    first.answer('eth_getBlockByNumber', () => 'x')
    await expect(sourceOf([dead, first.url]).header(height(9))).rejects.toMatchObject({
      code: 'malformed_answer',
    })
  })

  test('gives a whole answer of one endpoint: a failure half-way starts again at the next', async () => {
    const source = sourceOf([first.url, second.url])
    await source.tip()
    first.answer('eth_getLogs', () => {
      throw new Error('half-way')
    })
    await source.range(height(1), height(10))
    expect(second.countOf('eth_getBlockByNumber')).toBe(4) // both ends, before and after the logs
  })
})

describe('the chain id', () => {
  test('is asked before anything else, and with each answer', async () => {
    const source = sourceOf([first.url])
    await source.header(height(1))
    expect(first.calls.map(({ method }) => method)).toEqual(['eth_chainId', 'eth_getBlockByNumber'])
    await source.header(height(1))
    expect(first.countOf('eth_chainId')).toBe(2)
  })

  test('comes first again after a failure', async () => {
    const source = sourceOf([first.url])
    await source.header(height(1))
    const { port } = first
    await first.stop()
    await failureOf(source.header(height(1)))
    await first.start(port)
    first.reportedChainId = 5
    const before = first.countOf('eth_getBlockByNumber')
    await expect(source.header(height(1))).rejects.toThrow(WrongChainError)
    await sleep(50) // a block that was asked for at the same time would have come
    expect(first.countOf('eth_getBlockByNumber')).toBe(before)
  })

  test('that changes later shuts the endpoint out before any block of it is given (S27)', async () => {
    const source = sourceOf([first.url, second.url])
    await source.tip()
    first.reportedChainId = 5
    await source.header(height(3))
    expect(second.countOf('eth_getBlockByNumber')).toBe(1)
    await second.stop()
    await expect(source.tip()).rejects.toThrow(RpcUnavailableError) // the second may come back
    await expect(source.header(height(3))).rejects.toThrow(/is of chain 5/)
  })

  test('of all endpoints wrong is a WrongChainError', async () => {
    first.reportedChainId = 5
    await expect(sourceOf([first.url]).header(height(3))).rejects.toThrow(WrongChainError)
    expect(first.countOf('eth_getBlockByNumber')).toBe(0)
  })
})

describe('throttling and outages (S16)', () => {
  test('honours Retry-After without a request', async () => {
    const source = sourceOf([first.url])
    await source.tip()
    first.failNext(1, { kind: 'status', status: 429, headers: { 'retry-after': '7' } })
    await failureOf(source.tip())
    const asked = first.httpRequests
    const now = performance.now()
    const clock = vi.spyOn(performance, 'now')
    for (const later of [0, 3_500, 6_500]) {
      clock.mockImplementation(() => now + later)
      expect((await failureOf(source.tip())).message).toMatch(/HTTP 429/)
    }
    expect(first.httpRequests).toBe(asked)
    clock.mockImplementation(() => now + 7_100)
    expect((await source.tip()).head.height).toBe(10)
  })

  test('sends only the failed items of a batch again', async () => {
    chain.extend(30)
    const source = createEvmSource(evmChainOptions({ rpc: [first.url], blocks: 'all' }), {
      logger: silentLogger(),
    })
    sources.push(source)
    let refused = 0
    first.answer('eth_getBlockByNumber', (params, honest) => {
      if (params[0] !== '0x14' || refused++ > 1) return honest()
      throw Object.assign(new Error('busy, try again later'))
    })
    const range = await source.range(height(11), height(40))
    expect(range.blocks).toHaveLength(30)
    const asked = first.calls.filter(({ method }) => method === 'eth_getBlockByNumber')
    expect(asked).toHaveLength(2 + 30 + 2)
  })

  test('shrinks the batch on HTTP 413', async () => {
    chain.extend(90)
    first.batchMax = 20
    const source = createEvmSource(evmChainOptions({ rpc: [first.url], blocks: 'all' }), {
      logger: silentLogger(),
    })
    sources.push(source)
    expect((await source.range(height(1), height(100))).blocks).toHaveLength(100)
    const asked = first.httpRequests
    await source.range(height(1), height(100))
    expect(first.httpRequests - asked).toBe(1 + 2 + 1 + Math.ceil(100 / 12)) // learned: 50, 25, 12
  })

  test('works with a node that takes no batches', async () => {
    first.batchMax = 0
    expect((await sourceOf([first.url]).range(height(1), height(10))).last.height).toBe(10)
  })

  test('logs an outage as two lines', async () => {
    const { logger, lines } = recordingLogger()
    const source = sourceOf([first.url], { logger })
    chain.finalizedDepth = 2
    first.failNext(20, { kind: 'status', status: 503 })
    for (let tries = 0; tries < 20; tries++) await failureOf(source.tip())
    await source.tip()
    expect(lines.map(({ msg }) => msg)).toEqual(['rpc endpoint failed', 'rpc endpoint recovered'])
  })
})

describe('ending', () => {
  test('an aborted signal rejects soon, though the node never answers', async () => {
    const source = sourceOf([first.url], { requestTimeoutMs: 60_000 })
    await source.tip()
    first.failNext(9, { kind: 'hang' })
    const methods: ((signal: AbortSignal) => Promise<unknown>)[] = [
      (signal) => source.tip(signal),
      (signal) => source.check(signal),
      (signal) => source.block(height(1), signal),
    ]
    for (const ask of methods) {
      const controller = new AbortController()
      const reason = new Error('the worker stops')
      const asked = failureOf(ask(controller.signal))
      setTimeout(() => controller.abort(reason), 20)
      expect(await asked).toBe(reason)
    }
    await expect(source.tip(AbortSignal.abort(new Error('before')))).rejects.toThrow('before')
  })

  test('close() rejects what is in flight and what comes later', async () => {
    const source = sourceOf([first.url], { requestTimeoutMs: 60_000 })
    await source.tip()
    first.failNext(1, { kind: 'hang' })
    const asked = failureOf(source.tip())
    setTimeout(() => source.close(), 20)
    expect((await asked).message).toMatch(/this source was closed/)
    expect((await failureOf(source.header(height(1)))).message).toMatch(/this source was closed/)
  })

  test('a request that is not answered in time fails', async () => {
    const source = sourceOf([first.url], { requestTimeoutMs: 50 })
    await source.tip()
    first.failNext(1, { kind: 'hang' })
    expect((await failureOf(source.tip())).message).toMatch(/no answer within the time limit/)
  })
})

describe('secrets', () => {
  test('of an address never reach a message', async () => {
    const url = `${first.url.replace('//', '//someone:passw0rd-long@')}/v3/0123456789abcdef?key=topsecretkey`
    const source = sourceOf([url])
    for (const fault of [
      { kind: 'drop' },
      { kind: 'status', status: 401, body: 'invalid project id 0123456789abcdef' },
      { kind: 'error', code: -32000, message: `bad key topsecretkey at ${url}` },
      { kind: 'status', status: 200, body: 'passw0rd-long topsecretkey' },
    ] as const) {
      first.failNext(1, fault)
      const error = await failureOf(source.tip())
      expect(error).toBeInstanceOf(RpcUnavailableError)
      const all = `${error.message} ${JSON.stringify(error)} ${error.stack} ${String(error.cause)}`
      expect(all).not.toMatch(/passw0rd|0123456789abcdef|topsecret/)
    }
  })
})
