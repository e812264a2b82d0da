/**
 * Goal: one process at a time may write a chain, and the database knows which one; who can no longer renew stops before
 * another may begin. Method: processes' views that take, lose and give back a lease at the same time, a write that is
 * stopped inside its transaction, and a proxy that takes the network away from a holder.
 */
import { performance } from 'node:perf_hooks'
import { chainKey, LeaseLostError } from '@lockstep/domain'
import {
  acquireChainLease,
  acquireLease,
  type Database,
  type HeldLease,
  LeaseKeeper,
  readFreeChains,
  surrenderLeasesOf,
  writeBatch,
} from '@lockstep/store'
import { startTcpProxy, type TcpProxy, waitUntil } from '@lockstep/testkit'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { renewLease, surrenderLease } from '../../packages/store/src/lease.js'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { checkpointHeight, readRows } from '../store/read-rows.js'
import {
  ALPHA,
  BETA,
  batchOf,
  block,
  chainOptions,
  event,
  takeChain,
  withEvents,
} from '../store/written-chain.js'
import { OpenTransaction, waitsForLock } from './sessions.js'

let deployment: Deployment
let first: Database
let second: Database
let proxy: TcpProxy | null = null

beforeEach(async () => {
  deployment = await createDeployment([chainOptions(ALPHA), chainOptions(BETA)])
  first = deployment.open()
  second = deployment.open()
})
afterEach(async () => {
  await proxy?.stop()
  proxy = null
  await deployment.drop()
})

const endLease = () =>
  readRows(deployment, `update lease set expires_at = clock_timestamp() where name = 'chain:alpha'`)
const leaseRow = async () =>
  (
    await readRows<{ holder: string | null; token: string; live: boolean | null }>(
      deployment,
      `select holder, token, expires_at > clock_timestamp() as live from lease where name = 'chain:alpha'`,
    )
  )[0]
const next = (h: number) => batchOf([withEvents(block(h, h), event(0))])
const isHeld = (answer: object): answer is HeldLease => 'token' in answer

test('of many who ask at once for a lease that has ended, one gets it, and the token rises by one', async () => {
  const processes = Array.from({ length: 6 }, () => deployment.open())
  let token = (await takeChain(first, ALPHA)).lease.token
  for (let round = 0; round < 15; round++) {
    await endLease()
    const answers = await Promise.all(processes.map((db) => acquireChainLease(db, ALPHA, 600_000)))
    const [taken, ...others] = answers.filter(isHeld)
    expect(others).toEqual([])
    expect(taken?.token).toBe(token + 1)
    token += 1
    const rows = await readRows(deployment, `select holder, token from checkpoint where chain = 'alpha'`)
    expect(rows).toEqual([{ holder: taken?.holder, token: String(token) }])
    for (const answer of answers) if (!isHeld(answer)) expect(answer.holder).toBe(taken?.holder)
  }
})

test('the lease of a chain that is just being registered is not taken: there is no checkpoint row to lock yet', async () => {
  // What a worker sees whose first statement came before the registration's commit, and whose second comes after it.
  await readRows(deployment, `insert into lease (name) values ('chain:gamma')`)
  expect(await acquireChainLease(first, chainKey('gamma'), 600_000)).toMatchObject({ holder: 'nobody' })
  expect(await readRows(deployment, `select holder, token from lease where name = 'chain:gamma'`)).toEqual([
    { holder: null, token: '0' },
  ])
})

test('a lease is waited for where its holder is in the middle of a write, and that write stays', async () => {
  const writer = await takeChain(first, ALPHA)
  const stranger = await OpenTransaction.begin(deployment, 'a stranger')
  await stranger.query('lock table event in share mode')
  const write = writeBatch(first, writer, next(0))
  await waitsForLock(deployment, first.holder)
  await endLease()
  const taking = acquireChainLease(second, ALPHA, 600_000)
  await waitsForLock(deployment, second.holder)
  // The lease row is not held meanwhile, so that it can be renewed at any time.
  await readRows(
    deployment,
    `set lock_timeout = '5s'; update lease set token = token where name = 'chain:alpha'`,
  )
  await stranger.rollback()
  const written = await write
  expect(await taking).toMatchObject({ token: writer.lease.token + 1 })
  expect(await checkpointHeight(deployment, 'alpha')).toBe(0)
  await expect(writeBatch(first, written, next(1))).rejects.toBeInstanceOf(LeaseLostError)
})

test('asking for a lease that is held does not queue behind its holder, and names it', async () => {
  const writer = await takeChain(first, ALPHA)
  const stranger = await OpenTransaction.begin(deployment, 'a stranger')
  await stranger.query(`select from checkpoint where chain = 'alpha' for update`)
  const answer = await acquireChainLease(second, ALPHA, 1000)
  expect(answer).toMatchObject({ holder: writer.lease.holder, sinceSeconds: expect.any(Number) })
  await stranger.rollback()
})

test('a lease is renewed while it lasts, and neither after its end nor after another took it', async () => {
  const { lease } = await takeChain(first, ALPHA, 60_000)
  expect(await renewLease(first, lease, 60_000)).toBe(true)
  await endLease()
  expect(await renewLease(first, lease, 60_000)).toBe(false)
  await takeChain(second, ALPHA)
  expect(await renewLease(first, lease, 60_000)).toBe(false)
  expect(await leaseRow()).toMatchObject({ holder: second.holder, live: true })
})

