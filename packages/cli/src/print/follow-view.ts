import type { RewindPlan, RewindProgress } from '@lockstep/coordinator'
import { createLogUpdate } from 'log-update'
import { formatChainDone, formatCounts, formatEstimate } from './rewind.js'

const BAR = 20

/**
 * A rewind as it goes on. At a terminal a bar per chain, drawn anew; elsewhere a line when a chain is back.
 *
 * A removal is a few statements in one transaction, and nothing outside sees how far it is. To publish that it would have
 * to go in slices, with reports over another connection: slower, for a look. So a chain's bar is empty or full, and what
 * grows is the time, beside what earlier rewinds took for as many rows.
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
    const seconds = Math.round((Date.now() - this.#startedAt) / 1000)
    const { removalSeconds } = this.plan
    const expected = removalSeconds === null ? '' : `; ${formatEstimate(removalSeconds)} was expected`
    const waiting = progress.waitingFor.map(({ chain, why }) => {
      const goes = this.plan.chains.find((each) => each.chain === chain) ?? {
        blocks: 0,
        events: 0,
      }
      return `  ${'░'.repeat(BAR)}  ${chain}: ${why}; ${formatCounts(goes)} go (${seconds} s${expected})`
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
