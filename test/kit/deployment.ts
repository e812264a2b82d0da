import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { ChainOptions } from '@lockstep/config'
import { Database, migrate, registerChains } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { createTestDatabase } from '@lockstep/testkit'

/** The `lockstep` command, as a person runs it. */
export const LOCKSTEP = fileURLToPath(new URL('../../packages/cli/bin/lockstep.js', import.meta.url))

/** One deployment in a database of its own: migrated, with room for its chains. */
export interface Deployment {
  readonly url: string
  readonly schema: string
  /** A process's view of it: own connections, own holder id. Closed by `drop` at the latest. */
  open(settings?: { readonly writeTimeoutMs?: number; readonly url?: string }): Database
  drop(): Promise<void>
}

export async function createDeployment(
  chains: readonly ChainOptions[],
  schema = 'lockstep',
): Promise<Deployment> {
  const database = await createTestDatabase({ template: fillTemplate, name: 'deployment' })
  const opened: Database[] = []
  const open: Deployment['open'] = (settings = {}) => {
    const db = openDatabase(settings.url ?? database.url, schema, settings.writeTimeoutMs)
    opened.push(db)
    return db
  }
  const owner = open()
  if (schema !== 'lockstep') await migrate(owner, `${schema}_views`)
  await registerChains(owner, chains)
  return {
    url: database.url,
    schema,
    open,
    drop: async () => {
      const closed = Promise.allSettled(opened.map((db) => db.close()))
      await database.drop() // also while a test that failed still has a transaction open, which closing would wait for
      await closed
    },
  }
}

const openDatabase = (url: string, schema: string, writeTimeoutMs = 5000): Database =>
  new Database({ url, schema, holder: randomUUID(), writeTimeoutMs, logger: silentLogger() })

async function fillTemplate(url: string): Promise<void> {
  const db = openDatabase(url, 'lockstep')
  await migrate(db, 'indexed')
  await db.close()
}
