/*
 * Goal: do no harm when unsure. A node that is behind, pruned, dead, lying or of another chain never makes a worker
 * delete, skip or store what is not the chain's; and the worker goes on by itself when the node is well again.
 *
 * Method: workers in this process follow simulated nodes over HTTP into a real database, while the nodes misbehave.
 */
import { chainKey, type Height, height, timeFromSeconds } from '@lockstep/domain'
import { evmChainOptions, JsonRpcServer, RpcFault, SimulatedEvmNode } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { cosmosChainOptions } from '../../packages/testkit/src/comet/index.js'
import { cometHeadOf, headOf, recordingLogger, Scene, type Stage, transfers } from './scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const rollbacks = async (stage: Stage) => (await stage.list('select count(*) from rollback'))[0]

/** A second node that serves the chain of the first. */
const twinOf = (node: SimulatedEvmNode): Promise<SimulatedEvmNode> =>
  scene.serve(new SimulatedEvmNode(node.chain))

const isBlock = (params: unknown, from: number): boolean =>
  Array.isArray(params) && typeof params[0] === 'string' && Number(params[0]) >= from

test('S02: where endpoints disagree on the head, blocks that the second lacks are waited for and stored once', async () => {
  const first = await scene.evm(transfers(125))
  const second = await twinOf(first)
  second.lowerHead(25)
  // For its first questions above 100 the first endpoint is out of order: the second is asked, and answers null.
  let refused = 0
  first.disturb = (calls) => {
    if (refused >= 4 || !calls.some(({ params }) => isBlock(params, 101))) return null
    refused += 1
    return { kind: 'status', status: 503 }
  }
  const alpha = evmChainOptions({ rpc: [first.url, second.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(first))
  expect(refused).toBe(4)
  expect(await rollbacks(stage)).toBe(0)
  await stage.expectFresh(alpha)
})

test('S02: a restart against an endpoint that is behind the checkpoint deletes nothing and waits', async () => {
  const first = await scene.evm(transfers(120))
  const second = await twinOf(first)
  second.lowerHead(20)
  const alpha = evmChainOptions({ rpc: [first.url, second.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const worker = stage.work(alpha)
  await stage.untilAt('alpha', headOf(first))
  await worker.stop()
  await first.stop()
  const before = await stage.digestOf('alpha')
  stage.work(alpha)
  await stage.untilPhase('alpha', 'waiting', /the node's head 100 is below the checkpoint 120/)
  expect(await stage.digestOf('alpha')).toEqual(before)
  first.extend(transfers(5))
  second.lowerHead(0)
  await stage.untilAt('alpha', headOf(first))
  expect(await rollbacks(stage)).toBe(0)
  await stage.expectFresh(evmChainOptions({ ...alpha, rpc: [second.url] }))
})

test('a head that falls and comes back changes nothing', async () => {
  const node = await scene.evm(transfers(60))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  const before = await stage.digestOf('alpha')
  node.lowerHead(20)
  await stage.untilPhase('alpha', 'waiting', /head 40 is below the checkpoint 60/)
  expect(await stage.digestOf('alpha')).toEqual(before)
  node.lowerHead(0)
  await stage.untilPhase('alpha', 'live')
  expect(await stage.digestOf('alpha')).toEqual(before)
  expect(await rollbacks(stage)).toBe(0)
})

test('null for blocks that are stored is no fork', async () => {
  const node = await scene.evm(transfers(60))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const first = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await first.stop()
  const before = await stage.digestOf('alpha')
  node.fork(3, transfers(5, 700))
  node.hide(59, 58, 57, 56)
  stage.work(alpha)
  const asked = node.countOf('eth_getBlockByNumber')
  await stage.until('some tries', async () => node.countOf('eth_getBlockByNumber') > asked + 30)
  expect(await stage.digestOf('alpha')).toEqual(before)
  expect(await rollbacks(stage)).toBe(0)
})

test('one wrong hash for the newest block, and a right one when asked again, is no fork', async () => {
  const node = await scene.evm(transfers(60))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  let lies = 3
  node.answer('eth_getBlockByNumber', ([tag], honest) => {
    const block = honest() as Record<string, unknown>
    if (tag !== 'latest' || lies === 0) return block
    lies -= 1
    return { ...block, hash: `0x${'1e'.repeat(32)}` }
  })
  await stage.until('the lies', async () => lies === 0)
  node.extend(transfers(2))
  await stage.untilAt('alpha', headOf(node))
  expect(await rollbacks(stage)).toBe(0)
  await stage.expectFresh(alpha)
})

test('a node that is out of order for five seconds is waited for, in few lines', async () => {
  const node = await scene.evm(transfers(30))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const { logger, lines } = recordingLogger()
  stage.work(alpha, { logger })
  await stage.untilAt('alpha', headOf(node))
  node.disturb = () => ({ kind: 'status', status: 503 })
  await stage.untilPhase('alpha', 'waiting', /does not answer/)
  await stage.until(
    'five seconds',
    async () =>
      (
        await stage.list(
          `select clock_timestamp() - max(acquired_at) > interval '5 s' from lease where name = 'chain:alpha'`,
        )
      )[0] === true,
  )
  node.extend(transfers(3))
  node.disturb = () => null
  await stage.untilAt('alpha', headOf(node))
  expect(lines.filter(({ level }) => level !== 'info').length).toBeLessThan(10)
  await stage.expectFresh(alpha)
})

test('S18: with finality by depth, so many blocks below the head are final; nothing is on a short chain', async () => {
  const finalizedAt = async (head: number) => {
    const node = await scene.evm(head)
    const alpha = evmChainOptions({ rpc: [node.url], finality: { by: 'depth', depth: 12 }, pollMs: 30 })
    const stage = await scene.deploy(alpha)
    const worker = stage.work(alpha)
    await stage.untilAt('alpha', headOf(node))
    await worker.stop()
    return (await stage.status('alpha'))?.finalized
  }
  expect(await finalizedAt(1000)).toBe(988)
  expect(await finalizedAt(5)).toBe(null)
})

test('S18: a depth beside the tag serves where the tag is refused, and a restart with a tag that works takes nothing back', async () => {
  const node = await scene.evm(transfers(1000))
  node.chain.finalizedDepth = 60
  const finality = { by: 'both', tag: 'finalized', depth: 12 } as const
  const alpha = evmChainOptions({ rpc: [node.url], startHeight: height(900), finality, pollMs: 30 })
  const stage = await scene.deploy(alpha)
  node.answer('eth_getBlockByNumber', ([at], honest) => {
    if (at !== 'finalized') return honest()
    throw new RpcFault(-32602, 'invalid block tag')
  })
  const { logger, lines } = recordingLogger()
  const worker = stage.work(alpha, { logger })
  await stage.untilAt('alpha', headOf(node))
  await worker.stop()
  expect((await stage.status('alpha'))?.finalized).toBe(988)
  expect(lines.filter(({ msg }) => msg === 'finality tag was not answered')).toHaveLength(1)
  const before = await stage.list('select height from event order by height')
  node.answer('eth_getBlockByNumber', null)
  stage.work(alpha)
  node.extend(transfers(3, 5000))
  await stage.untilAt('alpha', headOf(node))
  expect(await stage.list('select height from event order by height')).toEqual([...before, 1001, 1002, 1003])
  expect(await rollbacks(stage)).toBe(0)
  await stage.expectFresh(alpha)
})

test('S18: a finality tag that is refused is warned of once, and the chain is followed; one that fails for once does not lower what was final', async () => {
  const node = await scene.evm(1000)
  node.chain.finalizedDepth = 60
  const alpha = evmChainOptions({ rpc: [node.url], startHeight: height(900), pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const { logger, lines } = recordingLogger()
  let tag: 'refused' | 'null' | 'answered' = 'refused'
  node.answer('eth_getBlockByNumber', ([at], honest) => {
    if (at !== 'finalized' || tag === 'answered') return honest()
    if (tag === 'null') return null
    throw new Error('finalized block not found')
  })
  stage.work(alpha, { logger })
  await stage.untilAt('alpha', headOf(node))
  expect((await stage.status('alpha'))?.finalized).toBe(null)
  const seen: (number | null)[] = []
  const next = async (says: typeof tag) => {
    tag = says
    node.extend(1)
    await stage.untilAt('alpha', headOf(node))
    const { finalized } = (await stage.status('alpha')) ?? { finalized: null }
    seen.push(finalized)
  }
  await next('answered')
  await stage.until('the finalized height', async () => (await stage.status('alpha'))?.finalized === 941)
  await next('refused')
  await next('null')
  await next('answered')
  await stage.until('the finalized height', async () => (await stage.status('alpha'))?.finalized === 944)
  expect(seen.slice(1, 3)).toEqual([941, 941])
  expect(lines.filter(({ msg }) => msg === 'finality tag was not answered')).toHaveLength(1)
})

test('S21: heights that one node has thrown away are taken from another, none is skipped', async () => {
  const pruned = await scene.evm(transfers(600))
  const whole = await twinOf(pruned)
  const alpha = evmChainOptions({ rpc: [pruned.url, whole.url], endHeight: height(200), pollMs: 30 })
  const further = { ...alpha, endHeight: null }
  const stage = await scene.deploy(alpha)
  const first = stage.work(alpha)
  await stage.untilPhase('alpha', 'finished')
  await first.stop()
  pruned.prune(400)
  stage.work(further)
  await stage.untilAt('alpha', headOf(pruned))
  await stage.expectFresh(evmChainOptions({ ...further, rpc: [whole.url] }))
})

test('S21: where no node has them that chain stops and names them, others run, and nothing above is stored', async () => {
  const [pruned, other] = [await scene.evm(transfers(200)), await scene.evm(transfers(20), { seed: 2 })]
  const { chain, node } = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
  chain.extendEmpty(50, 5_000_000n)
  const alpha = evmChainOptions({ rpc: [pruned.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [other.url], pollMs: 30 })
  const gamma = cosmosChainOptions({ chain: chainKey('gamma'), rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha, beta, gamma)
  for (const options of [alpha, beta, gamma]) stage.work(options)
  await stage.untilAt('alpha', headOf(pruned))
  await stage.untilAt('gamma', cometHeadOf(chain))
  pruned.extend(transfers(400))
  pruned.prune(400)
  chain.extendEmpty(50, 5_000_000n)
  node.pruneBelow(80)
  await stage.untilPhase('alpha', 'stopped', /no longer has blocks 201 to 399: its lowest is 400/)
  await stage.untilPhase('gamma', 'stopped', /no longer has blocks 51 to 79: its lowest is 80/)
  other.extend(transfers(5))
  await stage.untilAt('beta', headOf(other))
  expect(await stage.list(`select max(height) from block group by chain order by chain`)).toEqual([
    200, 25, 50,
  ])
})

test('a chain that its nodes have stopped asks them again after a while, and goes on once they are right', async () => {
  const node = await scene.evm(transfers(20))
  const { chain, node: cometNode } = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
  chain.extendEmpty(20, 5_000_000n)
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const gamma = cosmosChainOptions({ chain: chainKey('gamma'), rpc: [cometNode.url], pollMs: 30 })
  node.reportedChainId = 56
  const stage = await scene.deploy(alpha, gamma)
  for (const options of [alpha, gamma]) stage.work(options, { askNodesAgainMs: 500, leaseMs: 60_000 })
  await stage.untilPhase('alpha', 'stopped', /is of chain 56, but the config says 1/)
  await stage.untilAt('gamma', cometHeadOf(chain))
  chain.extendEmpty(40, 5_000_000n)
  cometNode.pruneBelow(50)
  await stage.untilPhase('gamma', 'stopped', /no longer has blocks 21 to 49: its lowest is 50/)
  const asked = node.countOf('eth_chainId')
  await stage.until('alpha to ask again', async () => node.countOf('eth_chainId') > asked)
  expect(await stage.checkpoint('alpha')).toEqual({ height: null, hash: null })
  expect((await stage.checkpoint('gamma')).height).toBe(20)

  node.reportedChainId = null
  cometNode.pruneBelow(1)
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('gamma', cometHeadOf(chain))
  await stage.untilPhase('alpha', 'live')
  await stage.expectFresh(alpha, gamma)
})

test('a node that has thrown away the checkpoint itself is not believed after a restart, and the reason is named', async () => {
  const node = await scene.evm(transfers(100))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const first = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await first.stop()
  node.extend(transfers(100))
  node.prune(150)
  const before = await stage.digestOf('alpha')
  stage.work(alpha)
  await stage.until('the reason', async () => /block 100/.test((await stage.status('alpha'))?.reason ?? ''))
  expect(await stage.digestOf('alpha')).toEqual(before)
})

test('S27: a dead endpoint is no obstacle, and is named; alone it is tried for ever', async () => {
  const node = await scene.evm(transfers(20))
  const dead = await scene.evm(0)
  const deadUrl = dead.url
  await dead.stop()
  const alpha = evmChainOptions({ rpc: [deadUrl, node.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [deadUrl], pollMs: 30 })
  const stage = await scene.deploy(alpha, beta)
  const { logger, lines } = recordingLogger()
  stage.work(alpha, { logger })
  stage.work(beta)
  await stage.untilAt('alpha', headOf(node))
  expect(lines.filter(({ msg }) => msg === 'rpc endpoint failed')).toMatchObject([{ endpoint: deadUrl }])
  await stage.untilPhase('alpha', 'live', new RegExp(`^${deadUrl} fails: .*ECONNREFUSED`))
  await stage.untilPhase('beta', 'waiting', /does not answer/)
})

test('S27: a chain with an endpoint of another chain refuses to start and names both ids', async () => {
  const [node, foreign] = [await scene.evm(transfers(20)), await scene.evm(transfers(20), { chainId: 56 })]
  const comet = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
  comet.chain.extendEmpty(20, 5_000_000n)
  const alpha = evmChainOptions({ rpc: [node.url, foreign.url], pollMs: 30 })
  const gamma = cosmosChainOptions({
    chain: chainKey('gamma'),
    chainId: 'other-1',
    rpc: [comet.node.url],
    pollMs: 30,
  })
  const stage = await scene.deploy(alpha, gamma)
  stage.work(alpha)
  stage.work(gamma)
  await stage.untilPhase('alpha', 'stopped', /is of chain 56, but the config says 1/)
  await stage.untilPhase('gamma', 'stopped', /is of chain sim-1, but the config says other-1/)
  expect(await stage.list('select height from checkpoint')).toEqual([null, null])
})

test('S27: an address that comes to lead to another chain is shut out, and its blocks are not taken for a fork', async () => {
  const node = await scene.evm(transfers(20))
  const foreign = await scene.evm(transfers(25), { chainId: 56, seed: 9 })
  // A gateway: from one request to the next it leads elsewhere, and no connection breaks.
  let upstream = node.url
  const gateway = new JsonRpcServer((method, params) => forward(upstream, method, params))
  await gateway.start()
  scene.later(() => gateway.stop())
  const alpha = evmChainOptions({ rpc: [gateway.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  const before = await stage.digestOf('alpha')
  upstream = foreign.url
  await stage.untilPhase('alpha', 'stopped', /is of chain 56, but the config says 1/)
  expect(await stage.digestOf('alpha')).toEqual(before)
  expect(await rollbacks(stage)).toBe(0)
})

async function forward(url: string, method: string, params: unknown): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  const { result, error } = (await response.json()) as {
    result?: unknown
    error?: { code: number; message: string }
  }
  if (error) throw new RpcFault(error.code, error.message)
  return result
}

test('S22: results that lag behind their block are waited for, and are stored together with it', async () => {
  const { chain, node } = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
  chain.extendEmpty(30, 5_000_000n)
  const sim = cosmosChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(sim)
  const { logger, lines } = recordingLogger()
  stage.work(sim, { logger })
  await stage.untilAt('sim', cometHeadOf(chain))
  node.lagResults(2)
  chain.extend([
    { time: lateTime(31), txs: [{ events: [{ type: 'transfer', attributes: [['amount', '5']] }] }] },
  ])
  await stage.untilAt('sim', cometHeadOf(chain))
  expect(await stage.list('select height from event')).toEqual([31])
  expect(lines.filter(({ level }) => level !== 'info')).toEqual([])
  await stage.expectFresh(sim)
})

test('S22: where results never come the chain waits at that height and says so, and nothing above is stored', async () => {
  const { chain, node } = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
  chain.extendEmpty(30, 5_000_000n)
  const sim = cosmosChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(sim)
  const { logger, lines } = recordingLogger()
  stage.work(sim, { logger })
  await stage.untilAt('sim', cometHeadOf(chain))
  const restore = node.override('block_results', (params, honest) => {
    if (Number(params.height) === 31) throw new Error('could not find results for height #31')
    return honest()
  })
  chain.extendEmpty(5, 5_000_000n)
  await stage.untilPhase('sim', 'waiting', /it has block 31, but not its results/)
  const asked = node.server.countOf('block_results')
  await stage.until('more tries', async () => node.server.countOf('block_results') > asked + 15)
  expect(await stage.checkpoint('sim')).toMatchObject({ height: 30 as Height })
  expect(lines.filter(({ level }) => level !== 'info').length).toBeLessThan(5)
  restore()
  await stage.untilAt('sim', cometHeadOf(chain))
  await stage.expectFresh(sim)
})

const lateTime = (at: number) => timeFromSeconds(1_704_067_200 + at * 5)
