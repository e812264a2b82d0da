/*
 * Goal: the plan of a rewind tells how long removing and indexing again take, from what was measured on these chains,
 * and says plainly where nothing was. Method: workers in this process backfill chains of simulated nodes over HTTP; the
 * plan is made before and after rewinds.
 */
import { planRewind, type RewindPlan } from '@lockstep/coordinator'
import { chainKey, timeFromSeconds } from '@lockstep/domain'
import { registerChains } from '@lockstep/store'
import { evmChainOptions } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, Scene, type Stage, transfers } from './scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const at = (block: number) => timeFromSeconds(1_700_000_000 + 12 * block)
const plan = (stage: Stage, block: number): Promise<RewindPlan> =>
  planRewind(stage.db, at(block), { optionsOf: () => null, sourceOf: () => null, timeoutMs: 1000 })
const rateOf = (stage: Stage) => stage.list('select backfill_blocks_per_second from chain_status')

test('a backfill leaves its rate, by which the plan tells how long indexing again takes; nothing measured is said', async () => {
  const node = await scene.evm(transfers(400))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  expect(await plan(stage, 100)).toMatchObject({ removalSeconds: null, indexingSeconds: 0 }) // nothing goes yet
  const worker = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await worker.stop()
  const [rate] = await rateOf(stage)
  expect(rate).toBeGreaterThan(0)
  const { chains, indexingSeconds, removalSeconds } = await plan(stage, 100)
  expect(chains[0]?.refetch).toEqual({ blocks: 300, blocksPerSecond: rate, seconds: 300 / Number(rate) })
  expect([indexingSeconds, removalSeconds]).toEqual([300 / Number(rate), null])
  // A worker that has no ranges to fetch measures nothing, and leaves what was measured.
  node.extend(transfers(3, 500))
  const next = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await next.stop()
  expect(await rateOf(stage)).toEqual([rate])
})

test('a chain that never backfilled leaves the whole estimate open, and one that loses nothing has none', async () => {
  const node = await scene.evm(transfers(20)) // above finalized: one block at a time
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [node.url] })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await registerChains(stage.db, [alpha, beta])
  const { chains, indexingSeconds } = await plan(stage, 10)
  expect(indexingSeconds).toBeNull()
  expect(chains.map(({ refetch }) => refetch)).toEqual([
    { blocks: 10, blocksPerSecond: null, seconds: null },
    null,
  ])
})
