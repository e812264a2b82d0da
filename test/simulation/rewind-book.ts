import type { ChainKey } from '@lockstep/domain'
import type { Picture } from './picture.js'
import { PromiseBroken } from './promises.js'
import type { Committed } from './session-book.js'
import type { SimulatedServer } from './simulated-server.js'

/** Keeps account of which chains each rewind concerns, for what the audit has to tell in the end. */
export class RewindBook {
  /** When each chain was first seen to be registered. */
  readonly #since = new Map<ChainKey, number>()
  readonly #owed = new Map<string, Set<ChainKey>>()

  /** @throws PromiseBroken where a request leaves out a chain that was registered before it began */
  note(commit: Committed, before: Picture | null, after: Picture, now: number): void {
    for (const chain of after.chains.keys()) if (!this.#since.has(chain)) this.#since.set(chain, now)
    const { lock } = after
    if (lock === null) return
    const asked = before?.lock?.rewindId !== lock.rewindId || before.lock.timestamp !== lock.timestamp
    const owed = this.#owed.get(lock.rewindId) ?? new Set()
    this.#owed.set(lock.rewindId, owed)
    for (const [chain, { own }] of after.chains) {
      if (own !== null) owed.add(chain)
      else if (asked && (this.#since.get(chain) ?? now) < commit.began)
        throw new PromiseBroken('the same cut on all chains', `a request left out ${chain}`)
    }
  }

  /** Each rewind that came to its end tells of every chain, and none is both finished and cancelled. */
  async check(server: SimulatedServer): Promise<void> {
    const { rows } = await server.observer.query<{ id: string; cancelled: boolean; chains: ChainKey[] }>(
      `select id, cancelled_at is not null as cancelled,
         array(select chain::text from rewind_chain where rewind_id = r.id) as chains
       from rewind r where finished_at is not null`,
    )
    for (const { id, cancelled, chains } of rows) {
      if (cancelled) throw new PromiseBroken('the audit', `rewind ${id} was finished and cancelled`)
      const missing = [...(this.#owed.get(id) ?? [])].find((chain) => !chains.includes(chain))
      if (missing) throw new PromiseBroken('the audit', `rewind ${id} ended and tells nothing of ${missing}`)
    }
  }
}
