/**
 * Goal: the migrations make exactly the schema that is committed beside this file; they may run twice and at once; and
 * no program works with tables that it does not know.
 * Method: the catalogue of a fresh database as text (`vitest -u` writes it anew), and migrations that meet.
 */
import { SchemaVersionError } from '@lockstep/domain'
import { checkSchema, Database, migrate } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { createTestDatabase, type TestDatabase } from '@lockstep/testkit'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { migrateKey } from '../../packages/store/src/names.js'
import { OpenTransaction, waitsForLock } from '../protocol/sessions.js'
import { dumpSchema } from './dump-schema.js'
import { readEverything, readRows } from './read-rows.js'

let database: TestDatabase
let opened: Database[]
let place: { url: string; schema: string }

beforeEach(async () => {
  database = await createTestDatabase({ name: 'schema' })
  place = { url: database.url, schema: 'lockstep' }
  opened = []
})
afterEach(async () => {
  await Promise.allSettled(opened.map((db) => db.close()))
  await database.drop()
})

function open(holder = 'somebody', writeTimeoutMs = 5000): Database {
  const db = new Database({ ...place, holder, writeTimeoutMs, logger: silentLogger() })
  opened.push(db)
  return db
}

test('the migrations make the schema that is committed', async () => {
  await migrate(open(), 'indexed')
  await expect(await dumpSchema(place, 'indexed')).toMatchFileSnapshot('./schema.sql')
})

test('_global has exactly the columns and types that it was given', async () => {
  await migrate(open(), 'indexed')
  const columns = await readRows(
    place,
    `select attname as name, format_type(atttypid, atttypmod) as type, attnotnull as required
     from pg_attribute where attrelid = '"_global"'::regclass and attnum > 0 order by attnum`,
  )
  expect(columns).toEqual([
    { name: 'key', type: 'character varying(255)', required: true },
    { name: 'value', type: 'jsonb', required: false },
    { name: 'createdAt', type: 'timestamp(6) with time zone', required: true },
    { name: 'updatedAt', type: 'timestamp(6) with time zone', required: true },
  ])
  const constraints = await readRows(
    place,
    `select conname as name, pg_get_constraintdef(oid) as is from pg_constraint
     where conrelid = '"_global"'::regclass and contype <> 'n'`,
  )
  expect(constraints).toEqual([{ name: '_global_pkey', is: 'PRIMARY KEY (key)' }])
})

test('migrating again does nothing', async () => {
  const db = open()
  const applied = await migrate(db, 'indexed')
  expect(applied[0]).toBe('001_tables.sql')
  const before = await readEverything(place)
  expect(await migrate(db, 'indexed')).toEqual([])
  expect(await readEverything(place)).toEqual(before)
  await checkSchema(db)
})

test('several that migrate at once wait for each other, and each file runs once', async () => {
  const each = await Promise.all(['a', 'b', 'c', 'd'].map((holder) => migrate(open(holder), 'indexed')))
  const names = await readRows<{ name: string }>(place, 'select name from migration order by name')
  expect(each.flat().sort()).toEqual(names.map(({ name }) => name))
})

test('a migration that takes longer than the write time-out is waited for, not ended', async () => {
  await migrate(open(), 'indexed')
  const slow = await OpenTransaction.begin(place, 'lockstep:slow')
  await slow.query('select pg_advisory_xact_lock($1::bigint)', [migrateKey('lockstep')])
  const second = migrate(open('second', 500), 'indexed')
  await waitsForLock(place, 'second')
  let ended = false
  void slow.ended.then(() => {
    ended = true
  })
  await new Promise((resolve) => setTimeout(resolve, 4000)) // blockers are looked at each second
  expect(ended).toBe(false)
  await slow.rollback()
  expect(await second).toEqual([])
})

test('tables that are missing are named, with the command that makes them', async () => {
  const missing = checkSchema(open())
  await expect(missing).rejects.toBeInstanceOf(SchemaVersionError)
  await expect(missing).rejects.toMatchObject({
    message: 'The tables in schema "lockstep" do not fit this program: there are none yet.',
    hint: expect.stringContaining('lockstep migrate'),
  })
})

test('tables of an older program are named, and migrated', async () => {
  const db = open()
  await migrate(db, 'indexed')
  const [last] = await readRows<{ name: string }>(
    place,
    'delete from migration where name = (select max(name) from migration) returning name',
  )
  await expect(checkSchema(db)).rejects.toThrow(`${last?.name} did not run yet.`)
})

test('a file that was edited after it had run is refused, and nothing is changed', async () => {
  const db = open()
  await migrate(db, 'indexed')
  await readRows(place, `update migration set sha256 = 'another' where name = '001_tables.sql'`)
  const before = await readEverything(place)
  await expect(checkSchema(db)).rejects.toThrow('001_tables.sql was changed after it had run.')
  await expect(migrate(db, 'indexed')).rejects.toMatchObject({ code: 'schema_version' })
  expect(await readEverything(place)).toEqual(before)
})

test('tables of a newer program are refused, and nothing is changed', async () => {
  const db = open()
  await migrate(db, 'indexed')
  await readRows(place, `insert into migration (name, sha256) values ('999_from_the_future.sql', 'x')`)
  const before = await readEverything(place)
  await expect(checkSchema(db)).rejects.toMatchObject({
    message: expect.stringContaining('999_from_the_future.sql has run, which this program does not know.'),
    hint: 'Use the newer program.',
  })
  await expect(migrate(db, 'indexed')).rejects.toMatchObject({ code: 'schema_version' })
  expect(await readEverything(place)).toEqual(before)
})
