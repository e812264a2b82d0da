/**
 * Goal: time zones of processes and sessions move no time and no cut. Method: this process in Chicago, the database in
 * Kolkata; the same rewind as in UTC.
 */
import { parseMoment, parseTime, type TimeUs } from '@lockstep/domain'
import { requestRewind } from '@lockstep/rewind'
import { readRewind, readRewindState, readStoredBlock } from '@lockstep/store'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { requestOf, rewindChain } from '../protocol/chain-rewind.js'
import { readRows, storedHeights } from './read-rows.js'
import { ALPHA, block, chainOptions, steady, takeChain, writeBlocks } from './written-chain.js'

let deployment: Deployment
const zone = process.env.TZ

beforeAll(async () => {
  process.env.TZ = 'America/Chicago'
  deployment = await createDeployment([chainOptions(ALPHA)])
  await readRows(
    deployment,
    `do $$ begin execute format('alter database %I set timezone to %L', current_database(), 'Asia/Kolkata'); end $$`,
  )
})
afterAll(async () => {
  if (zone === undefined) delete process.env.TZ
  else process.env.TZ = zone
  await deployment?.drop()
})

test('a cut is where it is in UTC, and stored times are the chain’s', async () => {
  expect(new Date(0).getHours()).toBe(18) // this process is in Chicago
  const db = deployment.open()
  await db.transaction(async (tx) => {
    await tx.query(`set local timezone to default`)
    expect((await tx.query('show timezone')).rows).toEqual([{ TimeZone: 'Asia/Kolkata' }])
  })
  const alpha = await writeBlocks(db, await takeChain(db, ALPHA), steady(0, 10, -5))
  for (const h of [0, 5, 10])
    expect(await db.transaction((tx) => readStoredBlock(tx, ALPHA, h as never))).toEqual(
      block(h, h - 5, { branch: 'alpha' }),
    )
  const time = parseTime('2023-11-14T22:13:20Z') as TimeUs // 1700000000
  const { rewindId } = await requestRewind(db, requestOf(time))
  const state = await db.transaction(readRewindState)
  expect(state.lock?.timestamp).toBe(time)
  expect(state.waitingFor.map((row) => row.from)).toEqual([6])
  const value = await readRows(
    deployment,
    `select value ->> 'timestamp' as t from _global where key = 'rewind_lock'`,
  )
  expect(value).toEqual([{ t: '2023-11-14T22:13:20.000000Z' }])
  await rewindChain(db, alpha)
  expect(await storedHeights(deployment, 'alpha')).toEqual([0, 1, 2, 3, 4, 5])
  expect((await db.transaction((tx) => readRewind(tx, rewindId)))?.timestamp).toBe(time)
})

test('a time without its zone is refused', () => {
  expect(() => parseMoment('2023-11-14T22:13:20')).toThrow('names no time zone')
})
