import { createHash } from 'node:crypto'
import type pg from 'pg'
import type { Random } from './random.js'
import { outside, type SimulatedProcess } from './simulated-process.js'
import type { RealConnection, SimulatedServer } from './simulated-server.js'
import {
  answerLost,
  connectionLost,
  type SimulatedListening,
  type SimulatedSession,
  type Statement,
} from './simulated-session.js'

/*
 * One scheduler for all that happens: it lets exactly one statement (or question to a node) go, waits until it has
 * ended or is proved to wait for a lock, hands the answers out in a fixed order, lets the processes run until each
 * waits again, and only then chooses what comes next. So the choices, which depend on the seed alone, decide the whole
 * run, though PostgreSQL, its locks and its snapshots are real.
 */

/** Virtual time at the start of a run. */
const START = Date.UTC(2030, 0, 1)
/** What a statement or a question to a node takes. */
const STEP_MS = 0.5

export interface Timer {
  readonly due: number
  readonly process: SimulatedProcess | null
  cancel(): void
  unref(): Timer
  ref(): Timer
  hasRef(): boolean
}

interface ScheduledTimer extends Timer {
  due: number
  readonly order: number
  readonly fire: () => void
  readonly everyMs: number | null
}

/** Something a process wants to do that takes its turn. */
interface Operation {
  readonly order: number
  readonly process: SimulatedProcess
  readonly label: string
  readonly session: SimulatedSession | null
  readonly statement: Statement | null
  readonly perform: () => Promise<unknown>
  readonly answer: (outcome: Outcome) => void
  /** Not before this virtual time: a node that hangs. */
  notBefore: number
  running: boolean
  /** Resolves when there is an outcome. */
  ended: Promise<void>
  outcome: Outcome | null
  /** Whether the outcome's effects on the session were noted. */
  accounted: boolean
  /** Since when it waits for a lock. */
  blockedSince: number | null
  timeout: Timer | null
}

type Outcome = { readonly value: unknown } | { readonly error: unknown }

export interface Committed {
  readonly process: SimulatedProcess
  /** Virtual time at which the transaction began. */
  readonly began: number
  readonly statements: readonly Statement[]
}

export interface SchedulerHooks {
  /** After each commit, before anybody else goes on. */
  readonly committed: (commit: Committed) => Promise<void>
  /** A deadlock: the protocol's lock order rules it out. */
  readonly deadlocked: (labels: readonly string[]) => void
}

export class Scheduler {
  readonly epoch = START
  now = START
  /** Probability that a notification never comes. */
  noticeLoss = 0
  readonly listening = new Set<SimulatedListening>()
  readonly trace: string[] = []
  readonly #hash = createHash('sha256')
  readonly #operations = new Set<Operation>()
  readonly #connecting: { process: SimulatedProcess; give: (connection: RealConnection) => void }[] = []
  readonly #timers = new Set<ScheduledTimer>()
  /** Sessions of dead processes in which a statement still waits for a lock. */
  readonly #orphans = new Set<SimulatedSession>()
  readonly #sessions = new Set<SimulatedSession>()
  readonly #weights = new Map<SimulatedProcess, number>()
  #commits: Committed[] = []
  #order = 0
  /** Whether locks may have gone since all statements that are under way were last proved to wait. */
  #released = true

