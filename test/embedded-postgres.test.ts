/**
 * Goal: the embedded PostgreSQL starts again after whatever happened to it, serves one project to many processes, and
 * leaves no process and no temporary folder behind. Method: real servers in temporary projects, started by this
 * process or by others that are killed with -9.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describeError } from '@lockstep/domain'
import { type EmbeddedPostgres, findEmbeddedPostgres, startEmbeddedPostgres } from '@lockstep/store'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'

const weAreRoot = process.getuid?.() === 0
const repository = fileURLToPath(new URL('..', import.meta.url))

let project: string
const home = () => join(project, '.lockstep', 'pg')
const started: EmbeddedPostgres[] = []
const processes: ChildProcess[] = []

beforeEach(async () => {
  project = await mkdtemp(join(tmpdir(), 'lockstep-project-'))
  await chmod(project, 0o755)
})

afterEach(async () => {
  for (const each of processes.splice(0)) each.kill('SIGKILL')
  for (const each of started.splice(0).reverse()) await each.stop()
  await waitUntil('no server is left', async () => (await findEmbeddedPostgres(project)).down)
  await rm(project, { recursive: true, force: true, maxRetries: 5 })
})

async function start(options: { port?: number; fast?: boolean } = {}): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ projectDir: project, fast: true, ...options })
  started.push(server)
  return server
}

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

async function waitUntil(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 60_000; !(await isSo()); await sleep(50)) {
    if (Date.now() > deadline) throw new Error(`waited in vain until ${what}`)
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Another process that runs `code` with the built packages, and writes one line of JSON. */
function otherProcess(code: string): ChildProcess {
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    cwd: repository,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  processes.push(child)
  return child
}

async function firstLine<T>(child: ChildProcess): Promise<T> {
  const ended = once(child, 'exit').then(() => {
    throw new Error('the other process ended without a word')
  })
  const [chunk] = await Promise.race([once(child.stdout ?? child, 'data'), ended])
  return JSON.parse(String(chunk)) as T
}

const startInOther = (): ChildProcess =>
  otherProcess(`
    import { startEmbeddedPostgres } from '@lockstep/store'
    const server = await startEmbeddedPostgres({ projectDir: ${JSON.stringify(project)}, fast: true })
    console.log(JSON.stringify(server))
    setInterval(() => {}, 1000)`)

const errorOf = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'no error',
    (error: unknown) => describeError(error).replaceAll(project, '<project>'),
  )

test('it is made, found by others, stopped, and keeps its data for the next start', async () => {
  const dataDir = join(home(), 'data')
  expect(await findEmbeddedPostgres(project)).toEqual({ down: true, dataDir, exists: false })

  const first = await start({ fast: false })
  expect(first).toMatchObject({ dataDir, adopted: false })
  expect(await findEmbeddedPostgres(project)).toEqual({
    down: false,
    url: first.url,
    dataDir,
    pid: first.pid,
  })
  await query(first.url, 'create table kept as select 42 as answer')
  await first.stop()
  expect(await findEmbeddedPostgres(project)).toEqual({ down: true, dataDir, exists: true })

  const second = await start()
  expect(await query(second.url, 'select answer from kept')).toEqual([42])
})

test('its settings: safe against crashes unless told otherwise, UTC, UTF8, loopback with a password', async () => {
  const safe = await start({ fast: false })
  const settings = `select current_setting(name) from unnest(array['fsync', 'synchronous_commit', 'full_page_writes',
    'TimeZone', 'server_encoding', 'max_connections', 'listen_addresses', 'unix_socket_directories']) name`
  const [fsync, commits, pages, ...others] = await query(safe.url, settings)
  expect([fsync, commits, pages]).toEqual(['on', 'on', 'on'])
  expect(others).toEqual(['UTC', 'UTF8', '200', '127.0.0.1', ''])
  expect(
    await query(safe.url, 'select datname, datctype from pg_database where datname = current_database()'),
  ).toEqual(['lockstep', expect.stringMatching(/^C(\.UTF-8)?$/)])

  const wrong = new URL(safe.url)
  wrong.password = 'guessed'
  await expect(query(wrong.href, 'select 1')).rejects.toMatchObject({ code: '28P01' })
  expect((await stat(join(home(), 'password'))).mode & 0o777).toBe(0o600)

  await safe.stop()
  const fast = await start({ fast: true })
  expect((await query(fast.url, settings)).slice(0, 3)).toEqual(['off', 'off', 'off'])
})

test('a second start adopts the running server, and leaves it running when it stops', async () => {
  const owner = await start()
  const guest = await start()
  expect(guest).toMatchObject({ adopted: true, pid: owner.pid, url: owner.url })
  await guest.stop()
  expect(await query(owner.url, 'select 1')).toEqual([1])
})

test('of processes that start in the same moment on a new project one starts it and the others adopt it', async () => {
  const starts = await Promise.all(
    [startInOther(), startInOther(), startInOther()].map((each) => firstLine<EmbeddedPostgres>(each)),
  )
  expect(starts.map(({ adopted }) => adopted).sort()).toEqual([false, true, true])
  expect(new Set(starts.map(({ url, pid }) => `${url} ${pid}`)).size).toBe(1)
  for (const { url } of starts) expect(await query(url, 'select 1')).toEqual([1])
  const copyOfPrograms = /^postgresql-/ // where the server's user cannot enter this repository
  const names = (await readdir(home())).filter((name) => !copyOfPrograms.test(name))
  expect(names).toEqual(['data', 'password', 'server.log'])
})

test('a process that is killed leaves no server behind', async () => {
  const other = startInOther()
  const { pid, url } = await firstLine<EmbeddedPostgres>(other)
  expect(await query(url, 'select 1')).toEqual([1])
  other.kill('SIGKILL')
  await waitUntil('the server is gone', () => !isAlive(pid))
  await start()
})

