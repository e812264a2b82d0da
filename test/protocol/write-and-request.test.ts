/**
 * Goal: a write that meets the request of a rewind is either wholly before it, and then goes back with the rest, or
 * refused; and a writer that was frozen holds up a request no longer than the write time-out.
 * Method: writers that are stopped inside their transaction by a lock of a stranger or by a slow commit, writers that
 * race, and sessions that hold the write key and say nothing more.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { WriteRefusedError } from '@lockstep/domain'
import { requestRewind } from '@lockstep/rewind'
import {
  type Blocker,
  type ChainWriter,
  type Database,
  endStaleKeyHolders,
  writeBatch,
} from '@lockstep/store'
import { waitUntil } from '@lockstep/testkit'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { writeKey } from '../../packages/store/src/names.js'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { CHAIN_TABLES, readEverything, readRows, storedHeights } from '../store/read-rows.js'
import {
  ALPHA,
  at,
  BETA,
  batchOf,
  block,
  chainOptions,
  event,
  GAMMA,
  steady,
  takeChain,
  withEvents,
  writeBlocks,
} from '../store/written-chain.js'
import { ownRow, requestOf, rewindChain } from './chain-rewind.js'
import { randomFrom, seedOfRun } from './disorder.js'
import { OpenTransaction, waitsForLock } from './sessions.js'

const CHAINS = [ALPHA, BETA, GAMMA]
let deployment: Deployment
let worker: Database
let operator: Database

beforeEach(async () => {
  deployment = await createDeployment(CHAINS.map((chain) => chainOptions(chain)))
  worker = deployment.open()
  operator = deployment.open()
})
afterEach(() => deployment.drop())

const nextBatch = (h: number, seconds: number) =>
  batchOf([withEvents(block(h, seconds, { branch: 'alpha' }), event(0))])

test('a write that is inside its transaction is waited for, seen by the request, and goes back', async () => {
  const writer = await writeBlocks(worker, await takeChain(worker, ALPHA), steady(0, 5))
  const stranger = await OpenTransaction.begin(deployment, 'a stranger')
  await stranger.query('lock table event in share mode') // the write stops in its middle: the key is held already
  const write = writeBatch(worker, writer, nextBatch(6, 6))
  await waitsForLock(deployment, worker.holder)
  const request = requestRewind(operator, requestOf(at(3)))
  await sleep(1200) // more than one try for the key
  expect(await readRows(deployment, `select from _global where key = 'rewind_lock'`)).toEqual([])

  await stranger.rollback()
  const written = await write
  expect(await request).toMatchObject({ outcome: 'started' })
  expect(await storedHeights(deployment, 'alpha')).toContain(6)
  expect(await ownRow(operator, ALPHA)).toMatchObject({ from: 4 })
  await rewindChain(worker, written)
  expect(await storedHeights(deployment, 'alpha')).toEqual([0, 1, 2, 3])
})

test('a write whose commit is slow is waited for as well', async () => {
  await readRows(
    deployment,
    `create function sleep_at_commit() returns trigger language plpgsql as 'begin perform pg_sleep(1.5); return null; end'`,
  )
  const writer = await takeChain(worker, ALPHA)
  await readRows(
    deployment,
    `create constraint trigger slow_commit after insert on block deferrable initially deferred
     for each row execute function sleep_at_commit()`,
  )
  const write = writeBatch(worker, writer, nextBatch(0, 100))
  await waitUntil('the write is in its commit', async () => {
    const sleeping = `select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`
    return (await readRows(deployment, sleeping)).length > 0
  })
  const { rewindId } = await requestRewind(operator, requestOf(at(50)))
  expect(await readRows(deployment, 'select from block')).toHaveLength(1)
  expect(await ownRow(operator, ALPHA)).toMatchObject({ from: 0, rewindId })
  await rewindChain(worker, await write)
  expect(await readRows(deployment, 'select from block')).toEqual([])
})

test('a batch that was prepared long before the request is refused after it, and leaves no trace', async () => {
  const writer = await writeBlocks(worker, await takeChain(worker, ALPHA), steady(0, 5))
  const prepared = nextBatch(6, 6)
  await requestRewind(operator, requestOf(at(100))) // nothing goes: the refusal is for the lock alone
  const before = await readEverything(deployment)
  await expect(writeBatch(worker, writer, prepared)).rejects.toMatchObject({
    code: 'write_refused',
    because: 'rewind',
  })
  expect(await readEverything(deployment)).toEqual(before)
  const { writer: back } = await rewindChain(worker, writer)
  for (const chain of [BETA, GAMMA]) await rewindChain(worker, await takeChain(worker, chain))
  await writeBatch(worker, back, prepared)
  expect(await storedHeights(deployment, 'alpha')).toEqual([0, 1, 2, 3, 4, 5, 6])
})

test('writers at full speed: from the answer of the request on not one row of any chain appears', async () => {
  const seed = seedOfRun()
  const random = randomFrom(seed)
  for (let round = 0; round < 5; round++) {
    const writers = await Promise.all(
      CHAINS.map(async (chain) => {
        const db = deployment.open()
        return { db, writer: await takeChain(db, chain, 1) } // ends at once: each round has new holders
      }),
    )
    const running = writers.map(({ db, writer }) => writeUntilRefused(db, writer))
    await sleep(50 + random() * 150)
    await requestRewind(operator, requestOf(at(20)))
    const committed = await readEverything(deployment, CHAIN_TABLES)
    const ends = await Promise.all(running)
    expect({ seed, round, facts: await readEverything(deployment, CHAIN_TABLES) }).toEqual({
      seed,
      round,
      facts: committed,
    })
    for (const [index, end] of ends.entries()) {
      const { db } = writers[index] as { db: Database }
      const late = (await storedHeights(deployment, end.chain)).filter((h) => h > 20)
      expect((await ownRow(operator, end.chain)).from).toBe(late[0] ?? null)
      await rewindChain(db, end)
      expect((await storedHeights(deployment, end.chain)).every((h) => h <= 20)).toBe(true)
    }
    await Promise.all(writers.map(({ db }) => db.close()))
  }
})

/** Writes block after block, of a second each; ends at the refusal, with what it believes then. */
async function writeUntilRefused(db: Database, from: ChainWriter): Promise<ChainWriter> {
  let writer = from
  for (;;) {
    const next = (writer.checkpoint?.height ?? -1) + 1
    try {
      const ref = block(next, next, { branch: writer.chain })
      writer = await writeBatch(db, writer, batchOf([withEvents(ref, event(0))]))
    } catch (error) {
      if (error instanceof WriteRefusedError) return writer
      throw error
    }
  }
}

