/*
 * Goal: heights that a node has thrown away are taken from another, or the chain stops and names them.
 * Method: a Cosmos chain of blocks 951 to 1600 with an event each; a worker that has stored those up to 1000 finds a node that
 * keeps 1500 and above only, beside one that keeps everything, or alone.
 */
import { chainKey, height, timeFromSeconds } from '@lockstep/domain'
import { evmChainOptions } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { cosmosChainOptions } from '../../packages/testkit/src/comet/index.js'
import { cometHeadOf, headOf, Scene, transfers } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const FIRST = 951

/** Nodes A, which keeps 1500 and above, and B; the checkpoint is 1000. */
async function prunedAt1500() {
  const { chain, node: a } = await scene.comet({ chainId: 'sim-1', version: '0.38.17', initialHeight: FIRST })
  chain.extend(
    Array.from({ length: 1601 - FIRST }, (_, index) => ({
      time: timeFromSeconds(1_700_000_000 + 5 * index),
      txs: [{ events: [{ type: 'transfer', attributes: [['n', String(FIRST + index)]] as const }] }],
    })),
  )
  const b = await scene.cometNode(chain)
  const other = await scene.evm(transfers(20))
  const options = {
    chain: chainKey('gamma'),
    startHeight: height(FIRST),
    blocks: 'events',
    pollMs: 30,
  } as const
  const gamma = cosmosChainOptions({ ...options, rpc: [b.url], endHeight: height(1000) })
  const alpha = evmChainOptions({ rpc: [other.url], pollMs: 30 })
  const stage = await scene.deploy(gamma, alpha)
  const first = stage.work(gamma)
  const finished = async () => (await stage.status('gamma'))?.phase === 'finished'
  await stage.until('gamma to be finished', finished, 150_000)
  await first.stop()
  a.pruneBelow(1500)
  const further = (...rpc: string[]) => cosmosChainOptions({ ...options, rpc })
  return { chain, a, b, other, alpha, stage, further }
}

test('S21: 1001 to 1499 are taken from the node that keeps them, and none is skipped', async () => {
  const { chain, a, b, stage, further } = await prunedAt1500()
  stage.work(further(a.url, b.url))
  await stage.untilAt('gamma', cometHeadOf(chain))
  expect(await stage.list(`select height from event where chain = 'gamma' order by height`)).toEqual(
    Array.from({ length: 1601 - FIRST }, (_, index) => FIRST + index),
  )
})

test('S21: where no node keeps them the chain stops and names them, another goes on, and 1500 is not stored', async () => {
  const { a, other, alpha, stage, further } = await prunedAt1500()
  // The worker follows A while that has 1000 blocks, and finds it at 1600 with all below 1500 gone.
  a.pruneBelow(FIRST)
  a.lowerHead(1000)
  stage.work(further(a.url))
  stage.work(alpha)
  await stage.untilPhase('gamma', 'live')
  a.pruneBelow(1500)
  a.lowerHead(null)
  await stage.untilPhase('gamma', 'stopped', /no longer has blocks 1001 to 1499: its lowest is 1500/)
  other.extend(transfers(5, 50))
  await stage.untilAt('alpha', headOf(other))
  expect(await stage.list(`select max(height) from event where chain = 'gamma'`)).toEqual([1000])
  expect(await stage.checkpoint('gamma')).toMatchObject({ height: 1000 })
})
