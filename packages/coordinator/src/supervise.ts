import { type ChildProcess, fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ChainKey, describeError } from '@lockstep/domain'
import { type Database, surrenderLeasesOf } from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'

export interface WorkerCommand {
  /** The program's entry file, run with this Node. */
  readonly entry: string
  /** Its words for one chain. */
  readonly args: (chain: ChainKey) => readonly string[]
  readonly env: NodeJS.ProcessEnv
}

export interface SuperviseOptions {
  readonly command: WorkerCommand
  readonly db: Database
  readonly logger: Logger
  /** How long a worker may take to finish its batch and leave. */
  readonly graceMs: number
  /** Aborts where workers are ended at once: whoever aborts it may be gone in the next moment. */
  readonly now: AbortSignal
}

const FIRST_DELAY_MS = 500
const DELAY_MS_MAX = 60_000
/** A worker that ran this long before it ended was sound: its next start is quick again. */
const SOUND_MS = 60_000

/**
 * Keeps one worker *process* of a chain running until `stop` aborts: a crashed one is started again with growing
 * delay. Nothing that happens to one chain's process touches another's.
 */
export async function superviseWorker(
  chain: ChainKey,
  options: SuperviseOptions,
  stop: AbortSignal,
): Promise<void> {
  const logger = options.logger.child({ chain })
  let failures = 0
  while (!stop.aborted) {
    const startedAt = Date.now()
    const holder = randomUUID()
    const child = startProcess(chain, holder, options.command)
    logger.info({ workerPid: child.pid ?? null }, 'worker was started')
    const end = await whenEnded(child, options, stop)
    await releaseLeases(options.db, holder, logger)
    if (stop.aborted) {
      logger.info({ ...end }, 'worker was stopped')
      return
    }
    failures = Date.now() - startedAt > SOUND_MS ? 1 : failures + 1
    const delayMs = Math.min(DELAY_MS_MAX, FIRST_DELAY_MS * 2 ** (failures - 1))
    logger.error({ ...end, delayMs }, 'worker ended unexpectedly and is started again')
    await sleep(delayMs, undefined, { signal: stop }).catch(() => {})
  }
}

function startProcess(chain: ChainKey, holder: string, command: WorkerCommand): ChildProcess {
  // The channel tells the worker when this process is gone: it then stops by itself, however this one ended.
  return fork(command.entry, [...command.args(chain)], {
    env: { ...command.env, LOCKSTEP_HOLDER: holder },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    detached: true, // Ctrl-C at the terminal reaches this process alone, which asks its workers to leave
  })
}

interface ProcessEnd {
  readonly code: number | null
  readonly signal: string | null
  readonly reason: string | null
}

function whenEnded(
  child: ChildProcess,
  { graceMs, now }: SuperviseOptions,
  stop: AbortSignal,
): Promise<ProcessEnd> {
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined
    const kill = (): void => void child.kill('SIGKILL')
    const end = (): void => {
      child.kill('SIGTERM')
      timer = setTimeout(kill, graceMs)
    }
    const done = (code: number | null, signal: string | null, reason: string | null): void => {
      clearTimeout(timer)
      stop.removeEventListener('abort', end)
      now.removeEventListener('abort', kill)
      resolve({ code, signal, reason })
    }
    now.addEventListener('abort', kill, { once: true })
    child.once('exit', (code, signal) => done(code, signal, null))
    child.once('error', (error) => done(null, null, describeError(error))) // could not be started at all
    if (stop.aborted) end()
    else stop.addEventListener('abort', end, { once: true })
  })
}

/** The process is known to be gone, so its lease need not be waited for. */
async function releaseLeases(db: Database, holder: string, logger: Logger): Promise<void> {
  try {
    await surrenderLeasesOf(db, holder)
  } catch (error) {
    logger.debug({ err: error }, 'lease of an ended worker could not be given back; it ends by itself')
  }
}
