/**
 * Goal: two deployments in one database do not touch each other. Method: two schemas with the same chains, of which one
 * is rewound and written, with every table, key and notification of the other watched; and sessions whose own search
 * path points elsewhere, as behind a pooler.
 */
import { randomUUID } from 'node:crypto'
import { requestRewind } from '@lockstep/rewind'
import { Database, Listener, migrate, notify, readRewindState, registerChains } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { createTestDatabase, type TestDatabase } from '@lockstep/testkit'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { writeKey } from '../../packages/store/src/names.js'
import { requestOf, rewindChain } from '../protocol/chain-rewind.js'
import { OpenTransaction } from '../protocol/sessions.js'
import { readEverything, readRows, storedHeights } from './read-rows.js'
import { ALPHA, at, chainOptions, steady, takeChain, writeBlocks } from './written-chain.js'

let database: TestDatabase
let first: Database
let second: Database
const place = (db: Database) => ({ url: database.url, schema: db.schema })

beforeEach(async () => {
  database = await createTestDatabase({ name: 'two' })
  const open = (schema: string) =>
    new Database({
      url: database.url,
      schema,
      holder: randomUUID(),
      writeTimeoutMs: 1000,
      logger: silentLogger(),
    })
  first = open('First "one"')
  second = open('second')
  for (const db of [first, second]) {
    await migrate(db, `${db.schema} views`)
    await registerChains(db, [chainOptions(ALPHA)])
  }
})
afterEach(async () => {
  await Promise.all([first.close(), second.close()])
  await database.drop()
})

test('a rewind of one leaves every row of the other, which goes on writing', async () => {
  const one = await writeBlocks(first, await takeChain(first, ALPHA), steady(0, 10))
  const two = await writeBlocks(second, await takeChain(second, ALPHA), steady(0, 10))
  const before = await readEverything({ url: database.url, schema: 'second' })
  await requestRewind(first, requestOf(at(5)))
  expect(await readEverything({ url: database.url, schema: 'second' })).toEqual(before)
  expect((await second.transaction(readRewindState)).lock).toBeNull()
  await writeBlocks(second, two, [[11, 11]])
  await rewindChain(first, one)
  expect(await storedHeights({ url: database.url, schema: 'second' }, 'alpha')).toHaveLength(12)
  expect((await first.transaction((tx) => tx.query('select from block'))).rowCount).toBe(6)
})

test('the key of one holds up no writer of the other', async () => {
  const session = await OpenTransaction.begin(place(second), 'a stranger')
  await session.query('select pg_advisory_xact_lock($1::bigint)', [writeKey(first.schema)])
  await writeBlocks(second, await takeChain(second, ALPHA), steady(0, 3))
  await session.query('select 1') // it was not ended
  await session.rollback()
})

test('a notification of one wakes nobody of the other', async () => {
  const listener = Listener.open(second)
  try {
    await listener.wait(0, 60_000) // it listens
    const { heard } = listener
    await first.transaction((tx) => notify(tx, 'rewind'))
    await second.transaction((tx) => notify(tx, 'rewind'))
    await listener.wait(heard, 60_000)
    await second.transaction((tx) => tx.query('select 1')) // what was sent before has come by now
    expect(listener.heard).toBe(heard + 1)
  } finally {
    await listener.close()
  }
})

test('what a session’s own search path says does not matter, and nothing is left in it', async () => {
  const url = new URL(database.url)
  url.searchParams.set('options', '-c search_path=second')
  const astray = new Database({
    url: url.href,
    schema: first.schema,
    holder: randomUUID(),
    writeTimeoutMs: 1000,
    logger: silentLogger(),
    connectionsMax: 1,
  })
  try {
    await writeBlocks(astray, await takeChain(astray, ALPHA), steady(0, 3))
    expect((await first.transaction((tx) => tx.query('select from block'))).rowCount).toBe(4)
    expect(await readRows(place(second), 'select from block')).toEqual([])
    const outside = await astray.connect()
    expect((await outside.query('show search_path')).rows).toEqual([{ search_path: 'second' }])
    await outside.end()
  } finally {
    await astray.close()
  }
})
