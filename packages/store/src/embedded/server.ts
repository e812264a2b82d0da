import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile, rename, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LockstepError } from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { asUser, type Binaries } from './binaries.js'
import { serverEnvironment } from './cluster.js'
import type { OsUser } from './os-user.js'
import { unusable } from './place.js'
import {
  clearStalePidFile,
  type PostmasterPid,
  readLivePostmaster,
  readPostmasterPid,
} from './postmaster-pid.js'
import type { Watchdog } from './watchdog.js'

export interface ServerPlan {
  readonly home: string
  readonly dataDir: string
  readonly binaries: Binaries
  readonly user: OsUser | null
  /** 0: any free one. */
  readonly port: number
  readonly fast: boolean
  /** Null: the server may outlive us. */
  readonly watchdog: Watchdog | null
  readonly logger: Logger
}

export interface RunningServer {
  readonly port: number
  readonly pid: number
  /** Null: another process started it. */
  readonly child: ServerChild | null
}

/** Enough for the crash recovery of a busy database; a server that dies is noticed at once. */
const START_TIMEOUT_MS = 300_000
const POLL_MS = 40
/** Between our look and the server's another program can take a port that was free. */
const PORT_TRIES_MAX = 10

/**
 * A server on the data folder: the one that runs there already, or a new one. Processes that start at once need no
 * lock of ours: PostgreSQL lets one server in, and whose server was refused finds the other one and takes that.
 */
export async function runServer(plan: ServerPlan): Promise<RunningServer> {
  const deadlineMs = Date.now() + START_TIMEOUT_MS
  for (let tries = 1; ; tries++) {
    const other = await takeOther(plan, deadlineMs)
    if (other !== null) return other
    await clearStalePidFile(plan.dataDir)
    const port = plan.port === 0 ? await freePort() : plan.port
    const child = await ServerChild.launch(plan, port)
    const failure = await waitUntilReady(plan.dataDir, child, deadlineMs)
    if (failure === null) return { port, pid: child.pid, child }
    const again =
      failure === 'occupied'
        ? Date.now() < deadlineMs
        : failure === 'port taken' && plan.port === 0 && tries < PORT_TRIES_MAX
    if (!again) throw startFailed(plan, port, failure, child)
    if (failure === 'occupied') await sleep(POLL_MS)
  }
}

/** The running server of another process, as soon as it is ready. Null: there is none, or it has just ended. */
async function takeOther(plan: ServerPlan, deadlineMs: number): Promise<RunningServer | null> {
  let reported = false
  for (;;) {
    const live = await readLivePostmaster(plan.dataDir)
    if (live === null) return null
    if (live.ready && live.port !== null) return { port: live.port, pid: live.pid, child: null }
    if (Date.now() > deadlineMs) throw neverReady(plan.home, live)
    if (!reported)
      plan.logger.info({ pid: live.pid, dataDir: plan.dataDir }, 'found a PostgreSQL that is not ready yet')
    reported = true
    await sleep(POLL_MS)
  }
}

function neverReady(home: string, live: PostmasterPid): LockstepError {
  return unusable(
    home,
    `its server (process ${live.pid}) runs, but has accepted no connection for ${START_TIMEOUT_MS / 1000} seconds.`,
    `Read ${logFile(home)}. If it hangs, stop it with "kill -INT ${live.pid}" and start again.`,
  )
}

/** `occupied`: another server works on the folder, or the last pieces of a killed one still do. */
type StartFailure = 'occupied' | 'port taken' | 'ended' | 'too slow'

/** By the `postmaster.pid`, which says `ready`, and not by connections, which any program on that port could accept. */
async function waitUntilReady(
  dataDir: string,
  child: ServerChild,
  deadlineMs: number,
): Promise<StartFailure | null> {
  while (!child.ended) {
    const entry = await readPostmasterPid(dataDir)
    if (entry?.ready && entry.pid === child.pid) return null
    if (Date.now() > deadlineMs) {
      await child.stop()
      await child.said()
      return 'too slow'
    }
    await Promise.race([sleep(POLL_MS), child.exit])
  }
  const said = await child.said()
  if (/lock file "postmaster.pid"|pre-existing shared memory block/.test(said)) return 'occupied'
  return /could not bind|Address already in use/.test(said) ? 'port taken' : 'ended'
}