test('a lease is renewed while a transaction holds the checkpoint row of its chain', async () => {
  const { lease } = await takeChain(first, ALPHA, 60_000)
  const removal = await OpenTransaction.begin(deployment, 'a long removal')
  await removal.query(`select from checkpoint where chain = 'alpha' for update`)
  expect(await renewLease(first, lease, 60_000)).toBe(true)
  await removal.rollback()
})

test('what is given back is free at once; what was taken over is not given back', async () => {
  const { lease } = await takeChain(first, ALPHA)
  await surrenderLease(first, lease)
  expect(await first.transaction(readFreeChains)).toEqual(['alpha', 'beta'])
  const successor = (await takeChain(second, ALPHA)).lease
  expect(successor.token).toBe(lease.token + 1)
  await surrenderLease(first, lease)
  expect(await leaseRow()).toMatchObject({ holder: second.holder, live: true })
  await acquireLease(second, 'coordinator', 600_000)
  expect(await surrenderLeasesOf(first, second.holder)).toBe(2)
  expect(await acquireLease(first, 'coordinator', 600_000)).toMatchObject({ token: 2 })
})

/** A chain rewind that was frozen in its removal: it holds the checkpoint row under the name of its process. */
async function frozenRemoval(db: Database): Promise<OpenTransaction> {
  const session = await OpenTransaction.begin(deployment, `lockstep:${db.holder}`)
  await session.query(`update checkpoint set height = height where chain = 'alpha'`)
  return session
}

test('a removal that was frozen, and whose lease has lapsed, is ended by who comes next', async () => {
  await takeChain(first, ALPHA)
  const frozen = await frozenRemoval(first)
  await endLease()
  const hasty = deployment.open({ writeTimeoutMs: 1000 })
  expect(await acquireChainLease(hasty, ALPHA, 600_000)).toMatchObject({ holder: hasty.holder })
  await frozen.ended
})

test('a long removal whose process still renews a lease is waited for', async () => {
  await takeChain(first, ALPHA)
  const long = await frozenRemoval(first)
  let ended = false
  void long.ended.then(() => {
    ended = true
  })
  const hasty = deployment.open({ writeTimeoutMs: 500 })
  const locking = hasty.transaction((tx) =>
    tx.query(`select from checkpoint where chain = 'alpha' for update`),
  )
  await waitsForLock(deployment, hasty.holder)
  await new Promise((resolve) => setTimeout(resolve, 3500)) // blockers are looked at each second
  expect(ended).toBe(false)
  await long.rollback()
  await locking
})

async function keptThroughProxy(timeMs: number): Promise<LeaseKeeper> {
  const { hostname, port } = new URL(deployment.url)
  proxy = await startTcpProxy(hostname, Number(port))
  const url = new URL(deployment.url)
  url.port = String(proxy.port)
  const db = deployment.open({ url: url.href })
  const askedAt = performance.now()
  const lease = await acquireChainLease(db, ALPHA, timeMs)
  if (!isHeld(lease)) throw new Error('nobody else has it')
  return new LeaseKeeper(db, lease, timeMs, askedAt)
}

/** Whether the lease was still ours in the database when the keeper stopped to believe in it. */
const liveWhenGivenUp = (keeper: LeaseKeeper): Promise<boolean | null | undefined> =>
  new Promise((resolve) => {
    keeper.lost.addEventListener('abort', async () => resolve((await leaseRow())?.live))
  })

test('a keeper renews for longer than the lease lasts, and gives back at its close, also twice', async () => {
  const keeper = await keptThroughProxy(1500)
  for (const started = performance.now(); performance.now() < started + 4000; ) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    keeper.check()
    expect(await leaseRow()).toMatchObject({ live: true })
  }
  await keeper.close()
  await keeper.close()
  expect(await leaseRow()).toMatchObject({ holder: null, live: null })
})

test('a keeper whose renewals are refused gives up before the lease ends', async () => {
  const keeper = await keptThroughProxy(4000)
  const live = liveWhenGivenUp(keeper)
  await proxy?.refuse(true)
  proxy?.cut()
  expect(await live).toBe(true)
  expect(() => keeper.check()).toThrow(LeaseLostError)
  await keeper.close()
})

test('a keeper whose renewal is never answered gives up before the lease ends', async () => {
  const keeper = await keptThroughProxy(4000)
  const live = liveWhenGivenUp(keeper)
  proxy?.pause()
  expect(await live).toBe(true)
  expect(() => keeper.check()).toThrow(LeaseLostError)
  await keeper.close()
})

test('a keeper hears at its next renewal that another has taken the lease', async () => {
  const keeper = await keptThroughProxy(3000)
  await endLease()
  await takeChain(second, ALPHA)
  await waitUntil('the keeper knows', () => keeper.lost.aborted)
  expect(keeper.lost.reason).toMatchObject({
    code: 'lease_lost',
    facts: { lease: 'chain:alpha', detail: 'another process has taken it, or it has ended' },
  })
  await keeper.close()
  expect(await leaseRow()).toMatchObject({ holder: second.holder, live: true })
})
