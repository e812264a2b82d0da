/*
 * Goal: a worker comes, stands by, leaves and is replaced without harm: whole blocks or none, one voice per chain, the
 * lease given back, and nothing that it waits for keeps it.
 *
 * Method: workers in this process on a real database, told to stop or robbed of what they hold at chosen moments.
 */

import { LeaseLostError } from '@lockstep/domain'
import { pause, resume } from '@lockstep/rewind'
import { addressOf, evmChainOptions, transferLog } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, recordingLogger, Scene, type Stage, TOKEN, transfers } from './scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const leaseOf = async (stage: Stage) =>
  (await stage.rows(`select holder, expires_at from lease where name = 'chain:alpha'`))[0]

test('S30: a worker that is told to leave while it writes a block stores all of it or none, and gives its lease back', async () => {
  const logs = Array.from({ length: 500 }, (_, index) =>
    transferLog({ token: TOKEN, from: addressOf(1), to: addressOf(2), value: BigInt(index) }),
  )
  const node = await scene.evm(76)
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 20 })
  const stage = await scene.deploy(alpha)
  for (let round = 0; round < 6; round++) {
    const worker = stage.work(alpha)
    await stage.untilAt('alpha', headOf(node))
    node.extend([{ logs }])
    // Each round a little later into the fetch and the write of the block.
    const asked = node.httpRequests
    await stage
      .until('the worker to be at it', async () => node.httpRequests >= asked + 1 + round, 5000)
      .catch(() => {})
    await worker.stop()
    const counts = await stage.rows<{ events: number }>(
      'select height, count(*) as events from event group by height',
    )
    expect(counts.every(({ events }) => events === 500)).toBe(true)
    expect(await stage.list('select count(*) from block')).toEqual([counts.length])
    expect(await leaseOf(stage)).toEqual({ holder: null, expires_at: null })
    expect(await stage.status('alpha')).toMatchObject({ phase: 'stopped' })
  }
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await stage.expectFresh(alpha)
})

for (const what of ['latest', '0x15'] as const) {
  test(`S30: a call that never answers (${what}) does not keep a worker that is told to leave`, async () => {
    const node = await scene.evm(transfers(20))
    const alpha = evmChainOptions({ rpc: [node.url], pollMs: 20 })
    const stage = await scene.deploy(alpha)
    const worker = stage.work(alpha)
    await stage.untilAt('alpha', headOf(node))
    let hung = false
    node.disturb = (calls) => {
      hung ||= calls.some(({ params }) => (params as unknown[])[0] === what)
      return hung ? { kind: 'hang' } : null
    }
    node.extend(1)
    await stage.until('the hang', async () => hung)
    const left = worker.stop().then(() => true)
    await stage.until('the worker to be gone', async () => (await leaseOf(stage))?.holder === null, 10_000)
    expect(await left).toBe(true)
  })
}

test('one worker leads; the other stands by without a word in the status, and takes over when the first leaves', async () => {
  const node = await scene.evm(transfers(20))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 20 })
  const stage = await scene.deploy(alpha)
  const leader = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await stage.untilPhase('alpha', 'live')
  const { logger, lines } = recordingLogger()
  const second = stage.work(alpha, { logger })
  await stage.until('the second to stand by', async () =>
    lines.some(({ msg }) => /held by another worker/.test(msg)),
  )
  // Reports come once a second: over some of them, and over the end of another one that stood by.
  const phases = new Set<unknown>()
  const third = stage.work(alpha)
  const until = Date.now() + 3000
  await stage.until('some reports', async () => {
    phases.add((await stage.status('alpha'))?.phase)
    return Date.now() > until
  })
  await third.stop()
  phases.add((await stage.status('alpha'))?.phase)
  expect([...phases]).toEqual(['live'])

  await leader.stop()
  node.extend(transfers(3))
  await stage.untilAt('alpha', headOf(node))
  expect((await leaseOf(stage))?.holder).toBe(second.db.holder)
  await stage.expectFresh(alpha)
})

test('a worker whose lease was taken ends, says whose fault it is not, and its last word does not hide the new holder', async () => {
  const node = await scene.evm(transfers(20))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 20 })
  const stage = await scene.deploy(alpha)
  const first = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await stage.list(`update lease set expires_at = clock_timestamp() where name = 'chain:alpha'`)
  const second = stage.work(alpha)
  await stage.until('the new holder', async () => (await leaseOf(stage))?.holder === second.db.holder)
  node.extend(transfers(3))
  await expect(first.ended).rejects.toThrow(LeaseLostError)
  await stage.untilAt('alpha', headOf(node))
  await stage.untilPhase('alpha', 'live')
  expect((await leaseOf(stage))?.holder).toBe(second.db.holder)
  await stage.expectFresh(alpha)
})

test('a worker whose sessions are all ended goes on from what is committed', async () => {
  const node = await scene.evm(transfers(20))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 20 })
  const stage = await scene.deploy(alpha)
  const worker = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  for (let round = 0; round < 10; round++) {
    node.fork(2, transfers(5, 100 * round))
    await stage.list(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'lockstep:${worker.db.holder}'`,
    )
    if (round % 3 === 2) await stage.untilAt('alpha', headOf(node))
  }
  await stage.untilAt('alpha', headOf(node))
  await stage.expectFresh(alpha)
})

test('a chain that is another one now stops and says so, and goes on with that one once it is empty', async () => {
  const node = await scene.evm(transfers(20))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 20 })
  const stage = await scene.deploy(alpha)
  const first = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await first.stop()
  const other = await scene.evm(transfers(25), { chainId: 2, seed: 2 })
  const changed = evmChainOptions({ ...alpha, rpc: [other.url], chainId: '2' })
  stage.work(changed)
  await stage.untilPhase('alpha', 'stopped', /it was indexed with chainId 1, but the config now says 2/)
  await stage.rewind(1_600_000_000)
  await stage.untilReleased()
  await stage.untilAt('alpha', headOf(other))
  await stage.expectFresh(changed)
})

test('a stopped chain says why again after a pause', async () => {
  const node = await scene.evm(transfers(5))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const first = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await first.stop()
  stage.work({ ...alpha, chainId: '2' })
  await stage.untilPhase('alpha', 'stopped', /it was indexed with/)
  await pause(stage.db, { who: 'test', reason: null })
  await stage.untilPhase('alpha', 'paused', /paused by test/)
  await resume(stage.db)
  await stage.untilPhase('alpha', 'stopped', /it was indexed with/)
})
