/*
 * Goal: under `onFork: rewind` a fork of one chain takes all chains back: the forked one to its fork point by height, the
 * others to that block's time; meeting a rewind that runs, it joins or deepens it, and is never refused or lost.
 *
 * Method: workers in this process follow simulated nodes over HTTP into a real database; afterwards the tables are
 * compared with those of a fresh index. Block n of a chain is 12 seconds after block n - 1.
 */
import { chainKey, height } from '@lockstep/domain'
import { requestRewind } from '@lockstep/rewind'
import { type ChainWriter, readCheckpoint, readRewinds } from '@lockstep/store'
import { evmChainOptions } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, Scene, type Stage, transfers } from './scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const at = (block: number) => 1_700_000_000 + 12 * block

async function twoChains() {
  const [node, other] = [await scene.evm(transfers(50)), await scene.evm(transfers(50), { seed: 2 })]
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [other.url], pollMs: 30 })
  const stage = await scene.deploy(alpha, beta)
  return { node, other, alpha, beta, stage }
}

const audit = (stage: Stage) =>
  stage.rows(`select chain, from_height as "from", cut from rewind_chain order by chain`)
const asked = (stage: Stage) =>
  stage.rows(
    'select forked_chain as forked, deepened, finished_at is not null as done from rewind order by requested_at',
  )

test('a fork takes every chain back to its moment, and all go on', async () => {
  const { node, other, alpha, beta, stage } = await twoChains()
  stage.work(alpha, { onFork: 'rewind' })
  stage.work(beta, { onFork: 'rewind' })
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  node.fork(10, transfers(12, 200))
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  expect(await audit(stage)).toEqual([
    { chain: 'alpha', from: 41, cut: 40 },
    { chain: 'beta', from: 41, cut: 40 },
  ])
  expect(await asked(stage)).toEqual([{ forked: 'alpha', deepened: 0, done: true }])
  expect(await stage.list('select count(*) from rollback')).toEqual([0])
  await stage.expectFresh(alpha, beta)
})

test('where blocks share a time the forked chain goes back by height', async () => {
  const node = await scene.evm(transfers(20).map((wish) => ({ ...wish, time: at(7) })))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha, { onFork: 'rewind' })
  await stage.untilAt('alpha', headOf(node))
  node.fork(
    5,
    transfers(6, 200).map((wish) => ({ ...wish, time: at(7) })),
  )
  await stage.untilAt('alpha', headOf(node))
  expect(await audit(stage)).toEqual([{ chain: 'alpha', from: 16, cut: 15 }])
  await stage.expectFresh(alpha)
})

test('two forks, one 20 ms after the other, are one rewind or two, and nothing is lost', async () => {
  const { node, other, alpha, beta, stage } = await twoChains()
  stage.work(alpha, { onFork: 'rewind' })
  stage.work(beta, { onFork: 'rewind' })
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  node.fork(6, transfers(8, 200))
  await new Promise((resolve) => setTimeout(resolve, 20))
  other.fork(9, transfers(10, 300))
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  await stage.untilReleased()
  expect((await asked(stage)).every(({ done }) => done)).toBe(true)
  await stage.expectFresh(alpha, beta)
})

test('a chain whose first block was replaced takes all chains back to before it', async () => {
  const node = await scene.evm(transfers(5))
  const other = await scene.evm(transfers(5), { seed: 2 })
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30, startHeight: height(3) })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [other.url], pollMs: 30 })
  const stage = await scene.deploy(alpha, beta)
  stage.work(alpha, { onFork: 'rewind' })
  stage.work(beta, { onFork: 'rewind' })
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  node.fork(4, transfers(5, 200))
  await stage.untilAt('alpha', headOf(node))
  expect(await audit(stage)).toEqual([
    { chain: 'alpha', from: 3, cut: null },
    { chain: 'beta', from: 3, cut: 2 },
  ])
  await stage.untilAt('beta', headOf(other))
  await stage.expectFresh(alpha, beta)
})

/** What a worker of the chain believes now, for a fork that asks by hand. */
async function writerOf(stage: Stage, chain: string): Promise<ChainWriter> {
  const [row] = await stage.rows<{ token: number; holder: string }>(
    'select token, holder from checkpoint where chain = $1',
    [chain],
  )
  if (row === undefined) throw new Error(`${chain} has a checkpoint`)
  const checkpoint = await stage.db.transaction((tx) => readCheckpoint(tx, chainKey(chain)))
  return { chain: chainKey(chain), checkpoint, lease: { name: `chain:${chain}`, ...row } }
}

test('a fork joins a rewind that goes back further in time: its own chain goes as low as its fork point all the same', async () => {
  const { node, other, alpha, beta, stage } = await twoChains()
  const workers = [stage.work(alpha), stage.work(beta)]
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  const writer = await writerOf(stage, 'alpha')
  await Promise.all(workers.map((worker) => worker.stop()))
  const running = await stage.rewind(at(45))
  // Later in time than the running rewind, but lower in height on its own chain.
  const timestamp = (running.timestamp + 12_000_000n) as typeof running.timestamp
  const joined = await requestRewind(stage.db, {
    request: { timestamp, reason: 'fork', who: 'test', fork: { writer, from: height(30) } },
  })
  expect(joined).toEqual({ outcome: 'joined', rewindId: running.rewindId, timestamp: running.timestamp })
  stage.work(alpha)
  stage.work(beta)
  await stage.untilReleased()
  expect(await audit(stage)).toEqual([
    { chain: 'alpha', from: 30, cut: 29 },
    { chain: 'beta', from: 46, cut: 45 },
  ])
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  await stage.expectFresh(alpha, beta)
})

test('a fork whose worker is not the chain’s any more asks for nothing', async () => {
  const { node, alpha, stage } = await twoChains()
  const worker = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  const writer = await writerOf(stage, 'alpha')
  await worker.stop()
  const stale = { ...writer, lease: { ...writer.lease, token: writer.lease.token - 1 } }
  const { timestamp } = {
    timestamp: (writer.checkpoint?.time ?? 0n) as Parameters<typeof stage.rewind>[0] & bigint,
  }
  const request = { timestamp, reason: null, who: 'test', fork: { writer: stale, from: height(30) } }
  await expect(requestRewind(stage.db, { request })).rejects.toMatchObject({ code: 'lease_lost' })
  const moved = { ...request, fork: { writer: { ...writer, checkpoint: null }, from: height(30) } }
  await expect(requestRewind(stage.db, { request: moved })).rejects.toMatchObject({
    code: 'checkpoint_moved',
  })
  expect(await stage.db.transaction((tx) => readRewinds(tx, 5))).toEqual([])
})
