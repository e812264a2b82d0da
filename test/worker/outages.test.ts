/*
 * Goal: outages and throttling slow a worker down, without loops, gaps or a flood of lines (S16).
 *
 * Method: a worker in this process follows a simulated node that fails in the ways of S16, one after the other, into a
 * real database; each request that came is judged. The worker's delays are shortened, their growth is not.
 */

import { setTimeout } from 'node:timers/promises'
import { height } from '@lockstep/domain'
import { evmChainOptions, RpcFault, SimulatedEvmNode } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, recordingLogger, Scene, type Stage, transfers } from './scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const HEAD = 1000
const RETRY = { firstMs: 2, mostMs: 200 }

/** Ways of S16 in which whole requests fail: 20 times each. */
function failAsInS16(node: SimulatedEvmNode): void {
  node.failNext(20, { kind: 'status', status: 503, body: '<html>Service Unavailable</html>' })
  node.failNext(20, { kind: 'error', code: -32000, message: 'server is busy, try again later' })
}

/** No log query ends above the head or begins above its end; no height above the head is asked for. */
function expectWithinHead(node: SimulatedEvmNode): void {
  const head = node.chain.head.number
  for (const { method, params } of node.calls) {
    const [first] = params as unknown[]
    if (method === 'eth_getLogs') {
      const { fromBlock, toBlock, blockHash } = first as Record<string, string>
      if (blockHash !== undefined) continue
      expect(Number(fromBlock)).toBeLessThanOrEqual(Number(toBlock))
      expect(Number(toBlock)).toBeLessThanOrEqual(head)
    } else if (method === 'eth_getBlockByNumber' && String(first).startsWith('0x')) {
      expect(Number(first)).toBeLessThanOrEqual(head)
    }
  }
}

/** How often each height was asked for since. */
function askedSince(node: SimulatedEvmNode, since: number): Map<number, number> {
  const asked = new Map<number, number>()
  for (const { method, params } of node.calls.slice(since)) {
    const [first] = params as unknown[]
    if (method !== 'eth_getBlockByNumber' || !String(first).startsWith('0x')) continue
    asked.set(Number(first), (asked.get(Number(first)) ?? 0) + 1)
  }
  return asked
}

async function expectEach(stage: Stage, from: number, to: number): Promise<void> {
  const heights = await stage.list('select height from block order by height')
  expect(heights).toEqual(Array.from({ length: to - from + 1 }, (_, offset) => from + offset))
}

