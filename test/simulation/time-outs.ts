import type { LockWaits } from './lock-waits.js'
import type { Operations } from './operation.js'
import type { SimulatedServer } from './simulated-server.js'
import type { SimulatedSession } from './simulated-session.js'
import type { VirtualClock } from './virtual-clock.js'

/** The server's own time-outs, which count virtual time and so cannot be the real server's. */
export class TimeOuts {
  constructor(
    readonly server: SimulatedServer,
    readonly clock: VirtualClock,
    readonly operations: Operations,
    readonly waits: LockWaits,
    /** Ends a session that idled too long inside a transaction. */
    readonly endIdle: (session: SimulatedSession) => Promise<void>,
  ) {}

  /** `lock_timeout`, for each statement that waits and is not limited yet. */
  limitWaits(): void {
    for (const operation of this.operations) {
      const limit = operation.session?.lockTimeoutMs ?? 0
      if (limit === 0 || operation.blockedSince === null || operation.timeout !== null || operation.outcome)
        continue
      operation.timeout = this.clock.after(null, limit, () => {
        this.server.track(this.waits.cancel(operation, '55P03', 'canceling statement due to lock timeout'))
      })
    }
  }

  /** `idle_in_transaction_session_timeout`, counted from now. */
  watchIdle(session: SimulatedSession): void {
    const since = session.idleSince
    if (since === null || session.idleTimeoutMs === 0) return
    this.clock.after(null, session.idleTimeoutMs, () => {
      if (session.idleSince !== since || session.lost !== null || session.process.deaf) return
      this.server.track(this.endIdle(session))
    })
  }
}
