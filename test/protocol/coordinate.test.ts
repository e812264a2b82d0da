/*
 * Goal: the coordinator outlives what PostgreSQL refuses for a while (a cancelled statement, a read-only moment, as in
 * every failover), and does its duty afterwards. Method: the real coordinator in this process on a real PostgreSQL, a
 * table locked under it and its waiting statement cancelled; then a rewind of a chain that has no worker.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { coordinate } from '@lockstep/coordinator'
import { chainKey, timeFromSeconds } from '@lockstep/domain'
import { requestRewind } from '@lockstep/rewind'
import { Listener, readRewindState } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { evmChainOptions, waitUntil } from '@lockstep/testkit'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'

const alpha = evmChainOptions({ chain: chainKey('alpha'), rpc: ['http://127.0.0.1:1'] })
let deployment: Deployment
let stop: AbortController
let coordinating: Promise<void>
let listener: Listener

beforeEach(async () => {
  deployment = await createDeployment([alpha])
  const db = deployment.open()
  listener = Listener.open(db)
  stop = new AbortController()
  const logger = silentLogger()
  const carryOut = { leaseMs: 3000, timeoutMs: 0, sourceOf: () => null, logger }
  coordinating = coordinate({ db, listener, logger, leaseMs: 3000, pollMs: 100, carryOut }, stop.signal)
  coordinating.catch(() => {}) // awaited at the end
})

afterEach(async () => {
  stop.abort()
  await coordinating
  await listener.close()
  await deployment.drop()
})

async function carriesOutARewind(): Promise<void> {
  const db = deployment.open()
  await requestRewind(db, { request: { timestamp: timeFromSeconds(1), reason: null, who: 'test' } })
  await waitUntil('the release', async () => (await db.transaction(readRewindState)).lock === null, 30_000)
}

test('a statement of the coordinator that somebody cancels is tried again', async () => {
  await sleep(500)
  const client = await deployment.open().connect()
  await client.query(`begin; lock table lockstep."_global" in access exclusive mode`)
  const cancelled = await waitUntil('a statement that waits', async () => {
    const { rows } = await client.query(
      `select pg_cancel_backend(pid) from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()`,
    )
    return rows.length > 0
  })
  expect(cancelled).toBe(true)
  await client.query('commit')
  await client.end()
  await carriesOutARewind()
})

test('a database that is read-only for a while is waited for', async () => {
  await sleep(500)
  const client = await deployment.open().connect()
  const { rows } = await client.query<{ name: string }>('select current_database() as name')
  const readOnly = async (value: 'on' | 'off'): Promise<void> => {
    await client.query(`alter database "${rows[0]?.name}" set default_transaction_read_only = ${value}`)
    await client.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
  }
  await readOnly('on')
  await sleep(1500)
  await readOnly('off')
  await client.end()
  await carriesOutARewind()
})