test('a server that is killed starts again with what was committed', async () => {
  const first = await start({ fast: false })
  await query(first.url, 'create table kept as select 42 as answer')
  process.kill(first.pid, 'SIGKILL')
  const second = await start({ fast: false })
  expect(second).toMatchObject({ adopted: false })
  expect(await query(second.url, 'select answer from kept')).toEqual([42])
})

test('a pid file whose pid another program has by now does not stop the start', async () => {
  const first = await start()
  const pidFile = join(first.dataDir, 'postmaster.pid')
  const text = await readFile(pidFile, 'utf8')
  await first.stop()
  // As the server's user sees it, a running program of its own: PostgreSQL by itself would refuse.
  const { uid, gid } = await stat(first.dataDir)
  const squatter = spawn('sleep', ['600'], { cwd: '/', ...(weAreRoot ? { uid, gid } : {}) })
  processes.push(squatter)
  await writeFile(pidFile, text.replace(/^\d+/, String(squatter.pid)))
  expect((await findEmbeddedPostgres(project)).down).toBe(true)
  expect(await query((await start()).url, 'select 1')).toEqual([1])
})

test('a process that is killed while it makes the data folder leaves nothing that the next start trips over', async () => {
  const other = startInOther()
  const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])
  await waitUntil('the data folder is being made', async () => {
    const room = (await namesIn(home())).find((name) => name.startsWith('data.new-'))
    return room !== undefined && (await namesIn(join(home(), room, 'whole'))).includes('base')
  })
  other.kill('SIGKILL')
  await once(other, 'exit')
  expect(await readdir(home())).not.toContain('data')
  expect(await query((await start()).url, 'select 1')).toEqual([1])
  await waitUntil('its half of a data folder is gone', async () => {
    return (await readdir(home())).every((name) => !name.startsWith('data.new-'))
  })
})

test('a port that is taken is named', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const address = taken.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  try {
    expect((await errorOf(start({ port }))).replaceAll(String(port), '<port>')).toMatchInlineSnapshot(`
      "The database at <project>/.lockstep/pg (embedded PostgreSQL) cannot be used: port <port> is taken by another program.
      Hint: Choose another port. Or set DATABASE_URL to a PostgreSQL of your own."
    `)
  } finally {
    taken.close()
  }
  const free = await start({ port })
  expect(new URL(free.url).port).toBe(String(port))
})

test('data of another major version are refused, and not touched', async () => {
  const first = await start()
  await first.stop()
  await writeFile(join(first.dataDir, 'PG_VERSION'), '14\n')
  expect((await errorOf(start())).replace(/PostgreSQL 18\.\d+/, 'PostgreSQL 18.x')).toMatchInlineSnapshot(`
    "The database at <project>/.lockstep/pg (embedded PostgreSQL) cannot be used: its data are of PostgreSQL 14, and this Lockstep brings PostgreSQL 18.x.
    Hint: Move <project>/.lockstep/pg/data away and let Lockstep index again, or set DATABASE_URL to a PostgreSQL 14 that serves those data."
  `)
})

test('a server that cannot start says why in its own words', async () => {
  const first = await start()
  await first.stop()
  await writeFile(join(first.dataDir, 'postgresql.auto.conf'), "shared_buffers = 'plenty'\n")
  expect((await errorOf(start())).replace(/\d{4}-\S+ \S+ UTC \[\d+\]/g, '<time>')).toMatchInlineSnapshot(`
    "The database at <project>/.lockstep/pg (embedded PostgreSQL) cannot be used: its server ended while starting: exit code 1
    <time> LOG:  invalid value for parameter "shared_buffers": "plenty"
    <time> FATAL:  configuration file "<project>/.lockstep/pg/data/postgresql.auto.conf" contains errors
    Hint: The server's whole log is <project>/.lockstep/pg/server.log. Or set DATABASE_URL to a PostgreSQL of your own."
  `)
})

test('a password file that does not belong to the data is an error, and leaves no server', async () => {
  const first = await start()
  await first.stop()
  await writeFile(join(home(), 'password'), 'another')
  expect(await errorOf(start())).toMatchInlineSnapshot(`
    "The database at <project>/.lockstep/pg (embedded PostgreSQL) cannot be used: its server refused us: password authentication failed for user "lockstep".
    Hint: If <project>/.lockstep/pg/password is not the one that the data were made with, put that one back."
  `)
  expect((await findEmbeddedPostgres(project)).down).toBe(true)
})

test.runIf(weAreRoot)(
  'as root, in a project that the server cannot enter, it lives elsewhere and stays there',
  async () => {
    await chmod(project, 0o700)
    const first = await start()
    const elsewhere = join(first.dataDir, '..')
    try {
      expect(first.dataDir).not.toContain(`${project}/`)
      await query(first.url, 'create table kept as select 42 as answer')
      await first.stop()
      expect(await readdir(project)).toEqual([])
      await chmod(project, 0o755) // now it could live in the project, but its data are where they are
      const second = await start()
      expect(second.dataDir).toBe(first.dataDir)
      expect(await query(second.url, 'select answer from kept')).toEqual([42])
      expect(await findEmbeddedPostgres(project)).toMatchObject({ down: false, url: second.url })
      await second.stop()
    } finally {
      await rm(elsewhere, { recursive: true, force: true })
      await rmdir(join(elsewhere, '..')).catch(() => {}) // where no other project is in it
    }
  },
)

test.runIf(!weAreRoot)('a project where we cannot write is an error that names it', async () => {
  await chmod(project, 0o500)
  expect(await errorOf(start())).toContain('<project>/.lockstep/pg')
  await chmod(project, 0o755)
})
