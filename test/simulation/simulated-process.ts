import { AsyncLocalStorage } from 'node:async_hooks'
import type { Random } from './random.js'
import type { SimulatedSession } from './simulated-session.js'

/** Which process the code that runs now belongs to; none: it is the simulation's own. */
const running = new AsyncLocalStorage<SimulatedProcess | null>()

export const currentProcess = (): SimulatedProcess | null => running.getStore() ?? null

/** Runs `work` outside of every simulated process: with real timers and real connections. */
export const outside = <T>(work: () => T): T => running.run(null, work)

/**
 * One process of the deployment: everything that was ever started inside it, and nothing else, dies and freezes with
 * it. All share this Node process; the context that follows each promise tells them apart.
 */
export class SimulatedProcess {
  alive = true
  frozen = false
  /** A frozen process whose open transactions the server's time-out does not reach: as inside COPY. */
  deaf = false
  /** The database cannot be reached from here until then, in virtual milliseconds. */
  cutOffUntil = 0
  readonly sessions = new Set<SimulatedSession>()

  constructor(
    readonly name: string,
    /** Also the database's `holder`. */
    readonly holder: string,
    readonly random: Random,
  ) {}

  /** Whether it gets turns now. */
  get active(): boolean {
    return this.alive && !this.frozen
  }

  run<T>(work: () => T): T {
    return running.run(this, work)
  }
}
