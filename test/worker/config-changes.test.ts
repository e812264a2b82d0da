/**
 * Goal: a config that was changed is noticed when a worker starts, and what is stored becomes what a fresh index under
 * the new config holds: what came is fetched for just that, what went is removed and said, what another filter owns now
 * changes hands. While a gap is open the chain says so; rewinds, forks and crashes treat it as any other range.
 * Method: workers in this process over simulated nodes, one after the other with other configs, over a source that
 * writes down what it is asked for; then a comparison with an index that only ever saw the last config. One chain is
 * Cosmos. A random walk of configs, forks and rewinds at the end, by seed.
 */
import type { EvmChainOptions, EvmContractOptions } from '@lockstep/config'
import { readStatusView, verifyChain } from '@lockstep/coordinator'
import { type ChainSource, height, timeFromSeconds } from '@lockstep/domain'
import { pause, resume } from '@lockstep/rewind'
import { digestChain } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import {
  addressOf,
  type BlockWish,
  evmChainOptions,
  RpcFault,
  type SimulatedEvmNode,
  TRANSFER_EVENT,
  transferLog,
} from '@lockstep/testkit'
import { createSource } from '@lockstep/worker'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { cosmosChainOptions } from '../../packages/testkit/src/comet/index.js'
import { askedSource } from '../kit/asked-source.js'
import { cometHeadOf, headOf, recordingLogger, Scene, type Stage } from './scene.js'

const [A, B, C] = [addressOf(0xa1), addressOf(0xb2), addressOf(0xc3)]

/** Transfers of one token, or of any. */
const token = (contract: string, ...addresses: (typeof A)[]): EvmContractOptions => ({
  contract,
  addresses: addresses.length === 0 ? null : addresses,
  events: [TRANSFER_EVENT],
})

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

/** Each block has a transfer of A; each second one of B, each third one of C. */
const blocks = (from: number, to: number, salt = 0): BlockWish[] =>
  Array.from({ length: to - from + 1 }, (_, index) => {
    const tokens = [A, B, C].filter((_, each) => (from + index) % (each + 1) === 0)
    return {
      logs: tokens.map((each) =>
        transferLog({
          token: each,
          from: addressOf(1),
          to: addressOf(2),
          value: BigInt(from + index + salt),
        }),
      ),
    }
  })

/** Options that differ from others in nothing but what a config says. */
const options = (
  node: SimulatedEvmNode,
  contracts: EvmContractOptions[],
  more: Partial<EvmChainOptions> = {},
) =>
  evmChainOptions({
    rpc: [node.url],
    contracts,
    pollMs: 20,
    filterDigest: JSON.stringify([
      contracts.map(({ contract, addresses }) => [contract, addresses]),
      more.blocks,
    ]),
    ...more,
  })

interface Run {
  readonly asked: string[]
  readonly lines: ReturnType<typeof recordingLogger>['lines']
}

/** Runs a worker under this config until all is stored and no gap is open. */
async function index(stage: Stage, node: SimulatedEvmNode, config: EvmChainOptions): Promise<Run> {
  const asked: string[] = []
  const { logger, lines } = recordingLogger()
  const source = (inner: ChainSource) => askedSource(inner, config, (what) => asked.push(what))
  const worker = stage.work(config, { source, logger })
  await untilWhole(stage, node)
  await worker.stop()
  return { asked, lines }
}

const gaps = (stage: Stage) =>
  stage
    .rows(
      `select contract, from_height, to_height from backfill_ranges join chain_filter using (chain, filter) order by 1, 2`,
    )
    .then((rows) => rows.map((row) => `${row.contract} ${row.from_height}..${row.to_height}`))

async function untilWhole(stage: Stage, node: SimulatedEvmNode): Promise<void> {
  await stage.until('the config to be taken over and all to be stored', async () => {
    const { height: at, hash } = await stage.checkpoint('alpha')
    return (
      at === headOf(node).height &&
      hash === headOf(node).hash &&
      (await gaps(stage)).length === 0 &&
      settled(stage)
    )
  })
}

