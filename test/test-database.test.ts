/**
 * Goal: each test file gets a database of its own, quickly, and no run leaves anything behind, on any supported
 * PostgreSQL. Method: the PostgreSQL of this run, further temporary ones, and a run in another process that is killed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startTemporaryPostgres } from '@lockstep/store'
import pg from 'pg'
import { expect, test } from 'vitest'
import { findSystemPostgres, startSystemPostgres } from '../packages/testkit/src/postgres/index.js'
import { startPostgresForTests } from '../packages/testkit/src/postgres/postgres-for-tests.js'
import { createTestDatabase } from '../packages/testkit/src/postgres/test-database.js'

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query({ text: sql, rowMode: 'array' })).rows.flat()
  } finally {
    await client.end()
  }
}

let filled = 0
const template = async (url: string) => {
  filled++
  await query(url, 'create table thing as select 1 as id')
}
const databases = (url: string) =>
  query(url, `select datname from pg_database where datname like 'lockstep_test%'`)

test('clones of one template are apart from each other, and the template is made once', async () => {
  const clones = await Promise.all([1, 2, 3].map(() => createTestDatabase({ template, name: 'Clones!' })))
  const [first, second] = clones
  expect(new Set(clones.map(({ url }) => url)).size).toBe(3)
  expect(filled).toBe(1)
  expect(first?.url).toMatch(/\/lockstep_test_\d+_[0-9a-f]{6}_clones__[0-9a-f]{6}$/)
  await query(first?.url ?? '', 'insert into thing values (2)')
  expect(await query(second?.url ?? '', 'select id from thing')).toEqual([1])
  for (const clone of clones) await clone.drop()
})

test('a database is dropped while somebody is connected', async () => {
  const database = await createTestDatabase()
  const client = new pg.Client({ connectionString: database.url })
  client.on('error', () => {}) // that the session was ended, and then that the connection is gone
  const cut = once(client, 'error')
  await client.connect()
  await database.drop()
  expect((await cut)[0]).toMatchObject({ code: '57P01' })
  await expect(query(database.url, 'select 1')).rejects.toMatchObject({ code: '3D000' })
})

test('a template that failed is made again', async () => {
  const templateKey = 'fails once'
  const failing = async (url: string) => {
    await template(url)
    throw new Error('the migration failed')
  }
  await expect(createTestDatabase({ template: failing, templateKey })).rejects.toThrow('the migration failed')
  const database = await createTestDatabase({ template, templateKey })
  expect(await query(database.url, 'select id from thing')).toEqual([1])
  await database.drop()
})

test('on a server that outlives runs, a run removes what it made, and what killed runs left long ago', async () => {
  const server = await startTemporaryPostgres()
  const saved = { ...process.env }
  try {
    const ago = (hours: number) => Math.floor(Date.now() / 1000) - hours * 3600
    await query(server.url, `create database lockstep_test_${ago(7)}_aaaaaa_old`)
    await query(server.url, `create database lockstep_test_${ago(7)}_aaaaaa_template_x with is_template true`)
    await query(server.url, `create database lockstep_test_${ago(5)}_bbbbbb_running`)
    await query(server.url, 'create database lockstep_tested')
    const run = await startPostgresForTests({ databaseUrl: server.url, dockerHost: undefined })
    expect(await databases(server.url)).toEqual([
      expect.stringMatching(/_bbbbbb_running$/),
      'lockstep_tested',
    ])
    await createTestDatabase({ template, templateKey: 'run' })
    expect(await databases(server.url)).toHaveLength(4)
    await run.stop()
    expect(await databases(server.url)).toEqual([
      expect.stringMatching(/_bbbbbb_running$/),
      'lockstep_tested',
    ])
  } finally {
    process.env = saved
    await server.stop()
  }
})

test('a temporary server and its folder go with the process that is killed', async () => {
  const code = `
    import { startTemporaryPostgres } from '@lockstep/store'
    console.log(JSON.stringify(await startTemporaryPostgres()))
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit').then(() => Promise.reject(new Error('it ended without a word')))
  const [line] = await Promise.race([once(child.stdout, 'data'), ended])
  ended.catch(() => {})
  const server = JSON.parse(String(line)) as { home: string; pid: number }
  expect(existsSync(server.home)).toBe(true)
  child.kill('SIGKILL')
  const isLeft = () => existsSync(server.home) || existsSync(`/proc/${server.pid}/exe`)
  for (const deadline = Date.now() + 60_000; isLeft() && Date.now() < deadline; ) await sleep(50)
  expect(isLeft()).toBe(false)
})

test('a Docker engine that answers but gives no container is no reason to stop', async () => {
  const engine = createServer((request, response) => {
    response.writeHead(request.url === '/_ping' ? 200 : 500).end('{"message":"no containers today"}')
  }).listen(0, '127.0.0.1')
  await once(engine, 'listening')
  const saved = { ...process.env }
  const dockerHost = `tcp://127.0.0.1:${(engine.address() as AddressInfo).port}`
  process.env.DOCKER_HOST = dockerHost // testcontainers reads it there
  try {
    const run = await startPostgresForTests({ databaseUrl: undefined, dockerHost })
    expect(run.description).toMatch(/^embedded 18\S* \(a container could not be started: /)
    expect(await query(run.adminUrl, 'select 1')).toEqual([1])
    await run.stop()
  } finally {
    process.env = saved
    engine.close()
    engine.closeAllConnections()
  }
})

const binDir15 = await findSystemPostgres(15)

test.runIf(binDir15 !== null)(
  'PostgreSQL 15 of this machine, for what must work on all versions',
  async () => {
    const server = await startSystemPostgres({ major: 15 })
    expect(server?.version).toMatch(/^15\./)
    const adminUrl = server?.url ?? ''
    const database = await createTestDatabase({ template, templateKey: 'fifteen', adminUrl })
    expect(await query(database.url, 'show server_version_num')).toEqual([expect.stringMatching(/^15/)])
    await server?.stop()
    expect(existsSync(server?.home ?? '/')).toBe(false)
  },
)
