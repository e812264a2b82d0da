import { createHash, randomBytes } from 'node:crypto'
import pg from 'pg'

export interface TestDatabaseOptions {
  /**
   * Fills a new database, usually by the migrations: done once per run, and cloned from then on, which takes some
   * tens of milliseconds. Left out: an empty database.
   */
  readonly template?: (url: string) => Promise<void>
  /** Tells templates apart; left out: by the source text of `template`, which does not see what it closes over. */
  readonly templateKey?: string
  /** Part of the database's name, for people who look while tests run. */
  readonly name?: string
  /** Another server than the run's; for PostgreSQL versions. */
  readonly adminUrl?: string
}

export interface TestDatabase {
  readonly url: string
  /** Also while connections are open. */
  drop(): Promise<void>
}

/** A database of its own for a test file, on the PostgreSQL of this run. */
export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const adminUrl = options.adminUrl ?? adminUrlOfRun()
  const database = nameOf(options.name ?? 'db')
  const { template } = options
  await withClient(adminUrl, async (admin) => {
    if (template === undefined) return admin.query(`create database ${database}`)
    const key = options.templateKey ?? createHash('sha256').update(String(template)).digest('hex')
    const source = await ensureTemplate(admin, adminUrl, key, template)
    return admin.query(`create database ${database} template ${source}`)
  })
  return {
    url: databaseUrl(adminUrl, database),
    drop: () => withClient(adminUrl, (admin) => dropDatabase(admin, database)),
  }
}

/**
 * Test files run in several processes: who comes first makes the template, the others wait for its advisory lock.
 * That it is whole is seen by `datistemplate`, which is set last; nobody can connect to it any more then, since
 * PostgreSQL clones no database that is in use.
 */
async function ensureTemplate(
  admin: pg.Client,
  adminUrl: string,
  key: string,
  fill: (url: string) => Promise<void>,
): Promise<string> {
  const name = `${runOfTests()}_template_${createHash('sha256').update(key).digest('hex').slice(0, 12)}`
  await admin.query('select pg_advisory_lock(hashtext($1))', [name])
  try {
    const found = await admin.query('select 1 from pg_database where datname = $1 and datistemplate', [name])
    if (found.rowCount === 1) return name
    await dropDatabase(admin, name) // half made by a test file that was killed
    await admin.query(`create database ${name}`)
    await fill(databaseUrl(adminUrl, name))
    await admin.query(`alter database ${name} with allow_connections false is_template true`)
    return name
  } finally {
    await admin.query('select pg_advisory_unlock(hashtext($1))', [name])
  }
}

async function dropDatabase(admin: pg.Client, name: string): Promise<void> {
  await admin.query(`drop database if exists ${name} with (force)`)
}

// ---- a run, and what it leaves ----------------------------------------------------------------------------------

/** Between the process that starts the run's PostgreSQL and those that run test files. */
const ADMIN_URL = 'LOCKSTEP_TEST_ADMIN_URL'
const RUN = 'LOCKSTEP_TEST_RUN'

const PREFIX = 'lockstep_test'
/** Longer than any run takes, so that runs at the same time on one server leave each other alone. */
const LEFTOVER_AGE_S = 6 * 3600

/** Begins the names of all databases of one run: when it began, which tells leftovers, and what makes it unique. */
export function beginRun(adminUrl: string): string {
  const run = `${PREFIX}_${Math.floor(Date.now() / 1000)}_${randomBytes(3).toString('hex')}`
  process.env[ADMIN_URL] = adminUrl
  process.env[RUN] = run
  return run
}

export async function endRun(adminUrl: string, run: string): Promise<void> {
  await dropDatabases(adminUrl, (name) => name.startsWith(`${run}_`))
}

/** Of runs that were killed, on a server that outlives runs. */
export async function dropLeftovers(adminUrl: string): Promise<void> {
  const oldestS = Math.floor(Date.now() / 1000) - LEFTOVER_AGE_S
  await dropDatabases(
    adminUrl,
    (name) => Number(/^lockstep_test_(\d+)_/.exec(name)?.[1] ?? Infinity) < oldestS,
  )
}

async function dropDatabases(adminUrl: string, picks: (name: string) => boolean): Promise<void> {
  await withClient(adminUrl, async (admin) => {
    const found = await admin.query<{ name: string; template: boolean }>(
      `select datname as name, datistemplate as template from pg_database where datname like '${PREFIX}%'`,
    )
    for (const { name, template } of found.rows.filter((row) => picks(row.name))) {
      if (template) await admin.query(`alter database ${name} with is_template false`)
      await dropDatabase(admin, name)
    }
  })
}

function adminUrlOfRun(): string {
  const url = process.env[ADMIN_URL]
  if (url === undefined)
    throw new Error('no PostgreSQL was started for this run: test/setup.ts does that for test/')
  return url
}

const runOfTests = (): string => process.env[RUN] ?? `${PREFIX}_${Math.floor(Date.now() / 1000)}_single`

/** PostgreSQL cuts names at 63 bytes. */
function nameOf(title: string): string {
  const words = title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .slice(0, 20)
  return `${runOfTests()}_${words}_${randomBytes(3).toString('hex')}`
}

function databaseUrl(adminUrl: string, database: string): string {
  const url = new URL(adminUrl)
  url.pathname = `/${database}`
  return url.href
}

async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {}) // the query under way rejects as well
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}
