/*
 * Goal: endpoints that disagree on the head never make a worker delete, skip, repeat or leave.
 * Method: two nodes serve one chain, the second up to block 5000 only; a worker follows both over HTTP.
 */
import { height } from '@lockstep/domain'
import { evmChainOptions, SimulatedEvmNode } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, Scene, transfers } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const START = height(4901)

/** The whole chain up to `head`, and a second node that has it up to block 5000. */
async function twoNodes(head: number) {
  const first = await scene.evm(transfers(head - 4900, 4901), { firstHeight: 4900 })
  first.chain.finalizedDepth = null
  const second = await scene.serve(new SimulatedEvmNode(first.chain))
  second.lowerHead(head - 5000)
  return { first, second }
}

const isBlockFrom = (params: unknown, from: number): boolean =>
  Array.isArray(params) && typeof params[0] === 'string' && Number(params[0]) >= from

test('S02: the head is 5025, block 5001 is asked of the endpoint that has 5000 blocks, and 5001 to 5025 are stored once', async () => {
  const { first, second } = await twoNodes(5025)
  // From block 5001 on the first is out of order until the second was asked, and answered null.
  let nulls = 0
  second.answer('eth_getBlockByNumber', (params, honest) => {
    const answer = honest()
    if (answer === null && isBlockFrom(params, 5001)) nulls += 1
    return answer
  })
  first.disturb = (calls) =>
    nulls === 0 && calls.some(({ params }) => isBlockFrom(params, 5001))
      ? { kind: 'status', status: 503 }
      : null
  const alpha = evmChainOptions({ rpc: [first.url, second.url], startHeight: START, pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const worker = stage.work(alpha)
  await stage.untilAt('alpha', headOf(first))
  expect(nulls).toBeGreaterThan(0)
  expect(await stage.list('select height from event where height > 5000 order by height')).toEqual(
    Array.from({ length: 25 }, (_, index) => 5001 + index),
  )
  expect(await stage.list('select count(*) from rollback')).toEqual([0])
  await worker.stop() // it did not leave by itself: it would have failed here
})

test('S02: after a restart at 5020 with the endpoint of 5000 blocks alone, nothing is deleted, and 5021 comes next', async () => {
  const { first, second } = await twoNodes(5020)
  const alpha = evmChainOptions({ rpc: [first.url, second.url], startHeight: START, pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const worker = stage.work(alpha)
  await stage.untilAt('alpha', headOf(first))
  await worker.stop()
  await first.stop()
  const before = await stage.digestOf('alpha')

  stage.work(alpha)
  await stage.untilPhase('alpha', 'waiting', /head 5000 is below the checkpoint 5020/)
  const asked = second.httpRequests
  await stage.until('more looks', async () => second.httpRequests > asked + 5)
  expect(await stage.digestOf('alpha')).toEqual(before)

  first.extend(transfers(5, 5021))
  const calls = second.calls.length
  second.lowerHead(0)
  await stage.untilAt('alpha', headOf(first))
  const fetched = second.calls.slice(calls).filter(({ method }) => method === 'eth_getLogs')
  expect(fetched.length).toBeGreaterThan(0)
  expect(await stage.list('select height from event where height > 5018 order by height')).toEqual([
    5019, 5020, 5021, 5022, 5023, 5024, 5025,
  ])
  expect(await stage.list('select count(*) from rollback')).toEqual([0])
})