const frozen: readonly [string, (session: OpenTransaction) => Promise<void>][] = [
  ['idle in its transaction', async () => {}],
  ['inside COPY, where no time-out of the server reaches it', (session) => session.copyNothingInto('header')],
]
test.each(frozen)(
  'a writer that was frozen %s is named, and ended after the write time-out',
  async (_, freeze) => {
    const impatient = deployment.open({ writeTimeoutMs: 1500 })
    const session = await OpenTransaction.begin(deployment, 'lockstep:the frozen one')
    await session.query('select pg_advisory_xact_lock_shared($1::bigint)', [writeKey(deployment.schema)])
    await freeze(session)
    const seen: Blocker[] = []
    const answer = await requestRewind(impatient, {
      ...requestOf(at(0)),
      onWait: (blockers) => void seen.push(...blockers),
    })
    expect(answer.outcome).toBe('started')
    expect(seen[0]).toMatchObject({ holder: 'the frozen one', blocks: 'key', ended: false })
    expect(seen.at(-1)).toMatchObject({ holder: 'the frozen one', ended: true })
    expect(seen.filter(({ ended, transactionSeconds }) => ended && transactionSeconds < 1.5)).toEqual([])
    await session.ended
  },
)

test('a frozen request holds up writers no longer than the write time-out', async () => {
  const impatient = deployment.open({ writeTimeoutMs: 1500 })
  const writer = await takeChain(impatient, ALPHA)
  const session = await OpenTransaction.begin(deployment, 'lockstep:a frozen request')
  await session.query('select pg_advisory_xact_lock($1::bigint)', [writeKey(deployment.schema)])
  await writeBatch(impatient, writer, nextBatch(0, 0))
  await session.ended
})

test('of a holder of the key that itself waits, the one it waits for is judged', async () => {
  const writer = await writeBlocks(worker, await takeChain(worker, ALPHA), steady(0, 1))
  const stranger = await OpenTransaction.begin(deployment, 'a stranger')
  await stranger.query('lock table event in share mode')
  const write = writeBatch(worker, writer, nextBatch(2, 2))
  await waitsForLock(deployment, worker.holder)
  await sleep(700)
  const hasty = deployment.open({ writeTimeoutMs: 500 })
  expect(await endStaleKeyHolders(hasty)).toMatchObject([
    { holder: 'a stranger', blocks: 'other', ended: false },
  ])
  await stranger.rollback()
  await write
})
