import { readFileSync } from 'node:fs'
import { type Program, waitUntil } from '@lockstep/testkit'

/** A line of a program's log. */
export interface LogLine {
  readonly msg: string
  readonly level: string
  readonly chain?: string
  readonly [field: string]: unknown
}

export const logOf = (program: Program): LogLine[] =>
  program.stdout.split('\n').flatMap((line) => {
    try {
      return [JSON.parse(line) as LogLine]
    } catch {
      return [] // half a line, or not a log line
    }
  })

/** The worker process of a chain that `lockstep start` started last. */
export async function workerPid(start: Program, chain: string, not?: number): Promise<number> {
  return waitUntil(`a worker of ${chain}`, () => {
    const pid = logOf(start)
      .filter((line) => line.msg === 'worker was started' && line.chain === chain)
      .at(-1)?.workerPid
    return typeof pid === 'number' && pid !== not ? pid : null
  })
}

/** Whether the process runs. One that has ended and that nobody has waited for yet does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return process.platform !== 'linux' // there it has ended between the two looks
  }
}

export const gone = (pid: number): Promise<unknown> =>
  waitUntil(`the end of process ${pid}`, () => !isAlive(pid))

/**
 * Wakes a process that freezes itself at a step (`LOCKSTEP_FAULT=stop@…`), each time that it reaches it, until `work`
 * is done. Again and again, since a signal that comes just before it sleeps wakes nobody.
 */
export async function keepAwake<T>(program: Program, work: Promise<T>): Promise<T> {
  const timer = setInterval(() => program.kill('SIGCONT'), 200)
  return work.finally(() => clearInterval(timer))
}
