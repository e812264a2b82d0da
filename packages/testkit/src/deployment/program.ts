import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

export interface ProgramCommand {
  /** The program's entry file, run with this Node. */
  readonly entry: string
  readonly args: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  readonly cwd?: string
  /** Sees each line of output as it comes. */
  readonly onLine?: (line: string) => void
}

export interface ProgramResult {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * A real process of a program under test. It has a channel to us, so that a program that watches for the end of its
 * parent leaves when we are killed.
 */
export class Program {
  #stdout = ''
  #stderr = ''
  readonly #child: ChildProcess
  readonly #ended: Promise<ProgramResult>
  #result: ProgramResult | null = null

  constructor(command: ProgramCommand) {
    this.#child = fork(command.entry, [...command.args], {
      silent: true,
      execArgv: [], // not the loaders of whoever runs the test: a process would need twice as long to start
      env: { ...process.env, ...command.env },
      ...(command.cwd !== undefined && { cwd: command.cwd }),
    })
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text
      for (const line of text.split('\n').filter((each) => each !== '')) command.onLine?.(line)
    })
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    this.#ended = once(this.#child, 'close').then(([code, signal]) => {
      this.#result = { code, signal, stdout: this.#stdout, stderr: this.#stderr }
      return this.#result
    })
  }

  get pid(): number {
    return this.#child.pid as number // fork either gives one or throws
  }

  get stdout(): string {
    return this.#stdout
  }

  get stderr(): string {
    return this.#stderr
  }

  /** Null while it runs. */
  get result(): ProgramResult | null {
    return this.#result
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  ended(): Promise<ProgramResult> {
    return this.#ended
  }

  /** Asks it to leave, and ends it where it does not. */
  async stop(graceMs = 30_000): Promise<ProgramResult> {
    this.#child.kill('SIGCONT') // one that a test froze cannot leave
    this.#child.kill('SIGTERM')
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), graceMs)
    const result = await this.#ended
    clearTimeout(timer)
    return result
  }

  /** @throws Error with the output where the program ends, or takes too long, without having said it */
  async said(pattern: RegExp, timeoutMs = 60_000): Promise<RegExpExecArray> {
    const deadline = Date.now() + timeoutMs
    for (;;) {
      const match = pattern.exec(this.#stdout)
      if (match) return match
      if (this.#result !== null || Date.now() > deadline) {
        throw new Error(
          `the program never said ${pattern}:\n${this.#stdout.slice(-4000)}\n${this.#stderr.slice(-2000)}`,
        )
      }
      await sleep(20)
    }
  }
}

/** Runs a program to its end. */
export const runProgram = (command: ProgramCommand): Promise<ProgramResult> => new Program(command).ended()
