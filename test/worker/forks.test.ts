/*
 * Goal: one chain's forks are found by themselves and taken back once, exactly down to the fork point, wherever the
 * worker is in its life; other chains are not touched.
 *
 * Method: workers in this process follow simulated nodes over HTTP into a real database. A node forks while it is
 * watched, while nobody watches, or in the middle of an answer; afterwards the tables are compared with those of a
 * fresh index of the chain as it is then.
 */
import { chainKey, height, timeFromSeconds } from '@lockstep/domain'
import { addressOf, evmChainOptions, transferLog } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { cosmosChainOptions } from '../../packages/testkit/src/comet/index.js'
import { cometHeadOf, headOf, Scene, type Stage, TOKEN, transfer, transfers } from './scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const rollbacks = (stage: Stage, chain = 'alpha') =>
  stage.rows<{ checkpoint_before: number; fork_point: number | null }>(
    'select checkpoint_before, fork_point from rollback where chain = $1 order by id',
    [chain],
  )

test('S01: a reorg of blocks without events ends after one rollback', async () => {
  const node = await scene.evm(110)
  const alpha = evmChainOptions({ rpc: [node.url], startHeight: height(100), pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  node.fork(3, 4)
  await stage.untilAt('alpha', headOf(node))

  const stored = () =>
    stage.rows(
      `select height, '0x' || encode(hash, 'hex') as hash from header where height >= 108 order by 1`,
    )
  const expected = [108, 109, 110, 111].map((at) => ({ height: at, hash: node.chain.at(at)?.hash }))
  expect(await stored()).toEqual(expected)
  expect(await rollbacks(stage)).toEqual([{ checkpoint_before: 110, fork_point: 107 }])

  const polls = () => node.calls.filter(({ params }) => (params as unknown[])[0] === 'latest').length
  const before = polls()
  await stage.until('ten more polls', async () => polls() >= before + 10)
  expect(await stored()).toEqual(expected)
  expect(await rollbacks(stage)).toHaveLength(1)
  await stage.expectFresh(alpha)
})

test('S01: forks as deep as one less than the greatest depth, and as deep as it, are rolled back once each', async () => {
  const node = await scene.evm(110)
  const alpha = evmChainOptions({ rpc: [node.url], rollbackDepthMax: 10, pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  for (const depth of [9, 10]) {
    node.fork(depth)
    await stage.untilAt('alpha', headOf(node))
  }
  node.extend(1)
  await stage.untilAt('alpha', headOf(node))
  expect(await rollbacks(stage)).toEqual([
    { checkpoint_before: 110, fork_point: 101 },
    { checkpoint_before: 110, fork_point: 100 },
  ])
})

test('a fork one deeper than the greatest depth stops the chain, and nothing is deleted', async () => {
  const node = await scene.evm(transfers(40))
  const alpha = evmChainOptions({ rpc: [node.url], rollbackDepthMax: 10, pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  const before = await stage.digestOf('alpha')
  node.fork(11, transfers(15))
  await stage.untilPhase('alpha', 'stopped', /no longer agrees on any stored block within 10 heights/)
  expect(await stage.digestOf('alpha')).toEqual(before)
})

test('S03: a transaction that moves to another block is stored once', async () => {
  const moved = (value: number) =>
    transferLog(
      { token: TOKEN, from: addressOf(1), to: addressOf(2), value: BigInt(value) },
      { txHash: `0x${'ab'.repeat(32)}` },
    )
  const other = (value: bigint) => transferLog({ token: TOKEN, from: addressOf(3), to: addressOf(4), value })
  const node = await scene.evm([...transfers(49), { logs: [moved(5)] }])
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  const find = () =>
    stage.rows(
      `select height, event_index, '0x' || encode(block_hash, 'hex') as block, args ->> 'value' as value
       from event where tx_hash = decode(repeat('ab', 32), 'hex')`,
    )
  expect(await find()).toEqual([{ height: 50, event_index: 0, block: node.chain.head.hash, value: '5' }])

  node.fork(1, [{}, { logs: [other(1n), other(2n), other(3n), moved(5)] }])
  await stage.untilAt('alpha', headOf(node))
  expect(await find()).toEqual([{ height: 51, event_index: 3, block: node.chain.head.hash, value: '5' }])
  expect(await stage.list('select count(*) from event_conflict')).toEqual([0])
  await stage.expectFresh(alpha)
})

test('S04: a reorg that happened while the worker was down is resolved before anything is fetched', async () => {
  const node = await scene.evm(300)
  node.chain.finalizedDepth = 10 // headers of 290 to 300 are kept
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const first = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await first.stop()
  expect(await stage.list('select height from header order by 1')).toEqual(
    Array.from({ length: 11 }, (_, index) => 290 + index),
  )

  node.fork(5, 25)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  expect(await rollbacks(stage)).toEqual([{ checkpoint_before: 300, fork_point: 295 }])
  await stage.expectFresh(alpha)
})

test('S04: where too few hashes were kept that chain stops with advice, and others keep running', async () => {
  const [node, other] = [await scene.evm(300), await scene.evm(50, { seed: 2 })]
  node.chain.finalizedDepth = 1 // headers of 299 and 300 are kept
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [other.url], pollMs: 30 })
  const stage = await scene.deploy(alpha, beta)
  const first = stage.work(alpha)
  stage.work(beta)
  await stage.untilAt('alpha', headOf(node))
  await first.stop()
  expect(await stage.list(`select height from header where chain = 'alpha' order by 1`)).toEqual([299, 300])

  node.fork(5, 25)
  stage.work(alpha)
  await stage.untilPhase('alpha', 'stopped', /no longer agrees on any stored block/)
  other.extend(5)
  await stage.untilAt('beta', headOf(other))
  expect((await stage.checkpoint('alpha')).height).toBe(300)
  expect(await stage.list(`select height from header where chain = 'alpha' order by 1`)).toEqual([299, 300])
})

test('S05: a reorg during a backfill is found where the next range does not link, and repaired', async () => {
  const node = await scene.evm(transfers(1005))
  node.chain.finalizedDepth = 5
  const alpha = evmChainOptions({
    rpc: [node.url],
    startHeight: height(1),
    endHeight: height(1000),
    blocks: 'all',
    rollbackDepthMax: 256,
    pollMs: 30,
  })
  const stage = await scene.deploy(alpha)
  // Ranges are of 200 blocks here: when the node is asked for the first block of 801..1000 it has another branch.
  node.answer('eth_getBlockByNumber', ([at], honest) => {
    if (at === '0x321' && node.chain.at(780)?.logs.length === 1) {
      node.answer('eth_getBlockByNumber', null)
      node.fork(
        226,
        Array.from({ length: 226 }, (_, index) => transfer(5000 + index, { transactions: [] })),
      )
    }
    return honest()
  })
  const old = node.chain.at(790)?.hash
  stage.work(alpha)
  await stage.untilPhase('alpha', 'finished')
  expect(node.chain.at(790)?.hash).not.toBe(old)
  expect(await rollbacks(stage)).toEqual([{ checkpoint_before: 800, fork_point: 779 }])
  expect(
    await stage.list(`select height from block where hash = decode(substr($1, 3), 'hex')`, [old]),
  ).toEqual([])
  await stage.expectFresh(alpha)
})

test('S08: a rollback touches only its own chain', async () => {
  const [node, other] = [await scene.evm(transfers(110)), await scene.evm(transfers(110), { seed: 7 })]
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [other.url], pollMs: 30 })
  const stage = await scene.deploy(alpha, beta)
  stage.work(alpha)
  stage.work(beta)
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  const before = await stage.digestOf('beta')
  node.fork(6, transfers(7, 900))
  await stage.untilAt('alpha', headOf(node))
  expect(await stage.digestOf('beta')).toEqual(before)
  expect(await rollbacks(stage)).toEqual([{ checkpoint_before: 110, fork_point: 104 }])
  await stage.expectFresh(alpha, beta)
})

test('a finished chain still follows forks until its end is final', async () => {
  const node = await scene.evm(transfers(40))
  const alpha = evmChainOptions({ rpc: [node.url], endHeight: height(30), pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilPhase('alpha', 'finished')
  node.fork(15, transfers(20, 700)) // 26..40 are replaced
  await stage.untilAt('alpha', { height: 30, hash: node.chain.at(30)?.hash ?? '' })
  await stage.untilPhase('alpha', 'finished')
  expect(await rollbacks(stage)).toEqual([{ checkpoint_before: 30, fork_point: 25 }])
  await stage.expectFresh(alpha)
})

// 10 deep, and the block that was stored last stays: nothing is to be taken back.
for (const { depth, rolledBack } of [
  { depth: 10, rolledBack: [] },
  { depth: 12, rolledBack: [{ checkpoint_before: 20, fork_point: 18 }] },
]) {
  test(`a fork ${depth} deep at the seam of backfill (up to 20) and live (from 21) is repaired`, async () => {
    const node = await scene.evm(transfers(30))
    node.chain.finalizedDepth = 10
    const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
    const stage = await scene.deploy(alpha)
    let forked = false
    node.answer('eth_getBlockByNumber', ([at], honest) => {
      if (at === '0x15') {
        forked = true
        node.answer('eth_getBlockByNumber', null)
        node.fork(depth, transfers(depth + 1, 500))
      }
      return honest()
    })
    stage.work(alpha)
    await stage.until('the fork', async () => forked)
    await stage.untilAt('alpha', headOf(node))
    expect(await rollbacks(stage)).toEqual(rolledBack)
    await stage.expectFresh(alpha)
  })
}

test('a chain that replaces its newest block at every poll is followed', async () => {
  const node = await scene.evm(transfers(20))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 20 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  for (let round = 0; round < 20; round++) {
    node.fork(1, transfers(1, 1000 + round))
    await stage.untilAt('alpha', headOf(node))
  }
  expect(await rollbacks(stage)).toEqual(
    Array.from({ length: 20 }, () => ({ checkpoint_before: 20, fork_point: 19 })),
  )
  await stage.expectFresh(alpha)
})

test('a reorg of the very first block takes the chain back to before its start', async () => {
  const node = await scene.evm(transfers(5))
  const alpha = evmChainOptions({ rpc: [node.url], startHeight: height(1), pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  node.fork(5, transfers(6, 50))
  await stage.untilAt('alpha', headOf(node))
  expect(await rollbacks(stage)).toEqual([{ checkpoint_before: 5, fork_point: null }])
  await stage.expectFresh(alpha)
})

test('a cosmos chain that its operators roll back is followed', async () => {
  const { chain, node } = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
  const block = (at: number, tag: string) => ({
    time: timeFromSeconds(1_700_000_000 + at * 5) as never,
    txs: [{ events: [{ type: 'transfer', attributes: [['amount', `${tag}${at}`]] as const }] }],
  })
  chain.extend(Array.from({ length: 60 }, (_, index) => block(index, 'a')))
  const sim = cosmosChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(sim)
  stage.work(sim)
  await stage.untilAt('sim', cometHeadOf(chain))
  chain.fork(
    5,
    Array.from({ length: 8 }, (_, index) => block(55 + index, 'b')),
  )
  await stage.untilAt('sim', cometHeadOf(chain))
  expect(await rollbacks(stage, 'sim')).toEqual([{ checkpoint_before: 60, fork_point: 55 }])
  await stage.expectFresh(sim)
})
