import type { Operation, Operations } from './operation.js'
import { drain, soon } from './real-time.js'
import type { SimulatedServer } from './simulated-server.js'
import type { VirtualClock } from './virtual-clock.js'

/** Statements after which others may get their locks. */
const ENDS_WAITS = /^(commit|rollback)|pg_terminate_backend/

/**
 * Tells when everything stands still: each statement that was let go has ended, or is proved to wait for a lock. Only
 * then is the next choice the seed's alone, and not that of who happens to be quicker.
 */
export class LockWaits {
  /** Whether locks may have gone since all statements that are under way were last proved to wait. */
  #released = true

  constructor(
    readonly server: SimulatedServer,
    readonly clock: VirtualClock,
    readonly operations: Operations,
    /** A deadlock: the protocol's lock order rules it out. */
    readonly onDeadlock: (labels: readonly string[]) => void,
  ) {}

  /** A statement has ended well. */
  endedBy(text: string): void {
    this.#released ||= ENDS_WAITS.test(text)
  }

  /** A transaction or session is over: its locks are free at once. */
  released(): void {
    this.#released = true
  }

  async untilStill(): Promise<void> {
    for (let proofs = 0; ; ) {
      await soon(
        this.operations
          .going()
          .filter((each) => each.blockedSince === null)
          .map((each) => each.ended),
      )
      await drain()
      const going = this.operations.going()
      // Most steps end no transaction, and so end nobody's wait: asking the server again would double a run's time.
      if (!this.#released && going.every((each) => each.blockedSince !== null)) return
      if (going.length === 0) return
      const waits = await this.server.blockers(going.map((each) => each.session?.connection.pid ?? 0))
      await drain()
      const still = going.every((each) => each.outcome === null && isBlocked(each, waits))
      proofs = still ? proofs + 1 : 0
      if (proofs < (going.length > 1 ? 2 : 1)) continue // two looks: the first may have met somebody on the move
      for (const each of going) each.blockedSince ??= this.clock.now
      this.#released = false
      if (!(await this.#breakDeadlock(going, waits))) return
      proofs = 0
    }
  }

  /** The server gives up a statement that waits. */
  async cancel(operation: Operation, code: string, message: string): Promise<void> {
    if (operation.session === null) return
    await this.server.cancel(operation.session.connection.pid)
    await operation.ended
    if (operation.outcome !== null && 'error' in operation.outcome)
      operation.outcome = { error: Object.assign(new Error(message), { code }) }
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
    this.onDeadlock(circle.map((each) => `${each.process.name}: ${each.label}`).sort())
    await this.cancel(victim, '40P01', 'deadlock detected')
    return true
  }
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
