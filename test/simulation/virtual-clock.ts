import { outside, type SimulatedProcess } from './simulated-process.js'

/** Virtual time at the start of a run. */
export const START = Date.UTC(2030, 0, 1)

export interface Timer {
  readonly due: number
  readonly process: SimulatedProcess | null
  cancel(): void
  unref(): Timer
  ref(): Timer
  hasRef(): boolean
}

export interface ScheduledTimer extends Timer {
  due: number
  readonly order: number
  readonly fire: () => void
  readonly everyMs: number | null
}

/** Virtual time and what waits for it: it stands still until somebody moves it. */
export class VirtualClock {
  now = START
  readonly #timers = new Set<ScheduledTimer>()
  #order = 0

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

  /** The one that is due first, of processes that get turns now. */
  next(): ScheduledTimer | null {
    let next: ScheduledTimer | null = null
    for (const timer of this.#timers) {
      if (timer.process !== null && !timer.process.active) continue
      if (next === null || timer.due < next.due || (timer.due === next.due && timer.order < next.order))
        next = timer
    }
    return next
  }

  fire(timer: ScheduledTimer): void {
    if (timer.everyMs === null) this.#timers.delete(timer)
    else timer.due = this.now + timer.everyMs
    timer.fire()
  }

  /** A dead process waits for nothing. */
  forget(process: SimulatedProcess): void {
    for (const timer of this.#timers) if (timer.process === process) this.#timers.delete(timer)
  }
}
