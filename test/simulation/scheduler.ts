import { createHash } from 'node:crypto'
import type pg from 'pg'
import { LockWaits } from './lock-waits.js'
import { describe, labelOf, type Operation, Operations, type Outcome, Wait } from './operation.js'
import type { Random } from './random.js'
import { drain } from './real-time.js'
import { type Committed, SessionBook } from './session-book.js'
import { outside, type SimulatedProcess } from './simulated-process.js'
import type { RealConnection, SimulatedServer } from './simulated-server.js'
import { answerLost, connectionLost, type SimulatedSession, type Statement } from './simulated-session.js'
import { Speeds } from './speeds.js'
import { TimeOuts } from './time-outs.js'
import { START, type Timer, VirtualClock } from './virtual-clock.js'

/*
 * One scheduler for all that happens: it lets exactly one statement (or question to a node) go, waits until it has
 * ended or is proved to wait for a lock, hands the answers out in a fixed order, lets the processes run until each
 * waits again, and only then chooses what comes next. So the choices, which depend on the seed alone, decide the whole
 * run, though PostgreSQL, its locks and its snapshots are real.
 */

/** What a statement or a question to a node takes. */
const STEP_MS = 0.5

export interface SchedulerHooks {
  /** After each commit, before anybody else goes on. */
  readonly committed: (commit: Committed) => Promise<void>
  /** A deadlock: the protocol's lock order rules it out. */
  readonly deadlocked: (labels: readonly string[]) => void
}

export class Scheduler {
  readonly epoch = START
  readonly trace: string[] = []
  readonly book: SessionBook
  readonly speeds: Speeds
  readonly #hash = createHash('sha256')
  readonly #clock = new VirtualClock()
  readonly #operations = new Operations()
  readonly #waits: LockWaits
  readonly #timeOuts: TimeOuts
  readonly #connecting: { process: SimulatedProcess; give: (connection: RealConnection) => void }[] = []
  /** Sessions of dead processes in which a statement still waits for a lock. */
  readonly #orphans = new Set<SimulatedSession>()
  readonly #sessions = new Set<SimulatedSession>()