function startFailed(
  plan: ServerPlan,
  port: number,
  failure: StartFailure,
  child: ServerChild,
): LockstepError {
  const hint = `The server's whole log is ${logFile(plan.home)}. `
  const own = 'Or set DATABASE_URL to a PostgreSQL of your own.'
  switch (failure) {
    case 'port taken':
      return unusable(plan.home, `port ${port} is taken by another program.`, `Choose another port. ${own}`)
    case 'occupied':
      return unusable(plan.home, `another server holds its data.\n${child.lastLines}`, hint + own)
    case 'too slow':
      return unusable(plan.home, `its server was not ready in time.\n${child.lastLines}`, hint + own)
    case 'ended':
      return unusable(
        plan.home,
        `its server ended while starting: ${child.end}\n${child.lastLines}`,
        hint + own,
      )
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  await once(probe, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

const logFile = (home: string): string => join(home, 'server.log')
/** One older log is kept beside the current one. */
const LOG_BYTES_MAX = 5_000_000
const LAST_LINES = 8
/** Fast shutdown waits for a last checkpoint, which slow disks draw out; the immediate one waits for nothing. */
const FAST_STOP_MS = 30_000
const IMMEDIATE_STOP_MS = 10_000

/** A server process that we started. */
export class ServerChild {
  /** Resolves at its end, never rejects. */
  readonly exit: Promise<void>
  /** What it wrote last, read at its end. */
  lastLines = ''
  /** How it ended, in words. */
  end = ''
  ended = false
  readonly #process: ChildProcess
  readonly #log: string
  readonly #logStart: number

  static async launch(plan: ServerPlan, port: number): Promise<ServerChild> {
    const path = logFile(plan.home)
    const bytes = (await stat(path).catch(() => null))?.size ?? 0
    if (bytes > LOG_BYTES_MAX) await rename(path, `${path}.1`)
    // A file, not a pipe to us: a server that is to survive us must not write into a closed pipe.
    const log = await open(path, 'a', 0o600)
    try {
      return new ServerChild(plan, port, path, (await log.stat()).size, log.fd)
    } finally {
      await log.close()
    }
  }

  private constructor(plan: ServerPlan, port: number, log: string, logStart: number, logFd: number) {
    this.#log = log
    this.#logStart = logStart
    this.#process = spawn(join(plan.binaries.binDir, 'postgres'), serverArguments(plan, port), {
      cwd: plan.home,
      env: serverEnvironment(),
      detached: true, // a Ctrl-C at the terminal would stop it before we have finished our last transaction
      stdio: ['ignore', logFd, logFd],
      ...asUser(plan.user),
    })
    if (this.#process.pid !== undefined) plan.watchdog?.watch(this.#process.pid)
    this.#process.unref()
    this.exit = new Promise((resolve) => {
      this.#process.once('error', (error) => this.#finish(error.message, resolve))
      this.#process.once('exit', (code, signal) => this.#finish(signal ?? `exit code ${code}`, resolve))
    })
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  #finish(end: string, resolve: () => void): void {
    this.end = end
    this.ended = true
    resolve()
  }

  /** All that was written to the log since the launch. */
  async said(): Promise<string> {
    const text = (await readFile(this.#log)).subarray(this.#logStart).toString('utf8').trim()
    this.lastLines = text.split('\n').slice(-LAST_LINES).join('\n')
    return text
  }

  /** Lets open transactions roll back and the server write everything down; harder only where that takes too long. */
  async stop(): Promise<void> {
    this.#process.ref() // else our own event loop might end before the server does
    for (const [signal, waitMs] of [
      ['SIGINT', FAST_STOP_MS],
      ['SIGQUIT', IMMEDIATE_STOP_MS],
      ['SIGKILL', IMMEDIATE_STOP_MS],
    ] as const) {
      if (this.ended) break
      this.#process.kill(signal)
      await Promise.race([this.exit, sleep(waitMs, undefined, { ref: false })])
    }
  }
}

function serverArguments(plan: ServerPlan, port: number): string[] {
  const settings = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '', // their paths have a length limit, and nobody needs them
    max_connections: 200,
    timezone: 'UTC',
    log_timezone: 'UTC',
    log_checkpoints: 'off',
    // For data that are thrown away anyway: about three times as fast.
    ...(plan.fast ? { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' } : {}),
  }
  return [
    '-D',
    plan.dataDir,
    ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ]
}
