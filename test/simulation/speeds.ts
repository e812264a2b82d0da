import type { Random } from './random.js'
import type { SimulatedProcess } from './simulated-process.js'

/** Now and then somebody is quick and somebody slow for a while: evenly mixed steps hide races. */
export class Speeds {
  readonly #weights = new Map<SimulatedProcess, number>()

  constructor(readonly random: Random) {}

  shuffle(processes: readonly SimulatedProcess[]): void {
    for (const process of processes) this.#weights.set(process, this.random.pick([0.02, 0.3, 1, 1, 1, 6]))
  }

  even(): void {
    this.#weights.clear()
  }

  of(process: SimulatedProcess): number {
    return this.#weights.get(process) ?? 1
  }
}
