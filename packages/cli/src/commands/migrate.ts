import type { LockstepOptions } from '@lockstep/config'
import { DatabaseUnavailableError, SchemaVersionError } from '@lockstep/domain'
import {
  checkSchema,
  type Database,
  errorCode,
  migrate as migrateSchema,
  readChains,
  registerChains,
} from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'
import { databaseUrl, type GlobalWords, openDatabase, openQuietLogger, readConfig } from '../session.js'

/** `lockstep migrate`: all DDL, with the role that owns the tables. */
export async function migrate(words: GlobalWords): Promise<void> {
  const options = readConfig(words)
  const logger = openQuietLogger(words)
  const db = openDatabase(options, await databaseUrl(options), logger)
  try {
    const applied = await migrateSchema(db, options.database.readSchema)
    await registerChains(db, options.chains)
    const chains = options.chains.map(({ chain }) => chain).join(', ')
    const what = applied.length === 0 ? 'nothing to do' : `applied ${applied.join(', ')}`
    process.stdout.write(`Schema "${db.schema}": ${what}; there is room for ${chains}.\n`)
  } finally {
    await db.close()
  }
}

/** What `lockstep start` does of it: everything where its role may, else it checks that it was done. */
export async function prepareSchema(db: Database, options: LockstepOptions, logger: Logger): Promise<void> {
  try {
    const applied = await migrateSchema(db, options.database.readSchema)
    await registerChains(db, options.chains)
    if (applied.length > 0) logger.info({ schema: db.schema, applied }, 'tables were migrated')
  } catch (error) {
    if (!mayNotMigrate(error)) throw error
    await checkSchema(db)
    await checkAllRegistered(db, options)
  }
}

const INSUFFICIENT_PRIVILEGE = '42501'

const mayNotMigrate = (error: unknown): boolean =>
  error instanceof DatabaseUnavailableError && errorCode(error.cause) === INSUFFICIENT_PRIVILEGE

async function checkAllRegistered(db: Database, options: LockstepOptions): Promise<void> {
  const registered = new Set((await db.transaction(readChains)).map(({ chain }) => chain))
  const missing = options.chains.filter(({ chain }) => !registered.has(chain))
  if (missing.length === 0) return
  throw new SchemaVersionError(
    db.schema,
    `there is no room for ${missing.map(({ chain }) => chain).join(', ')} yet, and this role may not make it.`,
    'Run "lockstep migrate" with the role that owns the tables.',
  )
}
