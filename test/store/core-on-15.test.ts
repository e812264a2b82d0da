/**
 * Goal: the oldest supported PostgreSQL does all that the newest does. Method: the core suite, and the committed schema,
 * on a PostgreSQL 15 of this machine; skipped where it has none.
 */
import { Database, migrate, type TemporaryPostgres } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { createTestDatabase, findSystemPostgres, startSystemPostgres } from '@lockstep/testkit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { coreSuite } from './core-suite.js'
import { dumpSchema } from './dump-schema.js'

const found = (await findSystemPostgres(15)) !== null
const title = found ? 'PostgreSQL 15' : 'PostgreSQL 15 (skipped: this machine has none)'

describe.runIf(found)(title, () => {
  let server: TemporaryPostgres | null = null
  const adminUrl = () => server?.url ?? ''
  beforeAll(async () => {
    server = await startSystemPostgres({ major: 15 })
  })
  afterAll(() => server?.stop())

  coreSuite(adminUrl)

  test('the migrations make the same schema', async () => {
    expect(server?.version).toMatch(/^15/)
    const database = await createTestDatabase({ adminUrl: adminUrl() })
    const place = { url: database.url, schema: 'lockstep' }
    const db = new Database({ ...place, holder: 'x', writeTimeoutMs: 5000, logger: silentLogger() })
    await migrate(db, 'indexed')
    await expect(await dumpSchema(place, 'indexed')).toMatchFileSnapshot('./schema.sql')
    await db.close()
  })
})
