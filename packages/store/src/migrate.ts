import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { DatabaseUnavailableError, SchemaVersionError } from '@lockstep/domain'
import type { Database, Tx } from './database.js'
import { migrateKey, quoteIdent } from './names.js'
import { errorCode } from './retry-table.js'

/** The numbered files of the repository's `migrations/`. */
const MIGRATIONS = new URL('../../../migrations/', import.meta.url)

interface Migration {
  readonly name: string
  readonly sql: string
  readonly sha256: string
}

/**
 * Brings the schema to this program's version: each file in a transaction of its own, in order; several processes at
 * once wait for each other. Files that have run are never edited; one that was is refused. Then the views that people
 * query are made in `readSchema`.
 *
 * @returns the names of the files that were applied now
 */
export async function migrate(db: Database, readSchema: string): Promise<string[]> {
  const files = await readMigrations()
  const applied: string[] = []
  await db.transaction(async (tx) => {
    await refuseOtherEncodings(tx, db.where)
    await lockMigrations(tx)
    await ensureSchema(tx)
    await tx.query(`create table if not exists migration (
      name text collate "C" primary key, sha256 text not null, applied_at timestamptz not null default clock_timestamp())`)
  })
  for (const file of files) {
    if (await db.transaction((tx) => apply(tx, files, file))) applied.push(file.name)
  }
  await db.transaction((tx) => ensureViews(tx, readSchema, applied.length > 0))
  return applied
}

/** "If not exists" would ask for the right to create one also where it is there. */
async function ensureSchema(tx: Tx): Promise<void> {
  const { rows } = await tx.query<{ there: boolean }>(
    'select to_regnamespace(quote_ident($1)) is not null as there',
    [tx.schema],
  )
  if (!rows[0]?.there) await tx.query(`create schema ${quoteIdent(tx.schema)}`)
}

/** Not again without need: replacing a view locks its readers out. */
async function ensureViews(tx: Tx, readSchema: string, changed: boolean): Promise<void> {
  await lockMigrations(tx)
  const newest = `${quoteIdent(readSchema)}.contracts`
  const { rows } = await tx.query<{ there: boolean }>('select to_regclass($1) is not null as there', [newest])
  if (!changed && rows[0]?.there) return
  await tx.query('select create_read_views($1, $2)', [tx.schema, readSchema])
  await tx.query('select create_query_views($1, $2)', [tx.schema, readSchema])
  await tx.query('select create_contract_view($1, $2)', [tx.schema, readSchema])
}

/** Texts of events are of all scripts; a database that cannot hold them would stop a chain one day. */
async function refuseOtherEncodings(tx: Tx, where: string): Promise<void> {
  const { rows } = await tx.query<{ encoding: string }>(
    `select current_setting('server_encoding') as encoding`,
  )
  const encoding = rows[0]?.encoding
  if (encoding === 'UTF8') return
  throw new DatabaseUnavailableError(
    where,
    `its encoding is ${encoding}, not UTF8.`,
    'Create it with "encoding \'UTF8\' template template0".',
  )
}

async function apply(tx: Tx, files: readonly Migration[], file: Migration): Promise<boolean> {
  await lockMigrations(tx) // a statement of its own: the next one sees what the process before us committed
  const done = await appliedMigrations(tx)
  refuseMismatch(tx.schema, files, done)
  if (done.has(file.name)) return false
  await tx.query(file.sql)
  await tx.query('insert into migration (name, sha256) values ($1, $2)', [file.name, file.sha256])
  return true
}

/** Refuses to work with tables that are missing, older or newer than this program. */
export async function checkSchema(db: Database): Promise<void> {
  const files = await readMigrations()
  const done = await db.transaction(appliedMigrations).catch(async (error) => {
    if (errorCode(error) !== '42P01') throw error // undefined_table
    await db.transaction((tx) => refuseInvisible(tx))
    return new Map<string, string>()
  })
  refuseMismatch(db.schema, files, done)
  const missing = files.filter((file) => !done.has(file.name))
  if (missing.length > 0) {
    throw new SchemaVersionError(
      db.schema,
      done.size === 0
        ? 'there are none yet.'
        : `${missing.map((file) => file.name).join(', ')} did not run yet.`,
      'Run "lockstep migrate" with the role that owns the tables, or "lockstep start", which does it where its role may.',
    )
  }
}

/** A schema that this role may not enter looks as if it had no tables. */
async function refuseInvisible(tx: Tx): Promise<void> {
  const { rows } = await tx.query<{ closed: boolean }>(
    `select not has_schema_privilege(oid, 'usage') as closed from pg_namespace where nspname = $1`,
    [tx.schema],
  )
  if (!rows[0]?.closed) return
  throw new SchemaVersionError(
    tx.schema,
    'this role may not look into it.',
    `Grant it: grant usage on schema ${quoteIdent(tx.schema)} to …, and the rights on its tables.`,
  )
}

function refuseMismatch(
  schema: string,
  files: readonly Migration[],
  done: ReadonlyMap<string, string>,
): void {
  const known = new Map(files.map((file) => [file.name, file.sha256]))
  for (const [name, sha256] of done) {
    if (!known.has(name)) {
      throw new SchemaVersionError(
        schema,
        `${name} has run, which this program does not know.`,
        'Use the newer program.',
      )
    }
    if (known.get(name) !== sha256) {
      throw new SchemaVersionError(
        schema,
        `${name} was changed after it had run.`,
        'Restore the file; a change of tables is a new file with the next number.',
      )
    }
  }
}

async function appliedMigrations(tx: Tx): Promise<Map<string, string>> {
  const { rows } = await tx.query<{ name: string; sha256: string }>(
    'select name, sha256 from migration order by name',
  )
  return new Map(rows.map((row) => [row.name, row.sha256]))
}

/** Whoever does DDL holds this to the end of its transaction. */
export const lockMigrations = (tx: Tx) =>
  tx.query('select pg_advisory_xact_lock($1::bigint)', [migrateKey(tx.schema)])

async function readMigrations(): Promise<Migration[]> {
  const names = (await readdir(MIGRATIONS)).filter((name) => /^\d{3}_.+\.sql$/.test(name)).sort()
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(fileURLToPath(new URL(name, MIGRATIONS)), 'utf8')
      return { name, sql, sha256: createHash('sha256').update(sql).digest('hex') }
    }),
  )
}
