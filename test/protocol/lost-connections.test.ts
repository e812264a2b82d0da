/**
 * Goal: a connection that is lost at any point leaves nothing half done, no statement of a transaction ever runs outside
 * of it, and a lost notification delays nobody longer than a poll.
 * Method: a proxy that cuts at each step of write, chain rewind and commit; sessions that the server ends; a listener
 * whose session is killed, or is told of something before it listens.
 */
import { DatabaseUnavailableError } from '@lockstep/domain'
import { type RewindStep, requestRewind } from '@lockstep/rewind'
import { Database, Listener, notify, readCheckpoint, readRewindState, writeBatch } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { evmChainOptions, SimulatedEvmNode, startTcpProxy, type TcpProxy, waitUntil } from '@lockstep/testkit'
import type pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { startWorker } from '../kit/in-process-worker.js'
import { checkpointHeight, globalKeys, readEverything, readRows, storedHeights } from '../store/read-rows.js'
import {
  ALPHA,
  at,
  batchOf,
  block,
  chainOptions,
  event,
  steady,
  takeChain,
  withEvents,
  writeBlocks,
} from '../store/written-chain.js'
import { requestOf, rewindChain } from './chain-rewind.js'
import { OpenTransaction, waitsForLock } from './sessions.js'

let deployment: Deployment
let proxy: TcpProxy
let far: Database
let near: Database

beforeEach(async () => {
  deployment = await createDeployment([chainOptions(ALPHA)])
  const url = new URL(deployment.url)
  proxy = await startTcpProxy(url.hostname, Number(url.port))
  url.port = String(proxy.port)
  far = deployment.open({ url: url.href })
  near = deployment.open()
})
afterEach(async () => {
  await proxy.stop()
  await deployment.drop()
})

const next = (h: number) => batchOf([withEvents(block(h, h, { branch: 'alpha' }), event(0))])
/** The server notices a lost client when it next reads from it or writes to it. */
const sessionsGone = () =>
  waitUntil('the server has noticed that the client is gone', async () => {
    const left = `select from pg_stat_activity where application_name = 'lockstep:' || $1 and datname = current_database()`
    return (await readRows(deployment, left, [far.holder])).length === 0
  })
const inCommit = () =>
  waitUntil('a transaction is in its commit', async () => {
    const sleeping = `select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`
    return (await readRows(deployment, sleeping)).length > 0
  })
const slowCommits = () =>
  readRows(
    deployment,
    `create function sleep_at_commit() returns trigger language plpgsql as 'begin perform pg_sleep(1); return null; end';
     create constraint trigger slow_commit after update on checkpoint deferrable initially deferred
       for each row execute function sleep_at_commit()`,
  )

test('a write whose connection is cut in its middle leaves nothing; the next one goes on', async () => {
  const writer = await writeBlocks(far, await takeChain(far, ALPHA), steady(0, 3))
  const before = await readEverything(deployment)
  const stranger = await OpenTransaction.begin(deployment, 'a stranger')
  await stranger.query('lock table event in share mode')
  const write = writeBatch(far, writer, next(4))
  const refused = expect(write).rejects.toBeInstanceOf(DatabaseUnavailableError)
  await waitsForLock(deployment, far.holder)
  proxy.cut()
  await refused
  await stranger.rollback()
  await sessionsGone()
  expect(await readEverything(deployment)).toEqual(before)
  await writeBatch(far, writer, next(4))
  expect(await storedHeights(deployment, 'alpha')).toEqual([0, 1, 2, 3, 4])
})

test.each<RewindStep>([
  'chain.checkpoint_set',
  'chain.removed',
  'chain.lock_row_locked',
  'chain.own_row_deleted',
  'chain.released',
])('a chain rewind whose connection is cut at %s leaves nothing; the next try finishes it', async (step) => {
  const writer = await writeBlocks(far, await takeChain(far, ALPHA), steady(0, 10))
  await requestRewind(near, requestOf(at(5)))
  const before = await readEverything(deployment)
  const part = rewindChain(far, writer, { onStep: (now) => (now === step ? proxy.cut() : undefined) })
  await expect(part).rejects.toBeInstanceOf(DatabaseUnavailableError)
  await sessionsGone()
  expect(await readEverything(deployment)).toEqual(before)
  expect(await rewindChain(far, writer)).toMatchObject({ outcome: 'done', released: true })
  expect(await storedHeights(deployment, 'alpha')).toEqual([0, 1, 2, 3, 4, 5])
})

test('a write that is cut in its commit is either wholly there or not at all, and what is true is read', async () => {
  const writer = await takeChain(far, ALPHA)
  await slowCommits()
  const write = writeBatch(far, writer, next(0))
  const refused = expect(write).rejects.toBeInstanceOf(DatabaseUnavailableError)
  await inCommit()
  proxy.cut()
  await refused
  await sessionsGone()
  const checkpoint = await near.transaction((tx) => readCheckpoint(tx, ALPHA))
  expect(await storedHeights(deployment, 'alpha')).toEqual(checkpoint === null ? [] : [0])
  await writeBatch(far, { ...writer, checkpoint }, next(checkpoint === null ? 0 : 1))
})

test('a chain rewind that is cut in its commit: it is done, or is done again', async () => {
  const writer = await writeBlocks(far, await takeChain(far, ALPHA), steady(0, 10))
  await requestRewind(near, requestOf(at(5)))
  await slowCommits()
  const part = rewindChain(far, writer)
  const refused = expect(part).rejects.toBeInstanceOf(DatabaseUnavailableError)
  await inCommit()
  proxy.cut()
  await refused
  await sessionsGone()
  const { lock } = await near.transaction(readRewindState)
  expect(await storedHeights(deployment, 'alpha')).toHaveLength(lock === null ? 6 : 11)
  if (lock !== null) await rewindChain(far, writer)
  expect(await globalKeys(deployment)).toEqual(['epoch'])
})

