import { setTimeout as sleep } from 'node:timers/promises'
import { describeError } from '@lockstep/domain'
import pg from 'pg'
import { LOCKSTEP, urlOf } from './cluster.js'
import { unusable } from './place.js'
import { readLivePostmaster } from './postmaster-pid.js'
import { type RunningServer, runServer, type ServerPlan } from './server.js'

export interface OpenServer {
  /** Of the database `lockstep`; holds the password. */
  readonly url: string
  readonly pid: number
  readonly adopted: boolean
  stop(): Promise<void>
}

/** Runs or adopts the server, with the database `lockstep` in it. Whatever fails, no server of ours stays behind. */
export async function openServer(plan: ServerPlan, password: string): Promise<OpenServer> {
  let server: RunningServer | null = null
  try {
    server = await runServer(plan)
    while (!(await ensureDatabase(plan, server, password))) server = await runServer(plan)
  } catch (error) {
    await server?.child?.stop()
    plan.watchdog?.dismiss()
    throw error
  }
  const { child, pid, port } = server
  if (child === null) plan.watchdog?.dismiss()
  return {
    url: urlOf(port, password),
    pid,
    adopted: child === null,
    stop: async () => {
      await child?.stop()
      plan.watchdog?.dismiss()
    },
  }
}

const DUPLICATE_DATABASE = new Set(['42P04', '23505']) // the second where two make it in the same moment
/** For a server that is starting up or stopping. */
const NOT_NOW = new Set(['57P03', '57P01', 'ECONNREFUSED', 'ECONNRESET'])
const TRIES_MAX = 100

/** False: the adopted server ended meanwhile. */
async function ensureDatabase(plan: ServerPlan, server: RunningServer, password: string): Promise<boolean> {
  for (let tries = 1; ; tries++) {
    try {
      await createDatabase(urlOf(server.port, password, 'postgres'))
      return true
    } catch (error) {
      if (server.child === null && (await readLivePostmaster(plan.dataDir)) === null) return false
      if (tries < TRIES_MAX && NOT_NOW.has(codeOf(error))) {
        await sleep(100)
        continue
      }
      const hint = `If ${plan.home}/password is not the one that the data were made with, put that one back.`
      throw unusable(plan.home, `its server refused us: ${describeError(error)}.`, hint, error)
    }
  }
}

async function createDatabase(adminUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl, connectionTimeoutMillis: 10_000 })
  client.on('error', () => {}) // the query that is under way rejects as well
  try {
    await client.connect()
    const found = await client.query('select 1 from pg_database where datname = $1', [LOCKSTEP])
    if (found.rowCount === 0) await client.query(`create database ${LOCKSTEP}`)
  } catch (error) {
    if (!DUPLICATE_DATABASE.has(codeOf(error))) throw error
  } finally {
    await client.end().catch(() => {})
  }
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : ''
