/**
 * Goal: after a fork a chain holds exactly what its node now holds, with one audit row per fork, and no other chain is
 * touched. Method: Anvil takes blocks back by `anvil_reorg` under a live index; rows are compared with `eth_getLogs`
 * of the node itself, so not by way of our own source.
 */
import { type Program, waitUntil } from '@lockstep/testkit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addressFor, type EvmChain, startEvm, transferAt } from './kit/chains.js'
import { workerPid } from './kit/processes.js'
import { Project } from './kit/project.js'

const T0 = 1_700_000_000

let alpha: EvmChain
let beta: EvmChain
let project: Project
let indexer: Program
let betaBefore: readonly string[]

beforeAll(async () => {
  alpha = await startEvm('alpha', { chainId: 1001, genesisTime: T0 })
  beta = await startEvm('beta', { chainId: 1002, genesisTime: T0 })
  await transferAt(alpha, times(100, 8))
  await transferAt(beta, times(100, 8))
  project = await Project.create([alpha, beta], { settings: { lease: { time: '20s' } } })
  indexer = project.lockstep(['start'])
  await indexed()
  betaBefore = await storedOf('beta')
})

afterAll(async () => {
  await project?.close()
  for (const chain of [alpha, beta]) await chain?.stop()
})

const times = (from: number, count: number) => Array.from({ length: count }, (_, i) => T0 + from + i * 10)

/** Both chains up to their heads' hashes: heights alone do not change in a fork. */
const indexed = () =>
  waitUntil('the nodes’ heads', async () => {
    const there = await project
      .query<{ there: boolean }>(`select to_regclass('lockstep.rollback') is not null as there`)
      .then(([row]) => row?.there === true)
    if (!there) return false
    const rows = await project.query<{ chain: string; hash: string }>(
      `select chain, '0x' || encode(hash, 'hex') as hash from checkpoint order by chain`,
    )
    const heads = await Promise.all([alpha, beta].map(headOf))
    return heads.every(({ hash }, index) => rows[index]?.hash === hash)
  })

const headOf = (chain: EvmChain) =>
  chain.anvil.rpc<{ hash: string; number: string }>('eth_getBlockByNumber', ['latest', false])

interface NodeLog {
  readonly blockNumber: string
  readonly transactionIndex: string
  readonly logIndex: string
  readonly transactionHash: string
  readonly blockHash: string
  readonly address: string
  readonly topics: readonly string[]
  readonly data: string
}

/** What the node says now, one line a log. */
async function canonicalOf({ anvil, token }: EvmChain): Promise<string[]> {
  const logs = await anvil.rpc<NodeLog[]>('eth_getLogs', [
    { fromBlock: '0x0', toBlock: 'latest', address: token.address },
  ])
  return logs.map((log) =>
    [
      Number(log.blockNumber),
      Number(log.transactionIndex),
      Number(log.logIndex),
      log.transactionHash,
      log.blockHash,
      log.address,
      ...log.topics,
      log.data,
    ].join(' '),
  )
}

const storedOf = async (chain: string): Promise<string[]> =>
  (
    await project.query<{ line: string }>(
      `select concat_ws(' ', height, tx_index, event_index, '0x' || encode(tx_hash, 'hex'),
         '0x' || encode(block_hash, 'hex'), address, '0x' || encode(topic0, 'hex'), '0x' || encode(topic1, 'hex'),
         '0x' || encode(topic2, 'hex'), '0x' || encode(topic3, 'hex'), '0x' || encode(data, 'hex')) as line
       from event where chain = $1 order by height, tx_index, event_index`,
      [chain],
    )
  ).map(({ line }) => line)

const rollbacks = () =>
  project.query<{ chain: string; before: string; point: string; events: string }>(
    `select chain, checkpoint_before as before, fork_point as point, events_removed as events
     from rollback order by id`,
  )

/** A transfer as `anvil_reorg` takes it. */
const transferWish = ({ token }: EvmChain, value: number) => ({
  from: token.owner,
  to: token.address,
  data: `0xa9059cbb${addressFor(0xfeed).slice(2).padStart(64, '0')}${value.toString(16).padStart(64, '0')}`,
})

const reorg = (depth: number, values: readonly number[]) =>
  alpha.anvil.rpc('anvil_reorg', [depth, values.map((value, block) => [transferWish(alpha, value), block])])

test('a fork to the same height ends in the rows of the new branch', async () => {
  const head = Number((await headOf(alpha)).number)
  const before = await canonicalOf(alpha)
  await reorg(3, [777, 778])
  expect(Number((await headOf(alpha)).number)).toBe(head)
  await indexed()
  const canonical = await canonicalOf(alpha)
  expect(canonical).not.toEqual(before)
  expect(canonical.length).toBe(before.length - 1) // three transfers went, two came
  expect(await storedOf('alpha')).toEqual(canonical)
  expect(await rollbacks()).toEqual([
    { chain: 'alpha', before: String(head), point: String(head - 3), events: '3' },
  ])
})

test('a fork that has grown on before it is seen is one rollback too', async () => {
  const head = Number((await headOf(alpha)).number)
  const pid = await workerPid(indexer, 'alpha')
  process.kill(pid, 'SIGSTOP')
  try {
    await reorg(2, [])
    await transferAt(alpha, times(1000, 5))
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  await indexed()
  expect(await storedOf('alpha')).toEqual(await canonicalOf(alpha))
  expect((await rollbacks()).slice(1)).toEqual([
    { chain: 'alpha', before: String(head), point: String(head - 2), events: '1' },
  ])
})

test('a fork while no worker ran is found at the start', async () => {
  const head = Number((await headOf(alpha)).number)
  await indexer.stop()
  await reorg(4, [900])
  await transferAt(alpha, times(2000, 1))
  indexer = project.lockstep(['start'])
  await indexed()
  expect(await storedOf('alpha')).toEqual(await canonicalOf(alpha))
  expect((await rollbacks()).slice(2)).toEqual([
    { chain: 'alpha', before: String(head), point: String(head - 4), events: '4' },
  ])
})

test('a fork below maxRollbackDepth stops the chain, and nothing is deleted', async () => {
  await indexer.stop()
  const stored = await storedOf('alpha')
  await alpha.anvil.rpc('anvil_reorg', [5, []])
  const shallow = await project.folder.write('shallow.yaml', {
    database: { url: project.database.url },
    ...project.settings,
    chains: { alpha: { ...alpha.config, maxRollbackDepth: 3 } },
  })
  const worker = await project.worker('alpha', { config: shallow })
  const line = await worker.said(/"err":\{[^\n]*deep_reorg[^\n]*"msg":"chain was stopped"/)
  expect(line[0]).toContain('the node no longer agrees on any stored block within 3 heights')
  expect(await project.chainStatus('alpha')).toMatchObject({ phase: 'stopped' })
  expect(await storedOf('alpha')).toEqual(stored)
  expect((await worker.stop()).code).toBe(0)
  expect(await rollbacks()).toHaveLength(3)
})

test('the other chain was never touched', async () => {
  expect(await storedOf('beta')).toEqual(betaBefore)
  expect(await storedOf('beta')).toEqual(await canonicalOf(beta))
})
