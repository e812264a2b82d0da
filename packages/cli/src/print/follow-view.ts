import type { RewindPlan, RewindProgress } from '@lockstep/coordinator'
import { createLogUpdate } from 'log-update'
import { formatChainDone } from './rewind.js'

const BAR = 20

/**
 * A rewind as it goes on. At a terminal a bar per chain, drawn anew; elsewhere a line when a chain is back. A removal is
 * one transaction, so a chain's bar knows three states only: waits, removes, is back.
 */
export class FollowView {
  readonly #told = new Map<string, string>()
  readonly #update: ReturnType<typeof createLogUpdate> | null
  readonly #startedAt = Date.now()

  constructor(
    readonly out: NodeJS.WriteStream,
    readonly plan: RewindPlan,
  ) {
    this.#update = out.isTTY ? createLogUpdate(out) : null
  }

  show(progress: RewindProgress): void {
    if (this.#update) this.#update(this.#bars(progress))
    else this.#lines(progress)
  }

  close(): void {
    this.#update?.done()
  }

  #bars(progress: RewindProgress): string {
    const back = new Map(progress.done.map((record) => [record.chain, record]))
    const waiting = progress.waitingFor.map(({ chain, why }) => {
      const rows = this.plan.chains.find((each) => each.chain === chain)?.events ?? 0
      return `  ${'░'.repeat(BAR)}  ${chain}: ${why}; ${rows} events go (${Math.round((Date.now() - this.#startedAt) / 1000)} s)`
    })
    return [
      ...[...back.values()].map((record) => `  ${'█'.repeat(BAR)}${formatChainDone(record)}`),
      ...waiting,
    ].join('\n')
  }

  /** Each chain once, when it is back, and again where a deepening made it go further. */
  #lines(progress: RewindProgress): void {
    for (const record of progress.done) {
      const line = formatChainDone(record)
      if (this.#told.get(record.chain) === line) continue
      this.#told.set(record.chain, line)
      const rest = progress.waitingFor.map(({ chain, why }) => `${chain} (${why})`).join(', ')
      this.out.write(`${line}${rest === '' ? '' : `; waiting for ${rest}`}\n`)
    }
  }
}
