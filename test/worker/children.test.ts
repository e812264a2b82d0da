/**
 * Goal: what a factory created is known from the block that tells of it, survives a restart, and is forgotten with its
 * block, in the table and in the worker: by a rewind, and by a fork.
 * Method: a simulated EVM chain whose factory's transfers name the children, followed by a real worker that stays the
 * same process over the rewind; at the end everything is compared with an index that never saw another chain.
 */
import type { EvmContractOptions } from '@lockstep/config'
import { height } from '@lockstep/domain'
import { addressOf, type BlockWish, evmChainOptions, TRANSFER_EVENT, transferLog } from '@lockstep/testkit'
import { toEventSignature } from 'viem'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { headOf, Scene, type Stage } from './scene.js'

const FACTORY = addressOf(0xfac)
const [C1, C2, C3] = [addressOf(0xc1), addressOf(0xc2), addressOf(0xc3)]
const factory: EvmContractOptions = { contract: 'factory', addresses: [FACTORY], events: [TRANSFER_EVENT] }
const pair: EvmContractOptions = {
  contract: 'pair',
  addresses: null,
  events: [TRANSFER_EVENT],
  factory: { of: factory, event: toEventSignature(TRANSFER_EVENT), argument: 'to' },
}
const vault: EvmContractOptions = {
  contract: 'vault',
  addresses: null,
  events: [TRANSFER_EVENT],
  factory: { of: pair, event: toEventSignature(TRANSFER_EVENT), argument: 'to' },
}
/** Takes the factory's logs where it stands before it. */
const other: EvmContractOptions = { ...factory, contract: 'other' }
const token: EvmContractOptions = { contract: 'token', addresses: null, events: [TRANSFER_EVENT] }
const elsewhere: EvmContractOptions = {
  contract: 'elsewhere',
  addresses: [addressOf(0xe)],
  events: [TRANSFER_EVENT],
}
const contracts = [factory, pair]

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const log = (token: typeof FACTORY, to: typeof FACTORY) =>
  transferLog({ token, from: addressOf(1), to, value: 1n })

/** Every block has an event of each child, known or not; the blocks of `created` tell of one as well. */
const blocks = (from: number, to: number, created: Readonly<Record<number, typeof FACTORY>>): BlockWish[] =>
  Array.from({ length: to - from + 1 }, (_, index) => {
    const child = created[from + index]
    const told = child === undefined ? [] : [log(FACTORY, child)]
    return { logs: [...told, ...[C1, C2, C3].map((each) => log(each, addressOf(2)))] }
  })

/** So many changed configs were taken over, and no gap is open: looked at in one statement. */
const isWhole = async (stage: Stage, changes: number) => {
  const [row] = await stage.rows<{ changes: number; gaps: number }>(
    `select (select count(*)::int from config_change) as changes,
       (select count(*)::int from backfill_ranges join chain_filter using (chain, filter)) as gaps`,
  )
  return row?.changes === changes && row.gaps === 0
}

const registry = (stage: Stage) =>
  stage
    .rows('select address, height from contract_registry order by height')
    .then((rows) => rows.map(({ address, height }) => `${address} ${height}`))

const firstOf = (stage: Stage, child: string) =>
  stage.list('select min(height)::int from event where contract = $1 and address = $2', ['pair', child])

