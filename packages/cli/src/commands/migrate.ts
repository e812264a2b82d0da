import type { LockstepOptions } from '@lockstep/config'
import { DatabaseUnavailableError, SchemaVersionError } from '@lockstep/domain'
import {
  checkSchema,
  type Database,
  errorCode,
  findStaleViews,
  makeIndexes,
  makeTypedViews,
  migrate as migrateSchema,
  readChains,
  registerChains,
  type ViewsMade,
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
    const { readSchema } = options.database
    process.stdout.write(formatViews(readSchema, await makeTypedViews(db, readSchema, options.chains)))
    const indexes = await makeIndexes(db, options.chains)
    process.stdout.write(
      formatList('Indexes', [
        ['made', indexes.made],
        ['dropped', indexes.dropped],
      ]),
    )
  } finally {
    await db.close()
  }
}

/** What `lockstep start` does of it: everything where its role may, else it checks that it was done. */
export async function prepareSchema(db: Database, options: LockstepOptions, logger: Logger): Promise<void> {
  try {
    const { readSchema } = options.database
    const applied = await migrateSchema(db, readSchema)
    await registerChains(db, options.chains)
    if (applied.length > 0) logger.info({ schema: db.schema, applied }, 'tables were migrated')
    tellViews(logger, readSchema, await makeTypedViews(db, readSchema, options.chains))
  } catch (error) {
    if (!mayNotMigrate(error)) throw error
    await checkSchema(db)
    await checkAllRegistered(db, options)
    await tellStaleViews(db, options, logger)
  }
}

/** The indexes of the views, while workers go on: reading a chain's events may take long. One that fails ends nothing. */
export async function prepareIndexes(
  db: Database,
  options: LockstepOptions,
  logger: Logger,
  stop: AbortSignal,
): Promise<void> {
  try {
    const { made, dropped } = await makeIndexes(db, options.chains, stop)
    if (made.length + dropped.length > 0) logger.info({ made, dropped }, 'indexes of views were made')
  } catch (error) {
    if (stop.aborted) return
    const hint = 'Queries go on without them. Run "lockstep migrate" with the role that owns the tables.'
    logger.warn({ err: error, hint }, 'indexes of views could not be made')
  }
}

function tellViews(logger: Logger, readSchema: string, { made, replaced, dropped, left }: ViewsMade): void {
  if (made.length + replaced.length + dropped.length > 0)
    logger.info({ readSchema, made, replaced, dropped }, 'views were made from the config')
  for (const each of left) logger.warn({ readSchema, ...each, hint: LEFT_HINT }, 'view was left as it was')
}

const LEFT_HINT = 'Drop or rename what is named, then run "lockstep migrate".'

/** This role may not make them; people would query views of another config, or none, and not know why. */
async function tellStaleViews(db: Database, options: LockstepOptions, logger: Logger): Promise<void> {
  const { readSchema } = options.database
  const stale = await findStaleViews(db, readSchema, options.chains)
  if (stale.length === 0) return
  const hint = 'Run "lockstep migrate" with the role that owns the tables.'
  logger.warn(
    { readSchema, stale, hint },
    'views are not as the config asks, and this role may not make them',
  )
}

function formatViews(readSchema: string, { made, replaced, dropped, left }: ViewsMade): string {
  const done = [
    ['made', made],
    ['replaced', replaced],
    ['dropped', dropped],
  ] as const
  const leftLines = left.map(
    ({ view, because }) => `  left as it was: ${view}: ${because}.\n    ${LEFT_HINT}\n`,
  )
  return formatList(`Views in "${readSchema}"`, done, leftLines)
}

/** A heading and what there is below it; one line where nothing was done. */
function formatList(
  heading: string,
  done: readonly (readonly [what: string, names: readonly string[]])[],
  more: readonly string[] = [],
): string {
  const lines = done.flatMap(([what, names]) => names.map((name) => `  ${what}: ${name}\n`))
  return lines.length + more.length === 0
    ? `${heading}: nothing to do.\n`
    : `${heading}:\n${[...lines, ...more].join('')}`
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