  constructor(
    readonly server: SimulatedServer,
    readonly random: Random,
    readonly hooks: SchedulerHooks,
  ) {}

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
      this.#enqueue({
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
      const operation = this.#enqueue({
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
    const delay = Math.max(ms, 1)
    this.#order += 1
    const timer: ScheduledTimer = {
      due: this.now + delay,
      order: this.#order,
      process,
      everyMs: repeat ? delay : null,
      fire: () => (process ? process.run(work) : outside(work)),
      cancel: () => void this.#timers.delete(timer),
      unref: () => timer,
      ref: () => timer,
      hasRef: () => false,
    }
    this.#timers.add(timer)
    return timer
  }

  isTimer(timer: unknown): timer is Timer {
    return (
      this.#timers.has(timer as ScheduledTimer) ||
      (typeof timer === 'object' && timer !== null && 'everyMs' in timer)
    )
  }

  #enqueue(
    given: Pick<Operation, 'process' | 'label' | 'session' | 'statement' | 'perform' | 'answer'>,
  ): Operation {
    this.#order += 1
    const operation: Operation = {
      ...given,
      order: this.#order,
      notBefore: 0,
      running: false,
      ended: Promise.resolve(),
      outcome: null,
      accounted: false,
      blockedSince: null,
      timeout: null,
    }
    this.#operations.add(operation)
    return operation
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
    const due = this.#nextTimer()
    if (due && due.due <= this.now) {
      this.#fire(due)
      return true
    }
    const ready = this.#ready()
    if (ready.length > 0 && !(due && this.random.chance(timeRate))) {
      await this.#start(this.random.weighted(ready, (each) => this.#weightOf(each.process)) as Operation)
      return true
    }
    const next = this.#nextTime(due)
    if (next === null) return false
    this.now = Math.max(this.now, next)
    return true
  }

  /** Now and then somebody is quick and somebody slow for a while: evenly mixed steps hide races. */
  shuffleSpeeds(processes: readonly SimulatedProcess[]): void {
    for (const process of processes) this.#weights.set(process, this.random.pick([0.02, 0.3, 1, 1, 1, 6]))
  }

  evenSpeeds(): void {
    this.#weights.clear()
  }

  #weightOf(process: SimulatedProcess): number {
    return this.#weights.get(process) ?? 1
  }

  #ready(): Operation[] {
    return [...this.#operations].filter(
      (each) => !each.running && each.process.active && each.notBefore <= this.now,
    )
  }

  #nextTimer(): ScheduledTimer | null {
    let next: ScheduledTimer | null = null
    for (const timer of this.#timers) {
      if (timer.process !== null && !timer.process.active) continue
      if (next === null || timer.due < next.due || (timer.due === next.due && timer.order < next.order))
        next = timer
    }
    return next
  }

  #nextTime(timer: ScheduledTimer | null): number | null {
    const times = [...this.#operations]
      .filter((each) => !each.running && each.process.active)
      .map((each) => each.notBefore)
    if (timer) times.push(timer.due)
    const later = times.filter((time) => time > this.now)
    return later.length === 0 ? null : Math.min(...later)
  }

  #fire(timer: ScheduledTimer): void {
    if (timer.everyMs === null) this.#timers.delete(timer)
    else timer.due = this.now + timer.everyMs
    timer.fire()
  }

  // ---- one statement --------------------------------------------------------------------------------------------

  async #start(operation: Operation): Promise<void> {
    operation.running = true
    this.now += STEP_MS
    if (operation.session) operation.session.idleSince = null
    const { text } = operation.statement ?? { text: '' }
    const waits = [...this.#operations].some((each) => each.running && each !== operation)
    if (waits || text.includes('clock_timestamp')) await this.server.setClock(this.now)
    if (/pg_stat_activity|pg_locks|pg_blocking_pids/.test(text)) await this.#tellSessions()
    operation.accounted = false
    operation.ended = operation.perform().then(
      (value) => {
        this.#released ||= ENDS_WAITS.test(text)
        operation.outcome = { value }
      },
      (error: unknown) => {
        this.#released = true // an error gives the transaction's locks back at once
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
      await this.#untilStill()
      if (await this.#handOut()) continue
      if (await this.#connectOne()) continue
      if (await this.#checkCommits()) continue
      this.#limitWaits()
      return
    }
  }

  async #untilStill(): Promise<void> {
    for (let proofs = 0; ; ) {
      await soon(
        this.#going()
          .filter((each) => each.blockedSince === null)
          .map((each) => each.ended),
      )
      await drain()
      const going = this.#going()
      // Most steps end no transaction, and so end nobody's wait: asking the server again would double a run's time.
      if (!this.#released && going.every((each) => each.blockedSince !== null)) return
      if (going.length === 0) return
      const waits = await this.server.blockers(going.map((each) => each.session?.connection.pid ?? 0))
      await drain()
      const still = going.every((each) => each.outcome === null && isBlocked(each, waits))
      proofs = still ? proofs + 1 : 0
      if (proofs < (going.length > 1 ? 2 : 1)) continue // two looks: the first may have met somebody on the move
      for (const each of going) each.blockedSince ??= this.now
      this.#released = false
      if (!(await this.#breakDeadlock(going, waits))) return
      proofs = 0
    }
  }

  #going(): Operation[] {
    return [...this.#operations].filter((each) => each.running && each.outcome === null)
  }

  /** @returns whether there was one */
  async #breakDeadlock(
    going: readonly Operation[],
    waits: ReadonlyMap<number, readonly number[]>,
  ): Promise<boolean> {
    const pidOf = (each: Operation) => each.session?.connection.pid ?? 0
    const circle = going.filter((start) => reaches(pidOf(start), pidOf(start), waits))
    const victim = circle.sort((a, b) => b.order - a.order)[0]
    if (victim === undefined) return false
    this.hooks.deadlocked(circle.map((each) => `${each.process.name}: ${each.label}`).sort())
    await this.#cancel(victim, '40P01', 'deadlock detected')
    return true
  }

  async #cancel(operation: Operation, code: string, message: string): Promise<void> {
    if (operation.session === null) return
    await this.server.cancel(operation.session.connection.pid)
    await operation.ended
    if (operation.outcome !== null && 'error' in operation.outcome)
      operation.outcome = { error: Object.assign(new Error(message), { code }) }
  }

  /** Answers reach the processes in the order in which they asked; a frozen one's wait for it. */
  async #handOut(): Promise<boolean> {
    const ended = [...this.#operations].filter((each) => each.running && each.outcome !== null)
    ended.sort((a, b) => a.order - b.order)
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
    if ('value' in outcome) await this.#note(session, statement, outcome.value as pg.QueryResult)
    session.idleSince = session.began === null ? null : this.now
    this.#watchIdle(session)
  }

  async #note(session: SimulatedSession, statement: Statement, result: pg.QueryResult): Promise<void> {
    const { text } = statement
    if (text.startsWith('begin')) {
      session.began = this.now
      session.statements = []
      session.notified.clear()
      return
    }
    if (text === 'commit' || text === 'rollback') {
      if (result.command === 'COMMIT') this.#committed(session)
      session.began = null
      return
    }
    session.statements.push(statement)
    if (text.includes('pg_notify')) session.notified.add(String(statement.values?.[0]))
    if (text.includes('pg_terminate_backend')) await this.#endEnded(statement, result)
  }

  #committed(session: SimulatedSession): void {
    const { process, statements, began } = session
    this.#commits.push({ process, statements, began: began ?? this.now })
    for (const channel of session.notified) this.#notify(channel)
  }

  #notify(channel: string): void {
    for (const each of this.listening) {
      if (!each.hears(channel) || this.random.chance(this.noticeLoss)) continue
      this.after(each.process, this.random.pick([1, 1, 5, 50, 400]), () =>
        each.emit('notification', { channel }),
      )
    }
  }

  async #checkCommits(): Promise<boolean> {
    const commits = this.#commits
    this.#commits = []
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

  // ---- the server's time-outs, in virtual time ------------------------------------------------------------------

  #limitWaits(): void {
    for (const operation of this.#operations) {
      const limit = operation.session?.lockTimeoutMs ?? 0
      if (limit === 0 || operation.blockedSince === null || operation.timeout !== null || operation.outcome)
        continue
      operation.timeout = this.after(null, limit, () => {
        this.server.track(this.#cancel(operation, '55P03', 'canceling statement due to lock timeout'))
      })
    }
  }

  #watchIdle(session: SimulatedSession): void {
    const since = session.idleSince
    if (since === null || session.idleTimeoutMs === 0) return
    this.after(null, session.idleTimeoutMs, () => {
      if (session.idleSince !== since || session.lost !== null || session.process.deaf) return
      this.log(`${session.process.name}  session idled too long and was ended`)
      this.server.track(this.#endSession(session, connectionLost('25P03')))
    })
  }

  // ---- ends -----------------------------------------------------------------------------------------------------

  /** kill -9: idle sessions end at once; one in which a statement waits ends when it has its lock. */
  async kill(process: SimulatedProcess): Promise<void> {
    process.alive = false
    for (const timer of this.#timers) if (timer.process === process) this.#timers.delete(timer)
    for (const each of this.listening) if (each.process === process) this.listening.delete(each)
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
    await this.#untilStill()
    await this.#accountOnce(operation)
    await this.#endSession(session, answerLost())
  }

  sessionsOf(process: SimulatedProcess): SimulatedSession[] {
    return [...process.sessions].filter((session) => session.lost === null)
  }

  /** Ends a connection that its process has given up, done before the next statement goes. */
  discard(connection: RealConnection): void {
    this.#released = true
    this.server.discardLater(connection)
  }

  async #endSession(session: SimulatedSession, error: Error): Promise<void> {
    if (session.lost !== null) return
    session.lose(error)
    this.#released = true
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

/** Statements after which others may get their locks. */
const ENDS_WAITS = /^(commit|rollback)|pg_terminate_backend/

/** A node that does not answer before then. */
export class Wait {
  constructor(readonly until: number) {}
}

function isBlocked(operation: Operation, waits: ReadonlyMap<number, readonly number[]>): boolean {
  const pid = operation.session?.connection.pid
  return pid !== undefined && (waits.get(pid)?.length ?? 0) > 0
}

function reaches(from: number, to: number, waits: ReadonlyMap<number, readonly number[]>): boolean {
  const seen = new Set<number>()
  const open = [...(waits.get(from) ?? [])]
  for (let pid = open.pop(); pid !== undefined; pid = open.pop()) {
    if (pid === to) return true
    if (seen.has(pid)) continue
    seen.add(pid)
    open.push(...(waits.get(pid) ?? []))
  }
  return false
}

// ---- real time ----------------------------------------------------------------------------------------------------

const realImmediate = setImmediate
const realTimeout = setTimeout
const realClear = clearTimeout

/** All that is ready to run in this Node process has run. */
export const drain = (): Promise<void> => new Promise((resolve) => realImmediate(resolve))

/** Until all of them have ended, or a moment has passed. */
async function soon(ended: readonly Promise<void>[]): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const moment = new Promise<void>((resolve) => {
    timer = realTimeout(resolve, MOMENT_MS)
  })
  await Promise.race([Promise.all(ended), moment])
  realClear(timer)
}

/** Real milliseconds after which a statement is asked whether it waits for a lock: most have ended by then. */
const MOMENT_MS = 3

// ---- the trace ----------------------------------------------------------------------------------------------------

function labelOf(text: string): string {
  if (text.startsWith('begin')) return text.includes('lock_timeout') ? 'begin with lock_timeout' : 'begin'
  return text.replace(/\s+/g, ' ').trim().slice(0, 90)
}

/** Rows that hold process ids of the server, which are others in each run. */
const HAS_PIDS = /pg_backend_pid|pg_stat_activity|pg_locks|pg_blocking_pids/

function describe({ statement }: Operation, outcome: Outcome): string {
  if ('error' in outcome) {
    const { code, message } = outcome.error as { code?: string; message?: string }
    return `error ${code ?? ''} ${String(message).split('\n')[0]}`
  }
  if (statement === null) return digestOf(outcome.value)
  const result = outcome.value as pg.QueryResult
  if (Array.isArray(result) || HAS_PIDS.test(statement.text)) return 'done'
  const rows = result.rows.length === 0 ? '' : ` ${digestOf(result.rows)}`
  return `${result.command} ${result.rowCount ?? 0}${rows}`
}

const digestOf = (value: unknown): string =>
  createHash('sha256')
    .update(JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? String(each) : each)) ?? 'nothing')
    .digest('hex')
    .slice(0, 8)