test('S09 contracts discovered after the target are forgotten in a rewind, and found again where the chain tells of them', async () => {
  const node = await scene.evm(blocks(1, 200, { 100: C1, 130: C2, 160: C3 }))
  const alpha = evmChainOptions({ rpc: [node.url], contracts, pollMs: 20 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  expect(await registry(stage)).toEqual([`${C1} 100`, `${C2} 130`, `${C3} 160`])
  expect(await firstOf(stage, C3)).toEqual([160])

  // The chain goes back to 140 by itself as well, and creates C3 ten blocks later than before.
  let told: string[] = []
  await stage.rewind(1_700_000_000 + 140 * 12, async (step) => {
    if (step !== 'request.committed') return
    node.fork(60, blocks(141, 200, { 170: C3 }))
    told = (await stage.list(
      "select address || ' ' || height from indexed.contracts order by height",
    )) as string[]
  })
  expect(told).toEqual([`${C1} 100`, `${C2} 130`])
  await stage.untilReleased()
  await stage.untilAt('alpha', headOf(node))
  expect(await registry(stage)).toEqual([`${C1} 100`, `${C2} 130`, `${C3} 170`])
  expect(await firstOf(stage, C3)).toEqual([170])
  await stage.expectFresh(alpha)
})

test('children of a branch that the chain left are forgotten with it', async () => {
  const node = await scene.evm(blocks(1, 30, { 10: C1, 25: C2 }))
  const alpha = evmChainOptions({ rpc: [node.url], contracts, pollMs: 20 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  node.fork(10, blocks(21, 40, { 28: C3 }))
  await stage.untilAt('alpha', headOf(node))
  expect(await registry(stage)).toEqual([`${C1} 10`, `${C3} 28`])
  expect(await firstOf(stage, C2)).toEqual([null])
  await stage.expectFresh(alpha)
})

test('a worker that starts again knows the children, and a child that is told of again keeps its first block', async () => {
  const node = await scene.evm(blocks(1, 30, { 10: C1 }))
  const alpha = evmChainOptions({ rpc: [node.url], contracts, pollMs: 20 })
  const stage = await scene.deploy(alpha)
  const first = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await first.stop()
  node.extend(blocks(31, 40, { 35: C1 }))
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  expect(await registry(stage)).toEqual([`${C1} 10`])
  expect(
    await stage.list(
      "select count(*)::int from event where contract = 'pair' and height > 30 and address = $1",
      [C1],
    ),
  ).toEqual([10])
  await stage.expectFresh(alpha)
})

test.each([
  ['a contract of children is added to a factory that is indexed already', [factory], [factory, pair]],
  ['both are added', [], [factory, pair]],
  ['both are added before one that took their logs', [token], [factory, pair, token]],
  [
    'the contract of children goes, and another takes over its logs',
    [factory, pair, token],
    [factory, token],
  ],
  ['factory and children go', [factory, pair, token], [token]],
  ['other children of the same factory', [factory, pair], [factory, { ...pair, contract: 'other' }]],
  [
    'a contract comes that takes what told of children',
    [factory, pair, token],
    [other, factory, pair, token],
  ],
  ['it goes', [other, factory, pair, token], [factory, pair, token]],
  ['it moves before the factory', [factory, pair, other], [other, factory, pair]],
  [
    'it takes what told of children that tell of others',
    [factory, pair, vault],
    [other, factory, pair, vault],
  ],
])('%s: afterwards it is as a fresh index', async (_, before, after) => {
  const node = await scene.evm(blocks(1, 120, { 20: C1, 70: C2, 110: C3 }))
  const options = (which: EvmContractOptions[], filterDigest: string) =>
    evmChainOptions({ rpc: [node.url], contracts: [elsewhere, ...which], pollMs: 20, filterDigest })
  const stage = await scene.deploy(options(before, 'before'))
  const first = stage.work(options(before, 'before'))
  await stage.untilAt('alpha', headOf(node))
  await first.stop()
  stage.work(options(after, 'after'))
  node.extend(blocks(121, 130, { 125: addressOf(0xc4) })) // while the gap is filled, a child comes in front of it
  await stage.untilAt('alpha', headOf(node))
  await stage.until('the gap to be filled', async () => {
    return isWhole(stage, 1)
  })
  await stage.expectFresh(options(after, 'after'))
})

test('a later start forgets the children from before it, and what they emitted since; an earlier one finds them again', async () => {
  const node = await scene.evm(blocks(1, 100, { 20: C1, 60: C2, 80: C1 }))
  const at = (start: number) =>
    evmChainOptions({
      rpc: [node.url],
      contracts,
      pollMs: 20,
      startHeight: height(start),
      filterDigest: `${start}`,
    })
  const stage = await scene.deploy(at(0))
  for (const [index, start] of [0, 50, 10].entries()) {
    const worker = stage.work(at(start))
    await stage.untilAt('alpha', headOf(node))
    await stage.until('the config to be taken over and no gap to be open', async () => {
      return isWhole(stage, index)
    })
    await worker.stop()
    await stage.expectFresh(at(start))
  }
})

test('under a later start nobody has heard of children below it, nor of the children that these tell of', async () => {
  const wishes = blocks(1, 80, { 10: C1 }).map((wish, index) =>
    index === 49 ? { logs: [...(wish.logs ?? []), log(C1, C2)] } : wish,
  )
  const node = await scene.evm(wishes)
  const at = (start: number) =>
    evmChainOptions({
      rpc: [node.url],
      contracts: [factory, pair, vault, token],
      pollMs: 20,
      startHeight: height(start),
      filterDigest: String(start),
    })
  const stage = await scene.deploy(at(0))
  const first = stage.work(at(0))
  await stage.untilAt('alpha', headOf(node))
  await first.stop()
  expect(await registry(stage)).toContain(`${C2} 50`)
  stage.work(at(30))
  await stage.until('the later start to be taken over', () => isWhole(stage, 1))
  expect(await registry(stage)).toEqual([])
  await stage.expectFresh(at(30))
})