  constructor(
    readonly server: SimulatedServer,
    readonly random: Random,
    readonly hooks: SchedulerHooks,
  ) {
    this.speeds = new Speeds(random)
    this.book = new SessionBook(this.#clock, random)
    this.#waits = new LockWaits(server, this.#clock, this.#operations, hooks.deadlocked)
    this.#timeOuts = new TimeOuts(server, this.#clock, this.#operations, this.#waits, (session) => {
      this.log(`${session.process.name}  session idled too long and was ended`)
      return this.#endSession(session, connectionLost('25P03'))
    })
  }

  get now(): number {
    return this.#clock.now
  }

  get digest(): string {
    return this.#hash.copy().digest('hex').slice(0, 16)
  }

  log(line: string): void {
    const text = `${(this.now - START).toFixed(1).padStart(9)}  ${line}`
    this.trace.push(text)
    this.#hash.update(text)
  }

  // ---- what processes ask for -----------------------------------------------------------------------------------

  /** A connection to the server. Handed out one after the other: how long connecting really takes decides nothing. */
  connection(process: SimulatedProcess): Promise<RealConnection> {
    return new Promise((resolve) => this.#connecting.push({ process, give: resolve }))
  }

  statement(session: SimulatedSession, statement: Statement): Promise<unknown> {
    session.idleSince ??= session.began === null ? null : this.now
    this.#sessions.add(session)
    return new Promise((resolve, reject) => {
      this.#operations.add({
        process: session.process,
        label: labelOf(statement.text),
        session,
        statement,
        perform: () => this.#send(session, statement),
        answer: (outcome) => ('error' in outcome ? reject(outcome.error) : resolve(outcome.value)),
      })
    })
  }

  /** Something else that takes a turn: a question to a node, a connection that only listens. */
  call<T>(process: SimulatedProcess, label: string, work: () => T | Wait, signal?: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const abort = () => {
        if (this.#operations.delete(operation)) reject(signal?.reason)
      }
      const operation = this.#operations.add({
        process,
        label,
        session: null,
        statement: null,
        perform: async () => work(),
        answer: (outcome) => {
          signal?.removeEventListener('abort', abort)
          if ('error' in outcome) reject(outcome.error)
          else resolve(outcome.value as T)
        },
      })
      signal?.addEventListener('abort', abort, { once: true })
    })
  }

  after(process: SimulatedProcess | null, ms: number, work: () => void, repeat = false): Timer {
    return this.#clock.after(process, ms, work, repeat)
  }

  isTimer(timer: unknown): timer is Timer {
    return this.#clock.isTimer(timer)
  }

  // ---- choosing -------------------------------------------------------------------------------------------------

  /** Lets one thing happen, and all that follows from it. False: nothing can, whatever time passes. */
  async step(timeRate: number): Promise<boolean> {
    await this.settle()
    const moved = await this.#choose(timeRate)
    await this.settle()
    return moved
  }

  async #choose(timeRate: number): Promise<boolean> {
    const due = this.#clock.next()
    if (due && due.due <= this.now) {
      this.#clock.fire(due)
      return true
    }
    const ready = this.#ready()
    if (ready.length > 0 && !(due && this.random.chance(timeRate))) {
      await this.#start(this.random.weighted(ready, (each) => this.speeds.of(each.process)) as Operation)
      return true
    }
    const next = this.#nextTime(due)
    if (next === null) return false
    this.#clock.now = Math.max(this.now, next)
    return true
  }

  #ready(): Operation[] {
    return this.#operations.waiting().filter((each) => each.notBefore <= this.now)
  }

  #nextTime(timer: Timer | null): number | null {
    const times = this.#operations.waiting().map((each) => each.notBefore)
    if (timer) times.push(timer.due)
    const later = times.filter((time) => time > this.now)
    return later.length === 0 ? null : Math.min(...later)
  }

  // ---- one statement --------------------------------------------------------------------------------------------

  async #start(operation: Operation): Promise<void> {
    operation.running = true
    this.#clock.now += STEP_MS
    if (operation.session) operation.session.idleSince = null
    const { text } = operation.statement ?? { text: '' }
    const waits = [...this.#operations].some((each) => each.running && each !== operation)
    if (waits || text.includes('clock_timestamp')) await this.server.setClock(this.now)
    if (/pg_stat_activity|pg_locks|pg_blocking_pids/.test(text)) await this.#tellSessions()
    operation.accounted = false
    operation.ended = operation.perform().then(
      (value) => {
        this.#waits.endedBy(text)
        operation.outcome = { value }
      },
      (error: unknown) => {
        this.#waits.released() // an error gives the transaction's locks back at once
        operation.outcome = { error }
      },
    )
  }

  #send(session: SimulatedSession, { text, values }: Statement): Promise<unknown> {
    const { types } = session.pool.config
    return outside(() =>
      session.connection.client.query({ text, ...(values && { values }), ...(types && { types }) }),
    )
  }

  async #tellSessions(): Promise<void> {
    const open = [...this.#sessions].filter((session) => session.lost === null && session.began !== null)
    await this.server.setSessions(open)
  }

  /** Until every statement has ended or waits for a lock, and every process waits for its turn or for time. */
  async settle(): Promise<void> {
    for (;;) {
      await drain()
      await this.server.settled()
      await this.#waits.untilStill()
      if (await this.#handOut()) continue
      if (await this.#connectOne()) continue
      if (await this.#checkCommits()) continue
      this.#timeOuts.limitWaits()
      return
    }
  }

  /** Answers reach the processes in the order in which they asked; a frozen one's wait for it. */
  async #handOut(): Promise<boolean> {
    const ended = this.#operations.ended()
    for (const operation of ended) await this.#accountOnce(operation)
    const heard = ended.filter((each) => !each.process.frozen)
    for (const operation of heard) {
      await this.#answer(operation)
      await drain()
    }
    return heard.length > 0
  }

  async #accountOnce(operation: Operation): Promise<void> {
    const { session, statement, outcome, accounted } = operation
    if (session === null || statement === null || outcome === null || accounted) return
    operation.accounted = true
    operation.timeout?.cancel()
    if (session.lost === null) await this.#account(session, statement, outcome)
    if (this.#orphans.delete(session)) await this.#endSession(session, connectionLost())
  }

  async #answer(operation: Operation): Promise<void> {
    const { session, process } = operation
    const own = operation.outcome as Outcome
    if ('value' in own && own.value instanceof Wait) {
      Object.assign(operation, { notBefore: own.value.until, running: false, outcome: null })
      return
    }
    this.#operations.delete(operation)
    const outcome = session?.lost ? { error: session.lost } : own
    this.log(`${process.name}  ${operation.label} -> ${describe(operation, outcome)}`)
    if (process.alive) process.run(() => operation.answer(outcome))
  }

  /** What the statement has changed about its session. */
  async #account(session: SimulatedSession, statement: Statement, outcome: Outcome): Promise<void> {
    if ('value' in outcome) {
      const result = outcome.value as pg.QueryResult
      this.book.note(session, statement, result)
      if (statement.text.includes('pg_terminate_backend')) await this.#endEnded(statement, result)
    }
    session.idleSince = session.began === null ? null : this.now
    this.#timeOuts.watchIdle(session)
  }

  async #checkCommits(): Promise<boolean> {
    const commits = this.book.takeCommits()
    for (const commit of commits) await this.hooks.committed(commit)
    return commits.length > 0
  }

  async #connectOne(): Promise<boolean> {
    const next = this.#connecting.shift()
    if (next === undefined) return false
    if (!next.process.alive) return true
    const connection = await this.server.acquire()
    next.process.run(() => next.give(connection))
    return true
  }

  // ---- ends -----------------------------------------------------------------------------------------------------

  /** kill -9: idle sessions end at once; one in which a statement waits ends when it has its lock. */
  async kill(process: SimulatedProcess): Promise<void> {
    process.alive = false
    this.#clock.forget(process)
    for (const each of this.book.listening) if (each.process === process) this.book.listening.delete(each)
    for (const operation of this.#operations) {
      if (operation.process !== process) continue
      if (operation.running && operation.outcome === null && operation.session)
        this.#orphans.add(operation.session)
      else this.#operations.delete(operation)
    }
    for (const session of process.sessions)
      if (!this.#orphans.has(session)) await this.#endSession(session, connectionLost())
  }

  /** The server ends a session, also in the middle of a transaction. */
  async cutSession(session: SimulatedSession): Promise<void> {
    await this.#endSession(session, connectionLost())
  }

  /** The session is lost, and what it was last asked to do may have happened: the answer went with it. */
  async cutAnswer(session: SimulatedSession): Promise<void> {
    const operation = [...this.#operations].find((each) => each.session === session && !each.running)
    if (operation === undefined) return this.cutSession(session)
    await this.#start(operation)
    await this.#waits.untilStill()
    await this.#accountOnce(operation)
    await this.#endSession(session, answerLost())
  }

  sessionsOf(process: SimulatedProcess): SimulatedSession[] {
    return [...process.sessions].filter((session) => session.lost === null)
  }

  /** Ends a connection that its process has given up, done before the next statement goes. */
  discard(connection: RealConnection): void {
    this.#waits.released()
    this.server.discardLater(connection)
  }

  async #endSession(session: SimulatedSession, error: Error): Promise<void> {
    if (session.lost !== null) return
    session.lose(error)
    this.#waits.released()
    this.#sessions.delete(session)
    await this.server.discard(session.connection)
    for (const operation of this.#operations) {
      if (operation.session !== session) continue
      operation.running = true
      operation.outcome ??= { error }
    }
  }

  /** The product itself has ended a session. */
  async #endEnded({ values }: Statement, { rows }: pg.QueryResult<{ ended?: boolean }>): Promise<void> {
    if (rows[0]?.ended !== true) return
    const session = [...this.#sessions].find((each) => each.connection.pid === values?.[0])
    if (session) await this.#endSession(session, connectionLost())
  }

  /** Ends all that is left. */
  async close(processes: Iterable<SimulatedProcess>): Promise<void> {
    for (const process of processes) await this.kill(process)
    for (const session of this.#orphans) await this.#endSession(session, connectionLost())
    await this.server.settled()
  }
}
