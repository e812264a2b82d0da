/*
 * Goal: of several endpoints the preferred one works while it is well; one that fails, stands still or lags gives its
 * place to the next, gets it back, and is told of in few lines. No endpoint is asked more than it allows.
 * Method: the source over HTTP against two nodes of one chain; which of them was asked is counted.
 */
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ChainSource, height } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { evmChainOptions, SimulatedEvmChain, SimulatedEvmNode } from '../../testkit/src/evm/index.js'
import type { EndpointWish } from '../../testkit/src/rpc/index.js'
import { BestHead } from './best-head.js'
import { growingDelayMs } from './growing-delay.js'
import { createEvmSource } from './index.js'
import { recordingLogger } from './recording-logger.fixture.js'

let chain: SimulatedEvmChain
let first: SimulatedEvmNode
let second: SimulatedEvmNode
const sources: ChainSource[] = []

beforeEach(async () => {
  chain = new SimulatedEvmChain({ chainId: 1 })
  chain.extend(100)
  first = new SimulatedEvmNode(chain)
  second = new SimulatedEvmNode(chain)
  await Promise.all([first.start(), second.start()])
})
afterEach(async () => {
  for (const source of sources.splice(0)) await source.close()
  await Promise.all([first.stop(), second.stop()])
})

function sourceOf(rpc: readonly EndpointWish[], logger = silentLogger()): ChainSource {
  const source = createEvmSource(evmChainOptions({ rpc, blocks: 'all' }), {
    logger,
    probeMs: 20,
    lagMostMs: 200,
  })
  sources.push(source)
  return source
}

/** Blocks that a node was asked for, which probes do not. */
const workOf = (node: SimulatedEvmNode): number => node.countOf('eth_getBlockByNumber')

/** Follows the chain until the condition holds. */
async function follow(source: ChainSource, condition: () => boolean, eachRound = () => {}): Promise<void> {
  for (let round = 0; !condition(); round++) {
    if (round > 1500) throw new Error('it never came')
    eachRound()
    await source.tip().catch(() => {})
    await sleep(10)
  }
}

/** The next question goes to this one alone. */
async function expectAsked(
  source: ChainSource,
  node: SimulatedEvmNode,
  other: SimulatedEvmNode,
): Promise<void> {
  const [before, beforeOther] = [workOf(node), workOf(other)]
  await source.header(height(3))
  expect([workOf(node) - before, workOf(other) - beforeOther]).toEqual([1, 0])
}

const messages = (lines: readonly { readonly msg: string; readonly endpoint?: unknown }[]) =>
  lines.map(({ msg, endpoint }) => [msg, endpoint])

describe('an endpoint that fails', () => {
  test('gives its place to the next, and gets it back when it is well again', async () => {
    const { logger, lines } = recordingLogger()
    const source = sourceOf([first.url, second.url], logger)
    await source.tip()
    const { port, url } = first
    await first.stop()
    await source.tip()
    await expectAsked(source, second, first)
    expect(source.trouble()).toMatch(new RegExp(`^${url} fails: eth_.*ECONNREFUSED`))
    await first.start(port)
    const before = workOf(first)
    await follow(source, () => workOf(first) > before)
    await expectAsked(source, first, second)
    expect(source.trouble()).toBeNull()
    expect(messages(lines)).toEqual([
      ['rpc endpoint failed', url],
      ['rpc endpoint recovered', url],
    ])
  })

  test('is found out while another works, and answers small questions for nothing', async () => {
    const { logger, lines } = recordingLogger()
    const source = sourceOf([first.url, second.url], logger)
    await source.tip()
    second.disturb = () => ({ kind: 'status', status: 500 })
    await follow(source, () => lines.length > 0)
    expect(messages(lines)).toEqual([['rpc endpoint failed', second.url]])
    // The first answers what probes ask, and fails at its work: it is tried ever less, and said once.
    first.disturb = (calls) =>
      calls.some(({ method }) => method === 'eth_getBlockByNumber') ? { kind: 'status', status: 500 } : null
    second.disturb = () => null
    const before = workOf(first)
    let rounds = 0
    await follow(
      source,
      () => workOf(first) - before >= 8,
      () => {
        rounds += 1
      },
    )
    expect(rounds).toBeGreaterThan(20)
    expect(messages(lines).filter(([, endpoint]) => endpoint === first.url)).toEqual([
      ['rpc endpoint failed', first.url],
    ])
  })

  test('is asked all the same where no other has the answer', async () => {
    const source = sourceOf([first.url, second.url])
    await source.tip()
    first.failNext(1, { kind: 'drop' })
    await source.tip()
    second.prune(50)
    expect((await source.range(height(2), height(9))).first.height).toBe(2)
  })

  test('or hangs is not waited for by those that look at it', async () => {
    const source = sourceOf([first.url, second.url])
    await source.tip()
    second.failNext(1_000, { kind: 'hang' })
    for (let round = 0; round < 20; round++) {
      await source.tip()
      await sleep(5)
    }
    expect(second.httpRequests).toBe(1)
  })
})