/** Under a changed config the checkpoint is at the head before anything was looked at. */
const settled = async (stage: Stage) =>
  ['live', 'finished'].includes((await stage.status('alpha'))?.phase ?? '') && (await freshReport(stage))

const freshReport = async (stage: Stage) =>
  (
    await stage.list(
      `select l.expires_at > clock_timestamp() and s.updated_at > l.acquired_at from chain_status s
     join lease l on l.name = 'chain:alpha'`,
    )
  )[0] === true

const ofContract = (stage: Stage) =>
  stage
    .rows('select contract, count(*)::int as n from event group by contract order by contract')
    .then((rows) => Object.fromEntries(rows.map(({ contract, n }) => [contract, n])))

test('a contract that was added is fetched for itself, from the start to the checkpoint, and nothing else is touched', async () => {
  const node = await scene.evm(blocks(1, 120))
  const [before, after] = [options(node, [token('a', A)]), options(node, [token('a', A), token('b', B)])]
  const stage = await scene.deploy(before)
  await index(stage, node, before)
  const stored = await stage.list(
    `select xmin::text || event::text from event where contract = 'a' order by 1`,
  )
  const { asked, lines } = await index(stage, node, after)
  expect(asked.filter((what) => what.startsWith('b')).length).toBeGreaterThan(0)
  expect(asked.filter((what) => what.startsWith('*'))).toEqual([])
  expect(
    await stage.list(`select xmin::text || event::text from event where contract = 'a' order by 1`),
  ).toEqual(stored)
  expect(await ofContract(stage)).toEqual({ a: 120, b: 60 })
  expect(lines.find(({ msg }) => msg === 'changed config was taken over')).toMatchObject({
    added: ['b Transfer(address,address,uint256)'],
    removed: [],
    gap: 'a gap is open: blocks 0 to 120 are fetched for one filter',
  })
  await stage.expectFresh(after)
})

test('a contract that went takes its events, and the blocks that hold no other, with it; it is said and recorded', async () => {
  const node = await scene.evm([
    ...blocks(1, 40),
    ...Array.from({ length: 40 }, () => blocks(1, 1)[0] as BlockWish),
  ])
  const [before, after] = [options(node, [token('a', A), token('b', B)]), options(node, [token('b', B)])]
  const stage = await scene.deploy(before)
  await index(stage, node, before)
  const epoch = (await stage.list('select max(epoch) from indexed.status'))[0]
  const { asked, lines } = await index(stage, node, after)
  expect(asked).toEqual([])
  expect(lines.find(({ msg }) => msg.startsWith('facts that the config no longer'))).toMatchObject({
    events: 80,
    blocks: 60,
  })
  expect(await stage.rows('select removed, blocks_removed, events_removed from config_change')).toEqual([
    { removed: ['a Transfer(address,address,uint256)'], blocks_removed: 60, events_removed: 80 },
  ])
  expect((await stage.list('select max(epoch) from indexed.status'))[0]).toBeGreaterThan(Number(epoch))
  await stage.expectFresh(after)
  // The tail is still there to link by: a fork is found in it.
  node.fork(5, blocks(76, 90, 1000))
  await index(stage, node, after)
  await stage.expectFresh(after)
})

test('a log that fits two filters changes hands where the order changes, and where one of them comes or goes', async () => {
  const node = await scene.evm(blocks(1, 60))
  const [any, b, bFirst] = [token('any'), token('b', B), token('also-any')]
  const configs = [[any], [any, b], [bFirst, any], [any, bFirst]]
  const first = options(node, configs[0] as EvmContractOptions[])
  const stage = await scene.deploy(first)
  for (const contracts of configs) {
    const config = options(node, contracts)
    await index(stage, node, config)
    await stage.expectFresh(config)
  }
})