test('S16: 503, busy, part of a batch, Retry-After and 413 are waited out, with growing delays and few lines', async () => {
  const node = await scene.evm(transfers(HEAD))
  const alpha = evmChainOptions({
    rpc: [node.url],
    startHeight: height(HEAD),
    finality: { by: 'depth', depth: 0 },
    blocks: 'all',
    pollMs: 30,
  })
  const stage = await scene.deploy(alpha)
  const { logger, lines } = recordingLogger()
  failAsInS16(node)
  stage.work(alpha, { logger, retry: RETRY })
  await stage.untilAt('alpha', headOf(node))
  const refused = node.calls.slice(0, 40)
  expect(new Set(refused.map(({ method }) => method))).toEqual(new Set(['eth_chainId'])) // one small question each
  const waits = lines
    .filter(({ msg }) => msg === 'work failed and is tried again')
    .map(({ waitMs }) => Number(waitMs))
  expect(waits.length).toBe(6) // the 1st, 2nd, 4th, 8th, 16th and 32nd
  expect(waits[2]).toBeGreaterThan(waits[0] as number)
  expect(waits.at(-1)).toBeGreaterThanOrEqual(RETRY.mostMs / 2)
  expectWithinHead(node)

  // A batch in HTTP 200, one item of which is a rate-limit error: that one alone is sent again.
  const [since, limited] = [node.calls.length, HEAD + 20]
  let refusals = 0
  node.answer('eth_getBlockByNumber', ([at], honest) => {
    if (Number(at) !== limited || refusals++ > 0) return honest()
    throw new RpcFault(-32005, 'rate limit exceeded')
  })
  node.extend(transfers(60, 2_000))
  await stage.untilAt('alpha', headOf(node))
  node.answer('eth_getBlockByNumber', null)
  const asked = askedSince(node, since)
  expect(asked.get(limited)).toBe(2)
  for (const [at, times] of asked)
    if (at !== limited && at > HEAD + 1 && at < HEAD + 60) expect(times).toBe(1)
  expectWithinHead(node)

  // HTTP 429 with Retry-After 7: nothing is asked before.
  let [refusedAt, askedAgainAt] = [0, 0]
  node.disturb = () => {
    if (refusedAt === 0) {
      refusedAt = performance.now()
      return { kind: 'status', status: 429, headers: { 'retry-after': '7' } }
    }
    const now = performance.now()
    if (now > refusedAt + 200) askedAgainAt ||= now // what was sent together with it was under way
    return null
  }
  await stage.until('the next request', async () => askedAgainAt > 0)
  expect(askedAgainAt - refusedAt).toBeGreaterThan(6_900)
  await stage.untilPhase('alpha', 'live')

  // HTTP 413 for a batch of 50: the batch shrinks, and stays so.
  node.batchMax = 20
  for (const more of [1, 2]) {
    const before = node.calls.length
    node.extend(transfers(60, 3_000 * more))
    await stage.untilAt('alpha', headOf(node))
    const most = Math.max(...askedSince(node, before).values())
    expect(most).toBeGreaterThanOrEqual(1)
    if (more === 2) expect(most).toBeLessThanOrEqual(2) // both ends of a range are read again after its logs
  }
  expectWithinHead(node)
  await expectEach(stage, HEAD, HEAD + 180)
  expect(lines.filter(({ level }) => level !== 'info').length).toBeLessThan(20)
  await stage.expectFresh(alpha)
})

test('S16: while one endpoint is out of order another is asked, and nothing waits', async () => {
  const first = await scene.evm(transfers(HEAD))
  const second = await scene.serve(new SimulatedEvmNode(first.chain))
  const alpha = evmChainOptions({
    rpc: [first.url, second.url],
    startHeight: height(HEAD),
    finality: { by: 'depth', depth: 0 },
    blocks: 'all',
    pollMs: 30,
  })
  const stage = await scene.deploy(alpha)
  const { logger, lines } = recordingLogger()
  failAsInS16(first)
  stage.work(alpha, { logger })
  await stage.untilAt('alpha', headOf(first))
  first.extend(transfers(60, 2_000))
  await stage.untilAt('alpha', headOf(first))
  expect(first.httpRequests).toBeLessThan(10) // it is left in peace
  expect(lines.filter(({ level }) => level !== 'info')).toMatchObject([
    { msg: 'rpc endpoint failed', endpoint: first.url },
  ])
  expectWithinHead(second)
  await expectEach(stage, HEAD, HEAD + 60)
})

test('a node that gives headers and no logs is asked ever more seldom, and the chain is said to wait until it stores again', async () => {
  const node = await scene.evm(transfers(20))
  const alpha = evmChainOptions({ rpc: [node.url], finality: { by: 'depth', depth: 0 }, pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const { logger, lines } = recordingLogger()
  stage.work(alpha, { logger, retry: { firstMs: 20, mostMs: 60_000 } })
  await stage.untilAt('alpha', headOf(node))
  const offline = () => {
    throw new RpcFault(-32000, 'logs are offline')
  }
  node.answer('eth_getLogs', offline)
  node.answer('eth_getBlockReceipts', offline)
  node.answer('eth_getTransactionReceipt', offline)
  const [since, lineSince] = [node.countOf('eth_getLogs'), lines.length]
  node.chain.extend(1)
  await setTimeout(3000)
  expect(node.countOf('eth_getLogs') - since).toBeLessThanOrEqual(9) // at 0, 10, 30, 70 … ms, or later
  expect(lines.length - lineSince).toBeLessThan(30)
  for (let look = 0; look < 10; look++) {
    const [phase] = await stage.list("select phase from chain_status where chain = 'alpha'")
    expect(phase).toBe('waiting')
    await setTimeout(50)
  }
})