describe('an endpoint whose head stands still', () => {
  test('while that of another moves gives its place, and gets it back when it has caught up', async () => {
    const { logger, lines } = recordingLogger()
    const source = sourceOf([first.url, second.url], logger)
    await source.tip()
    first.stall()
    const grow = () => {
      if (chain.head.number < 400) chain.extend(1)
    }
    await follow(source, () => workOf(second) > 0, grow)
    expect((await source.tip()).head.height).toBe(chain.head.number)
    expect(source.trouble()).toMatch(/lags \d+ s behind others/)
    await expectAsked(source, second, first)
    first.resume()
    const before = workOf(first)
    await follow(source, () => workOf(first) > before)
    expect(source.trouble()).toBeNull()
    expect(messages(lines)).toEqual([
      ['rpc endpoint fell behind the others', first.url],
      ['rpc endpoint caught up', first.url],
    ])
  })

  test('as all others do keeps its place', async () => {
    const { logger, lines } = recordingLogger()
    const source = sourceOf([first.url, second.url], logger)
    const until = performance.now() + 500
    await follow(source, () => performance.now() > until)
    expect(lines).toEqual([])
    await expectAsked(source, first, second)
  })

  test('a few blocks behind is the best there is where the other fails', async () => {
    const source = sourceOf([first.url, second.url])
    first.lowerHead(50)
    await follow(source, () => workOf(second) > 0)
    await second.stop()
    await source.tip().catch(() => {})
    expect((await source.tip()).head.height).toBe(50)
  })
})

describe('a lag', () => {
  test('is told in time, from when another had more', () => {
    const best = new BestHead()
    expect(best.lagMs(100, 0)).toBe(0)
    expect(best.lagMs(101, 1_000)).toBe(0)
    expect(best.lagMs(105, 5_000)).toBe(0)
    expect(best.lagMs(105, 9_000)).toBe(0)
    expect(best.lagMs(104, 9_000)).toBe(4_000)
    expect(best.lagMs(100, 9_000)).toBe(8_000)
    expect(best.lagMs(99, 9_000)).toBe(9_000)
  })

  test('is remembered no longer than it is of use', () => {
    const best = new BestHead()
    for (let at = 0; at < 2_000_000; at += 1_000) best.lagMs(at, at)
    expect(best.lagMs(0, 2_000_000)).toBeLessThan(700_000)
  })
})

test('delays grow to a limit, with jitter', () => {
  const bounds = { firstMs: 100, mostMs: 1_000 }
  for (const [failures, most] of [
    [1, 100],
    [2, 200],
    [4, 800],
    [5, 1_000],
    [5_000, 1_000],
  ] as const) {
    const delays = Array.from({ length: 50 }, () => growingDelayMs(failures, bounds))
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(most / 2)
    expect(Math.max(...delays)).toBeLessThanOrEqual(most)
    expect(new Set(delays).size).toBeGreaterThan(5)
  }
})

describe('what an endpoint allows', () => {
  /** The most requests that were under way at the same time, over many questions at once. */
  async function mostAtOnce(wish: Partial<EndpointWish & object>): Promise<number> {
    let [now, most] = [0, 0]
    first.answer('eth_getBlockByNumber', async (_, honest) => {
      now += 1
      most = Math.max(most, now)
      await sleep(300) // so that all that is sent is there at the same time, also on a busy machine
      now -= 1
      return honest()
    })
    const source = sourceOf([{ url: first.url, ...wish }])
    await Promise.all(Array.from({ length: 60 }, (_, at) => source.header(height(at + 1))))
    return most
  }

  test('is twenty requests at once', async () => expect(await mostAtOnce({})).toBe(20))

  test('or what the config says', async () => expect(await mostAtOnce({ requestsAtOnce: 3 })).toBe(3))

  test('is not passed within any second, each call of a batch counted', async () => {
    const came: number[] = []
    first.disturb = (calls) => {
      came.push(...calls.map(() => performance.now()))
      return null
    }
    const source = sourceOf([{ url: first.url, requestsPerSecond: 20 }])
    await source.range(height(1), height(60))
    expect(came.length).toBeGreaterThan(60)
    // 5 % for the way to the node: it is the sending that is counted.
    for (const at of came)
      expect(came.filter((each) => each >= at && each < at + 950).length).toBeLessThanOrEqual(20)
  })

  test('is not spent on what was aborted', async () => {
    const source = sourceOf([{ url: first.url, requestsPerSecond: 4 }])
    await source.tip()
    const abort = new AbortController()
    setMaxListeners(0, abort.signal)
    const asked = Promise.allSettled(
      Array.from({ length: 500 }, (_, at) => source.header(height(at % 100), abort.signal)),
    )
    await sleep(50)
    abort.abort(new Error('the worker stops'))
    expect(new Set((await asked).map(({ status }) => status))).toEqual(new Set(['rejected']))
    expect((await source.header(height(3)))?.height).toBe(3) // in minutes, if it had to wait for those
  })
})
