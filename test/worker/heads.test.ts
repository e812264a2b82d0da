/*
 * Goal: a head that a node announces is stored at once, and nothing depends on announcements (S31): a subscription
 * that is silent, dropped or refused costs the poll interval, never a block.
 *
 * Method: workers in this process follow a simulated node over HTTP and WebSocket into a real database.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { evmChainOptions } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, recordingLogger, Scene, transfers } from './scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const HOUR_MS = 3_600_000

test('an announced head ends the wait for it', async () => {
  const node = await scene.evm(transfers(5))
  const alpha = evmChainOptions({ rpc: [{ url: node.url, ws: node.wsUrl }], pollMs: HOUR_MS })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await stage.until('the subscription', async () => node.socketsOpen === 1)
  for (let blocks = 0; blocks < 5; blocks++) {
    await sleep(300) // the worker is back at its wait, or will hear of the next
    node.extend(transfers(1, 100 + blocks))
    await stage.untilAt('alpha', headOf(node))
  }
  node.fork(2, transfers(3, 200))
  await stage.untilAt('alpha', headOf(node))
  await stage.expectFresh({ ...alpha, pollMs: 30 })
})

test('S31: a subscription that delivers nothing is noticed and opened anew, and polling stores every height', async () => {
  const node = await scene.evm(transfers(5))
  node.mutesHeads = true
  const alpha = evmChainOptions({ rpc: [{ url: node.url, ws: node.wsUrl }], pollMs: 100, blocks: 'all' })
  const stage = await scene.deploy(alpha)
  const { logger, lines } = recordingLogger()
  stage.work(alpha, { logger })
  await stage.untilAt('alpha', headOf(node))
  for (let blocks = 0; blocks < 8; blocks++) {
    node.extend(transfers(1, 100 + blocks))
    await stage.untilAt('alpha', headOf(node))
  }
  await stage.until('the silence to be told', async () =>
    /announces no heads: the head moved to \d+, and it said nothing/.test(
      (await stage.status('alpha'))?.reason ?? '',
    ),
  )
  expect((await stage.status('alpha'))?.phase).toBe('live')
  await stage.until('another try', async () => node.socketsOpened > 1)
  node.mutesHeads = false
  await stage.until('the recovery', async () => {
    node.extend(transfers(1, 300))
    await stage.untilAt('alpha', headOf(node))
    return lines.some(({ msg }) => msg === 'head subscription recovered')
  })
  await stage.until('it to be told', async () => (await stage.status('alpha'))?.reason === null)
  expect(lines.filter(({ msg }) => msg === 'head subscription failed')).toHaveLength(1)
  const head = headOf(node).height
  expect(await stage.list('select height from block order by height')).toEqual(
    Array.from({ length: head + 1 }, (_, at) => at),
  )
})

test('a node that takes no subscriptions is followed all the same', async () => {
  const node = await scene.evm(transfers(5))
  node.refusesSockets = true
  const alpha = evmChainOptions({ rpc: [{ url: node.url, ws: node.wsUrl }], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  node.extend(transfers(5, 100))
  await stage.untilAt('alpha', headOf(node))
})

test('announcements in great number do not make a worker ask without a pause', async () => {
  const node = await scene.evm(transfers(5))
  const alpha = evmChainOptions({ rpc: [{ url: node.url, ws: node.wsUrl }], pollMs: HOUR_MS })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await stage.until('the subscription', async () => node.socketsOpen === 1)
  const asked = () => node.calls.filter(({ params }) => JSON.stringify(params) === '["latest",false]').length
  const [before, began] = [asked(), performance.now()]
  for (let round = 0; round < 200; round++) {
    node.fork(1, transfers(1, 1000 + round)) // each of them is announced
    await sleep(5)
  }
  // A rolled back fork and its new block are looks of their own, so three for each tenth of a second.
  expect(asked() - before).toBeLessThan(3 * ((performance.now() - began) / 100 + 1))
})
