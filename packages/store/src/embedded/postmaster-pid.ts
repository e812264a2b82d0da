import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { link, readFile, readlink, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'

/**
 * `postmaster.pid` in the data folder is how processes that know only the folder find the server, and PostgreSQL's
 * own guard that one server at a time works on it. It outlives a crash, and its pid may by then belong to another
 * program; PostgreSQL would refuse to start for as long as that one runs. So a pid counts as the server's only
 * where the process with that number is a PostgreSQL working on that folder.
 */
export interface PostmasterPid {
  readonly pid: number
  /** As the server was told it. */
  readonly dataDir: string
  /** Null until the server has opened its port. */
  readonly port: number | null
  /** Written by the server when it accepts connections. */
  readonly ready: boolean
  /** The file as it was read. */
  readonly text: string
}

const pidFile = (dataDir: string): string => join(dataDir, 'postmaster.pid')

/** Null: no such file, or one that is still being written. */
export async function readPostmasterPid(dataDir: string): Promise<PostmasterPid | null> {
  try {
    return parsePostmasterPid(await readFile(pidFile(dataDir), 'utf8'))
  } catch (error) {
    if (isCode(error, 'ENOENT') || isCode(error, 'ENOTDIR')) return null
    throw error
  }
}

/** The lines, by PostgreSQL's `pidfile.h`: pid, data folder, start time, port, socket folder, address, shmem, status. */
export function parsePostmasterPid(text: string): PostmasterPid | null {
  const [pid, dataDir, , port, , , , status] = text.split('\n')
  // A single-user server writes its pid with a minus sign: it has no port and cannot be talked to.
  if (pid === undefined || dataDir === undefined || !/^-?\d+$/.test(pid)) return null
  return {
    pid: Math.abs(Number(pid)),
    dataDir,
    port: port !== undefined && /^\d+$/.test(port) && port !== '0' ? Number(port) : null,
    ready: status?.trim() === 'ready',
    text,
  }
}

/** The server that works on this data folder now, ready or not; null where none does. */
export async function readLivePostmaster(dataDir: string): Promise<PostmasterPid | null> {
  const entry = await readPostmasterPid(dataDir)
  return entry !== null && (await isPostmaster(entry)) ? entry : null
}

export async function isPostmaster(entry: PostmasterPid): Promise<boolean> {
  if (!pidExists(entry.pid)) return false
  const command = await commandLine(entry.pid)
  if (command === 'unknown') return true // not knowing, the guard is left in place
  const [program = '', ...args] = command
  if (!/^(postgres|postmaster)\b/.test(basename(program))) return false
  return args.includes(entry.dataDir) || (await workingFolder(entry.pid)) === entry.dataDir
}

/** Also true for processes of others (EPERM), and for zombies, whose command line is empty. */
export function pidExists(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return isCode(error, 'EPERM')
  }
}

async function commandLine(pid: number): Promise<readonly string[] | 'unknown'> {
  if (process.platform === 'linux') {
    // Readable for everybody; where a hardened /proc hides it, it is not a process of ours.
    const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    return text.split('\0')
  }
  try {
    const { stdout } = await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)])
    return stdout.trim().split(/\s+/)
  } catch {
    return 'unknown'
  }
}

const workingFolder = (pid: number): Promise<string | null> => readlink(`/proc/${pid}/cwd`).catch(() => null)

/** PostgreSQL writes the file right after it made it; one that is empty for longer is the rest of a power cut. */
const WRITING_MS = 10_000

/**
 * Takes away a `postmaster.pid` that PostgreSQL would respect for no reason: its pid belongs to another program by
 * now, or it is empty. One whose pid is gone is left to PostgreSQL, which then also looks for remains of its server.
 * The caller has seen that no server is live.
 */
export async function clearStalePidFile(dataDir: string): Promise<void> {
  const file = pidFile(dataDir)
  const status = await stat(file).catch(() => null)
  if (status === null) return
  const text = await readFile(file, 'utf8').catch(() => '')
  const entry = parsePostmasterPid(text)
  const stale =
    entry === null
      ? Date.now() - status.mtimeMs > WRITING_MS
      : pidExists(entry.pid) && !(await isPostmaster(entry))
  if (stale) await removeIfStill(file, text)
}

/**
 * Moved, looked at, and put back where a new server has meanwhile written its own: a plain delete could hit that
 * one, and a server that misses its file shuts down.
 */
async function removeIfStill(file: string, judged: string): Promise<void> {
  const aside = `${file}.stale-${randomBytes(4).toString('hex')}`
  try {
    await rename(file, aside)
    if ((await readFile(aside, 'utf8')) !== judged) await link(aside, file)
    await rm(aside, { force: true })
  } catch (error) {
    if (!isCode(error, 'ENOENT')) throw error // another process moved it first
  }
}

export const isCode = (error: unknown, code: string): boolean =>
  error instanceof Error && (error as NodeJS.ErrnoException).code === code