test('an earlier start is fetched for all, a later one removes what lies below it, one above everything empties the chain', async () => {
  const node = await scene.evm(blocks(1, 100))
  const at = (start: number) => options(node, [token('a', A), token('b', B)], { startHeight: height(start) })
  const stage = await scene.deploy(at(50))
  for (const start of [50, 20, 70, 0]) {
    const { asked } = await index(stage, node, at(start))
    if (start === 20) expect(asked.every((what) => what.startsWith('a+b'))).toBe(true)
    await stage.expectFresh(at(start))
  }
  const worker = stage.work(at(110))
  await stage.untilPhase('alpha', 'waiting', /below startHeight 110/)
  expect(await ofContract(stage)).toEqual({})
  await worker.stop()
})

test('an earlier start is fetched also where it is the first that is known of what the facts cover', async () => {
  const node = await scene.evm(blocks(1, 60))
  const at = (start: number) => options(node, [token('a', A), token('b', B)], { startHeight: height(start) })
  const stage = await scene.deploy(at(30))
  await index(stage, node, at(30))
  await stage.rows('delete from chain_filter') // as of a database from before filters were recorded
  await index(stage, node, at(10))
  await stage.expectFresh(at(10))
})

test('all blocks instead of those with events, and back', async () => {
  const node = await scene.evm([
    ...blocks(1, 20),
    ...Array.from({ length: 20 }, () => ({})),
    ...blocks(41, 60),
  ])
  const of = (which: 'all' | 'events') => options(node, [token('b', B)], { blocks: which })
  const stage = await scene.deploy(of('events'))
  for (const which of ['events', 'all', 'events'] as const) {
    await index(stage, node, of(which))
    await stage.expectFresh(of(which))
  }
})

