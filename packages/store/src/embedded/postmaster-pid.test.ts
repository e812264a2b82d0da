import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { clearStalePidFile, parsePostmasterPid, readLivePostmaster } from './postmaster-pid.js'

let dataDir: string
const file = () => join(dataDir, 'postmaster.pid')
const lines = (pid: number, folder = dataDir) =>
  `${pid}\n${folder}\n1700000000\n5433\n\n127.0.0.1\n  1234  5\nready   \n`

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'lockstep-pid-'))
})
afterEach(() => rm(dataDir, { recursive: true }))

test('a whole file is read', () => {
  expect(parsePostmasterPid(lines(42, '/data'))).toMatchObject({
    pid: 42,
    dataDir: '/data',
    port: 5433,
    ready: true,
  })
})

test('a server that has not come so far has no port, or is not ready', () => {
  expect(parsePostmasterPid('42\n/data\n1700000000\n')).toMatchObject({ pid: 42, port: null, ready: false })
  expect(parsePostmasterPid(lines(42).replace('ready   ', 'starting'))).toMatchObject({ ready: false })
  expect(parsePostmasterPid('-42\n/data\n1700000000\n0\n')).toMatchObject({ pid: 42, port: null })
  expect(parsePostmasterPid('')).toBeNull()
})

test('no file, no server', async () => {
  expect(await readLivePostmaster(dataDir)).toBeNull()
})

test('a pid that another program has by now is no server, and its file is cleared away', async () => {
  await writeFile(file(), lines(process.pid))
  expect(await readLivePostmaster(dataDir)).toBeNull()
  await clearStalePidFile(dataDir)
  expect(await readdir(dataDir)).toEqual([])
})

test('a program called postgres that works on another folder is no server of this one', async () => {
  const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { argv0: 'postgres' })
  await once(other, 'spawn')
  try {
    await writeFile(file(), lines(other.pid ?? 0))
    expect(await readLivePostmaster(dataDir)).toBeNull()
  } finally {
    other.kill('SIGKILL')
  }
})

test('a postgres on this folder is the server, and keeps its file', async () => {
  const args = ['-e', 'setInterval(() => {}, 1000)', '--', '-D', dataDir]
  const server = spawn(process.execPath, args, { argv0: '/usr/bin/postgres' })
  await once(server, 'spawn')
  try {
    await writeFile(file(), lines(server.pid ?? 0))
    expect(await readLivePostmaster(dataDir)).toMatchObject({ pid: server.pid, port: 5433, ready: true })
    await clearStalePidFile(dataDir)
    expect(await readFile(file(), 'utf8')).toBe(lines(server.pid ?? 0))
  } finally {
    server.kill('SIGKILL')
  }
})

test('a pid that is gone is left to PostgreSQL, which then looks for remains of that server', async () => {
  const gone = spawn(process.execPath, ['-e', ''])
  await once(gone, 'exit')
  await writeFile(file(), lines(gone.pid ?? 0))
  expect(await readLivePostmaster(dataDir)).toBeNull()
  await clearStalePidFile(dataDir)
  expect(await readdir(dataDir)).toEqual(['postmaster.pid'])
})

test('an empty file is of a server that starts, or, when old, of a power cut', async () => {
  await writeFile(file(), '')
  await clearStalePidFile(dataDir)
  expect(await readdir(dataDir)).toEqual(['postmaster.pid'])
  await utimes(file(), 1_700_000_000, 1_700_000_000)
  await clearStalePidFile(dataDir)
  expect(await readdir(dataDir)).toEqual([])
})
