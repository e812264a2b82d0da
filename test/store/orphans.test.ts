/**
 * Goal: with `keepOrphans` the events that a fork takes off its chain are kept, with what took them off; what an
 * operator's rewind removes is not, since it is still on the chain.
 * Method: hand-written chains that fork, by rollback and by rewinds that meet, carried out by the worker or by others.
 */
import { height } from '@lockstep/domain'
import { carryOutFreeChains, requestRewind } from '@lockstep/rewind'
import {
  type ChainWriter,
  type Database,
  readChainRewind,
  registerChains,
  rollBack,
  setKeepOrphans,
  surrenderLeasesOf,
} from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { rewindChain } from '../protocol/chain-rewind.js'
import { readRows } from './read-rows.js'
import { ALPHA, at, BETA, block, chainOptions, steady, takeChain, writeBlocks } from './written-chain.js'

let deployment: Deployment
let db: Database
let alpha: ChainWriter
let beta: ChainWriter

beforeEach(async () => {
  deployment = await createDeployment([chainOptions(ALPHA, { keepOrphans: true }), chainOptions(BETA)])
  db = deployment.open()
  alpha = await writeBlocks(db, await takeChain(db, ALPHA), steady(0, 9))
  beta = await writeBlocks(db, await takeChain(db, BETA), steady(0, 9))
})
afterEach(() => deployment.drop())

const rows = (sql: string) => readRows(deployment, sql)
const orphans = async () =>
  (await rows('select chain, height from orphaned_event order by id')).map(
    (row) => `${row.chain} ${row.height}`,
  )
const forkOf = (writer: ChainWriter, from: number, seconds: number) =>
  requestRewind(db, {
    request: { timestamp: at(seconds), reason: 'fork', who: 'worker', fork: { writer, from: height(from) } },
  })
const operatorTo = (seconds: number) =>
  requestRewind(db, { request: { timestamp: at(seconds), reason: null, who: 'me' } })

async function rollBackTo(writer: ChainWriter, h: number | null): Promise<ChainWriter> {
  if (writer.checkpoint === null) throw new Error('nothing is stored')
  const to = h === null ? null : block(h, h, { branch: writer.chain })
  return (await rollBack(db, { ...writer, checkpoint: writer.checkpoint }, to)).writer
}

test('a rollback keeps what it removes, under its own entry of the audit', async () => {
  await rollBackTo(alpha, 7)
  expect(await orphans()).toEqual(['alpha 8', 'alpha 9'])
  expect(
    await rows(`select o.height, o.args, o.block_hash, o.orphaned_at is not null as told, r.fork_point, r.events_removed
      from orphaned_event o join rollback r on r.id = o.rollback_id where o.height = 8 and o.rewind_id is null`),
  ).toEqual([
    {
      height: '8',
      args: expect.objectContaining({ value: '0' }),
      block_hash: Buffer.from(block(8, 8, { branch: 'alpha' }).hash.slice(2), 'hex'),
      told: true,
      fork_point: '7',
      events_removed: '2',
    },
  ])
})

test('an event that leaves its chain twice is there twice; one back to before the start is kept whole', async () => {
  const back = await rollBackTo(alpha, 8)
  const again = await writeBlocks(db, back, [[9, 9]])
  await rollBackTo(again, null)
  expect(await orphans()).toEqual(['alpha 9', ...steady(0, 9).map(([h]) => `alpha ${h}`)])
})

test('a chain without the setting keeps nothing', async () => {
  await rollBackTo(beta, 7)
  expect(await orphans()).toEqual([])
})

test('an operator’s rewind keeps nothing: it is still on the chain', async () => {
  await operatorTo(5)
  await rewindChain(db, alpha)
  await rewindChain(db, beta)
  expect(await orphans()).toEqual([])
})

test('a fork’s rewind keeps the part of its own chain from the fork on', async () => {
  const { rewindId } = await forkOf(alpha, 8, 7)
  await rewindChain(db, alpha)
  await rewindChain(db, beta)
  expect(await orphans()).toEqual(['alpha 8', 'alpha 9'])
  expect(await rows('select distinct rewind_id, rollback_id from orphaned_event')).toEqual([
    { rewind_id: rewindId, rollback_id: null },
  ])
})

test('a fork that an operator’s rewind deepens keeps what the fork took off alone', async () => {
  await forkOf(alpha, 8, 7)
  await operatorTo(3)
  await rewindChain(db, alpha)
  await rewindChain(db, beta)
  expect(await orphans()).toEqual(['alpha 8', 'alpha 9'])
})

test('a fork that joins an operator’s deeper rewind is kept too, though nothing more goes for it', async () => {
  await operatorTo(3)
  const before = await db.transaction((tx) => readChainRewind(tx, ALPHA))
  await forkOf(alpha, 8, 7)
  const after = await db.transaction((tx) => readChainRewind(tx, ALPHA))
  expect([before?.from, before?.forkFrom]).toEqual([4, null])
  expect([after?.from, after?.forkFrom]).toEqual([4, 8])
  expect(after?.generation).toBeGreaterThan(before?.generation ?? 0)
  await rewindChain(db, alpha)
  await rewindChain(db, beta)
  expect(await orphans()).toEqual(['alpha 8', 'alpha 9'])
})

test('whoever carries the chain out keeps them as well, without its config', async () => {
  await forkOf(alpha, 8, 7)
  await surrenderLeasesOf(db, db.holder)
  const other = deployment.open()
  const done = await carryOutFreeChains(other, {
    leaseMs: 600_000,
    sourceOf: () => null,
    timeoutMs: 0,
    logger: silentLogger(),
  })
  expect(done).toContain(ALPHA)
  expect(await orphans()).toEqual(['alpha 8', 'alpha 9'])
})

test('the setting follows the config, also while the chain holds data', async () => {
  const keeps = async () =>
    (await rows(`select keep_orphans from chain where chain = 'alpha'`))[0]?.keep_orphans
  await registerChains(db, [chainOptions(ALPHA, { keepOrphans: false })])
  expect(await keeps()).toBe(false)
  await setKeepOrphans(db, ALPHA, true)
  expect(await keeps()).toBe(true)
})
