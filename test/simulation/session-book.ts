import type pg from 'pg'
import type { Random } from './random.js'
import type { SimulatedProcess } from './simulated-process.js'
import type { SimulatedListening, SimulatedSession, Statement } from './simulated-session.js'
import type { VirtualClock } from './virtual-clock.js'

export interface Committed {
  readonly process: SimulatedProcess
  /** Virtual time at which the transaction began. */
  readonly began: number
  readonly statements: readonly Statement[]
}

/** What each session's transaction has done so far; what was committed; and who is told of it. */
export class SessionBook {
  /** Probability that a notification never comes. */
  noticeLoss = 0
  readonly listening = new Set<SimulatedListening>()
  #commits: Committed[] = []

  constructor(
    readonly clock: VirtualClock,
    readonly random: Random,
  ) {}

  /** What the statement has changed about its session. */
  note(session: SimulatedSession, statement: Statement, result: pg.QueryResult): void {
    const { text } = statement
    if (text.startsWith('begin')) {
      session.began = this.clock.now
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
  }

  /** Those since the last call. */
  takeCommits(): readonly Committed[] {
    const commits = this.#commits
    this.#commits = []
    return commits
  }

  #committed(session: SimulatedSession): void {
    const { process, statements, began } = session
    this.#commits.push({ process, statements, began: began ?? this.clock.now })
    for (const channel of session.notified) this.#notify(channel)
  }

  #notify(channel: string): void {
    for (const each of this.listening) {
      if (!each.hears(channel) || this.random.chance(this.noticeLoss)) continue
      this.clock.after(each.process, this.random.pick([1, 1, 5, 50, 400]), () =>
        each.emit('notification', { channel }),
      )
    }
  }
}