test('while a gap is open the chain goes on, status and verify say so, a pause holds it and a kill -9 loses nothing', async () => {
  const node = await scene.evm(blocks(1, 150))
  const [before, after] = [options(node, [token('a', A)]), options(node, [token('a', A), token('b', B)])]
  const stage = await scene.deploy(before)
  await index(stage, node, before)
  node.chain.finalizedDepth = 200 // so that the gap is filled block by block, and takes its time
  const worker = stage.work(after)
  await stage.until('some of the gap to be filled', async () =>
    /^b [1-9]\d*\.\./.test((await gaps(stage))[0] ?? ''),
  )
  node.extend(blocks(151, 152))
  await stage.untilAt('alpha', headOf(node))
  expect(await gaps(stage)).toHaveLength(1)
  await pause(stage.db, { who: 'test', reason: null })
  await stage.untilPhase('alpha', 'paused')
  const held = await gaps(stage)
  const [view] = (await readStatusView(stage.db)).chains
  expect(view?.gaps).toMatchObject([{ what: ['b Transfer(address,address,uint256)'], to: 150 }])
  const source = createSource(after, silentLogger())
  const verified = await verifyChain({ db: stage.db, source, options: after, from: null })
  await source.close()
  expect(verified.notCompared).toEqual([
    expect.stringMatching(/^a gap is open: blocks \d+ to 150 are still missing for b Transfer/),
  ])
  expect(verified.problems).toEqual([])
  expect(await gaps(stage)).toEqual(held)
  await resume(stage.db)
  await stage.until('more of the gap to be filled', async () => (await gaps(stage))[0] !== held[0])
  // As a kill -9 does: every session of the worker ends wherever it is; another worker goes on from what is committed.
  await stage.list(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'lockstep:${worker.db.holder}'`,
  )
  await untilWhole(stage, node)
  await worker.stop()
  await stage.expectFresh(after)
})

test('a rewind into a gap shortens it, one below it ends it, and a fork cuts it as well', async () => {
  const node = await scene.evm(blocks(1, 100))
  const [before, after] = [
    options(node, [token('a', A)]),
    options(node, [token('a', A), token('b', B), token('c', C)]),
  ]
  for (const disturb of [
    (stage: Stage) => stage.rewind(1_700_000_000 + 12 * 60).then(() => stage.untilReleased()),
    (stage: Stage) => stage.rewind(1_700_000_000 - 12).then(() => stage.untilReleased()),
    async () => void node.fork(30, blocks(71, 105, 1000)),
  ]) {
    const stage = await scene.deploy(before)
    await index(stage, node, before)
    node.chain.finalizedDepth = 200
    const worker = stage.work(after)
    await stage.until('some of the gap to be filled', async () =>
      /^b [1-9]\d*\.\./.test((await gaps(stage))[0] ?? ''),
    )
    await disturb(stage)
    await untilWhole(stage, node)
    await worker.stop()
    await stage.expectFresh(after)
    node.chain.finalizedDepth = 64
  }
})

test('what a node of another branch, or a lying one, gives for a gap is not stored', async () => {
  const node = await scene.evm(blocks(1, 60))
  const liar = await scene.evm(blocks(1, 60), { seed: 9 })
  const [before, after] = [options(node, [token('a', A)]), options(node, [token('a', A), token('b', B)])]
  const stage = await scene.deploy(before)
  await index(stage, node, before)
  const lying = createSource(options(liar, [token('a', A), token('b', B)]), silentLogger())
  const worker = stage.work(after, {
    // The honest node is asked for headers and heads, the liar for what the gap is made of.
    source: (inner) => ({ ...askedSource(inner, after, () => {}), asking: (wish) => lying.asking(wish) }),
  })
  await stage.untilPhase('alpha', 'waiting', /is stored, and the node still has the checkpoint 60/)
  expect(await ofContract(stage)).toEqual({ a: 60 })
  await worker.stop()
  await lying.close()
  await index(stage, node, after)
  await stage.expectFresh(after)
})

test('a node that refuses what a gap needs holds up neither the way forward nor itself: the gap is asked for ever more seldom', async () => {
  const node = await scene.evm(blocks(1, 60))
  const [before, after] = [options(node, [token('a', A)]), options(node, [token('a', A), token('b', B)])]
  const stage = await scene.deploy(before)
  await index(stage, node, before)
  let refused = 0
  node.answer('eth_getLogs', ([filter], honest) => {
    if (String((filter as { address?: unknown }).address) !== B) return honest()
    refused += 1
    throw new RpcFault(-32000, 'old logs are offline')
  })
  const worker = stage.work(after, { retry: { firstMs: 20, mostMs: 60_000 } })
  await stage.untilPhase('alpha', 'waiting', /old logs are offline/)
  for (let round = 0; round < 20; round++) {
    node.extend(blocks(61 + round, 61 + round))
    await stage.untilAt('alpha', headOf(node))
  }
  expect(refused).toBeLessThanOrEqual(14) // 20 ms, 40 ms … : by the 14th try two minutes have passed
  await worker.stop()
  node.answer('eth_getLogs', (_, honest) => honest())
  await index(stage, node, after)
  await stage.expectFresh(after)
})

test('an event that is stored with another content than the gap brings stops the chain, and both are kept', async () => {
  const node = await scene.evm(blocks(1, 60))
  const [before, after] = [options(node, [token('any')]), options(node, [token('b', B), token('any')])]
  const stage = await scene.deploy(before)
  await index(stage, node, before)
  await stage.rows(`update event set data = '\\x00' where height = 10 and address = $1`, [B])
  const worker = stage.work(after)
  await stage.untilPhase('alpha', 'stopped', /block 10 was stored with another content/)
  expect(await stage.list('select height from event_conflict')).toEqual([10])
  await worker.stop()
})

test('a block between falling times that only a gap brings marks the chain, so that a later rewind finds the lowest height', async () => {
  const times = [10, 20, 90, 30, 40, 50, 60, 70, 80, 85, 90, 95] // the third is late, and only B has an event in it
  const node = await scene.evm(
    times.map((second, index) => ({
      time: 1_700_000_000 + second,
      logs: [transferLog({ token: index === 2 ? B : A, from: addressOf(1), to: addressOf(2), value: 1n })],
    })),
  )
  node.chain.finalizedDepth = 0
  const [before, after] = [options(node, [token('a', A)]), options(node, [token('a', A), token('b', B)])]
  const stage = await scene.deploy(before)
  await index(stage, node, before)
  expect(await stage.list('select times_fell from chain')).toEqual([false]) // one range: block 3 was never stored
  await index(stage, node, after)
  expect(await stage.list('select times_fell from chain')).toEqual([true])
})

test('an event type that was added to a Cosmos chain is fetched, one that went is removed', async () => {
  const { chain, node } = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
  chain.extend(
    Array.from({ length: 60 }, (_, index) => ({
      time: timeFromSeconds(1_700_000_000 + index),
      txs: [
        {
          events: [
            { type: 'transfer', attributes: [['amount', String(index)]] as const },
            { type: 'mint', attributes: [['amount', String(index)]] as const },
          ],
        },
      ],
    })),
  )
  const config = (...types: string[]) =>
    cosmosChainOptions({
      rpc: [node.url],
      blocks: 'events',
      pollMs: 20,
      filterDigest: types.join(),
      contracts: types.map((type) => ({
        contract: type,
        address: null,
        events: [{ type, action: null }],
        failedTransactions: false,
      })),
    })
  const stage = await scene.deploy(config('mint'))
  for (const types of [['mint'], ['mint', 'transfer'], ['transfer']]) {
    const worker = stage.work(config(...types))
    await stage.untilAt('sim', cometHeadOf(chain))
    await stage.until(`just the events of ${types}`, async () => {
      const stored = await stage.rows(
        'select name, count(*)::int as n from event group by name order by name',
      )
      return JSON.stringify(stored) === JSON.stringify(types.map((name) => ({ name, n: 60 })))
    })
    await worker.stop()
    await stage.expectFresh(config(...types))
  }
})

// ---- any order of all of it -------------------------------------------------------------------------------------

/** Seeds, with what they once found. */
const SEEDS = [1, 2, 3, 4]

test.each(SEEDS)(
  'whatever configs, forks and rewinds come in what order, the end is what a fresh index holds (seed %i)',
  async (seed) => {
    let state = seed * 7919
    const random = (below: number): number => {
      state = (state * 48_271) % 2_147_483_647
      return state % below
    }
    const node = await scene.evm(blocks(1, 90))
    const pool = [token('a', A), token('b', B), token('c', C), token('any'), token('ab', A, B)]
    const anyConfig = (): EvmChainOptions => {
      const chosen = pool.map((each) => ({ each, key: random(1000) })).sort((x, y) => x.key - y.key)
      return options(
        node,
        chosen.slice(0, 1 + random(3)).map(({ each }) => each),
        { startHeight: height(random(3) * 30), blocks: random(4) === 0 ? 'all' : 'events' },
      )
    }
    let config = anyConfig()
    const stage = await scene.deploy(config)
    for (let round = 0; round < 6; round++) {
      const worker = stage.work(config)
      if (random(2) === 0) await untilWhole(stage, node)
      const what = random(4)
      if (what === 0) node.fork(1 + random(20), blocks(70, 70 + 21 + random(10), 1000 * round))
      if (what === 1) await stage.rewind(1_700_000_000 + 12 * random(90)).then(() => stage.untilReleased())
      if (what === 2) node.extend(blocks(1, 1 + random(5), 10_000 * round))
      await worker.stop()
      config = anyConfig()
    }
    await index(stage, node, config)
    await stage.expectFresh(config)
    expect(
      (await digestChain(stage.db, config.chain, height(headOf(node).height))).map(({ table }) => table),
    ).toEqual(['block', 'event', 'transaction', 'contract_registry'])
  },
)