test('a request that is cut in its commit is wholly there or not at all, and can be made again', async () => {
  await writeBlocks(far, await takeChain(far, ALPHA), steady(0, 10))
  const { epoch } = await near.transaction(readRewindState)
  const request = requestRewind(far, {
    ...requestOf(at(5)),
    onStep: (step) => (step === 'request.recorded' ? proxy.cut() : undefined),
  })
  await expect(request).rejects.toBeInstanceOf(DatabaseUnavailableError)
  await sessionsGone()
  const state = await near.transaction(readRewindState)
  expect(state).toEqual({ lock: null, pause: null, waitingFor: [], epoch })
  expect(await requestRewind(far, requestOf(at(5)))).toMatchObject({ outcome: 'started' })
})

test('a session that the server ends in a transaction: its later statements run nowhere, also where errors are ignored', async () => {
  const count = `insert into _global values ('left over', null, now(), now())`
  const failed: unknown[] = []
  const work = far.transaction(async (tx) => {
    await tx.query(count)
    const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid')
    await readRows(deployment, 'select pg_terminate_backend($1)', [rows[0]?.pid])
    await sessionsGone()
    await tx.query(count).catch((error) => failed.push(error))
    await tx.query(count.replace('left over', 'another')).catch((error) => failed.push(error))
    return 'done'
  })
  await expect(work).rejects.toBeInstanceOf(DatabaseUnavailableError)
  expect(failed).toHaveLength(2)
  expect(await globalKeys(deployment)).toEqual(['epoch'])
  await far.transaction((tx) => tx.query(count))
  expect(await globalKeys(deployment)).toEqual(['epoch', 'left over'])
})

test('a statement that failed and was ignored does not let the rest of its transaction be committed', async () => {
  const work = far.transaction(async (tx) => {
    await tx.query(`insert into _global values ('left over', null, now(), now())`)
    await tx.query('select nonsense').catch(() => {})
  })
  await expect(work).rejects.toThrow('a transaction whose statements all succeeded commits')
  expect(await globalKeys(deployment)).toEqual(['epoch'])
})

// ---- notifications --------------------------------------------------------------------------------------------------

const HANGS = 120_000
const say = () => near.transaction((tx) => notify(tx, 'rewind'))
const listening = `datname = current_database() and query like 'listen %'`
/** Waits until the listener is connected and has listened. */
const listens = () =>
  waitUntil(
    'somebody listens',
    async () =>
      (await readRows(deployment, `select from pg_stat_activity where ${listening} and state = 'idle'`))
        .length > 0,
  )

test('a listener whose session is killed wakes its waiters, connects again and hears again', async () => {
  const listener = Listener.open(near)
  try {
    for (let round = 0; round < 3; round++) {
      await listens()
      const woken = listener.wait(listener.heard, HANGS)
      await say()
      await woken
      const lost = listener.wait(listener.heard, HANGS)
      await readRows(deployment, `select pg_terminate_backend(pid) from pg_stat_activity where ${listening}`)
      await lost
    }
  } finally {
    await listener.close()
  }
})

/** A view whose extra connection is told nothing of what happens before its first statement. */
class LateListener extends Database {
  between: () => Promise<void> = async () => {}
  override async connect(): Promise<pg.Client> {
    const client = await super.connect()
    await this.between()
    return client
  }
}

test('what is sent between connecting and listening is found: everybody is woken after the listening began', async () => {
  const late = new LateListener({
    url: deployment.url,
    schema: deployment.schema,
    holder: 'late',
    writeTimeoutMs: 5000,
    logger: silentLogger(),
  })
  late.between = async () => void (await requestRewind(near, requestOf(at(0))))
  const listener = Listener.open(late)
  try {
    await listener.wait(0, HANGS)
    expect((await late.transaction(readRewindState)).lock).not.toBeNull()
  } finally {
    await listener.close()
    await late.close()
  }
})

test('a wait ends after its time where no notification ever comes, and at once where one came before it', async () => {
  const listener = Listener.open(far)
  try {
    await listens()
    proxy.pause() // connected as far as it knows, and deaf
    await listener.wait(listener.heard, 50)
    proxy.resume()
    const { heard } = listener
    await say()
    await listener.wait(heard, HANGS)
    await listener.wait(heard, HANGS)
  } finally {
    await listener.close()
  }
})

test('a worker whose listening session was killed finds the rewind by its poll', async () => {
  const node = new SimulatedEvmNode({ chainId: 1 })
  node.extend(20)
  const options = evmChainOptions({ rpc: [await node.start()] })
  const worker = startWorker(deployment, options, { pollMs: 100 })
  try {
    const isAt = async (h: number) => (await checkpointHeight(deployment, 'alpha')) === h
    await waitUntil('alpha is at its head', () => isAt(20))
    await listens()
    await readRows(deployment, `select pg_terminate_backend(pid) from pg_stat_activity where ${listening}`)
    const { rewindId } = await requestRewind(near, requestOf(at(120)))
    await waitUntil('the rewind is over', async () => (await globalKeys(deployment)).length === 1)
    const audit = await readRows(deployment, 'select cut from rewind_chain where rewind_id = $1', [rewindId])
    expect(audit).toEqual([{ cut: '10' }])
    await waitUntil('alpha is at its head again', () => isAt(20))
  } finally {
    await worker.stop()
    await node.stop()
  }
})
