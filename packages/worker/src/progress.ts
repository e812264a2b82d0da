import { performance } from 'node:perf_hooks'
import {
  type ChainTip,
  describeError,
  formatTimeShort,
  type Height,
  secondsBetween,
  timeFromMs,
} from '@lockstep/domain'
import { type Checkpoint, type Phase, writeReport } from '@lockstep/store'
import { BackfillRate } from './backfill-rate.js'
import type { WorkerOptions } from './worker-options.js'

/** How often the database hears of a worker. */
const REPORT_MS = 1000
/** Rates are over about this long: long enough to be calm, short enough to follow a change. */
const RATE_WINDOW_MS = 10_000

/** What a worker says of itself: a log line per interval, a row in `chain_status`, and both at each change of phase. */
export class Progress {
  #phase: Phase = 'starting'
  #reason: string | null = null
  #saidWaiting = false
  #checkpoint: Checkpoint | null = null
  #tip: ChainTip | null = null
  #blocks = 0
  #events = 0
  #samples: { at: number; blocks: number; events: number }[] = []
  readonly #backfill = new BackfillRate()
  #enteredAt = performance.now()
  #reporting: Promise<void> = Promise.resolve()
  readonly #timers: NodeJS.Timeout[]

  /** @param lost aborts when another process speaks for the chain */
  constructor(
    readonly worker: WorkerOptions,
    readonly lost: AbortSignal,
  ) {
    this.#sample()
    this.#timers = [
      setInterval(() => {
        this.#sample()
        this.#report()
      }, REPORT_MS),
      setInterval(() => this.#line(), worker.progressMs),
    ]
  }

  enter(phase: Phase, reason: string | null = null): void {
    const changed = phase !== this.#phase
    this.#enteredAt = performance.now()
    this.#phase = phase
    this.#reason = reason
    if (!changed) return
    this.#report()
  }

  /** As `enter`, with a line: once, however often the same is waited for again before a block comes. */
  wait(reason: string): void {
    this.enter('waiting', reason)
    if (this.#saidWaiting) return
    this.#saidWaiting = true
    this.worker.logger.warn({ reason }, 'chain began to wait')
  }

  /** Everything up to the head is stored, or the head is not where it should be. */
  atHead(tip: ChainTip, next: Height): void {
    const head = tip.head.height
    if (next <= head + 1) this.enter('live')
    else if (this.#checkpoint === null) this.wait(`the chain's head ${head} is below startHeight ${next}`)
    else this.wait(`the node's head ${head} is below the checkpoint ${this.#checkpoint.height}`)
  }

  sawTip(tip: ChainTip): void {
    this.#tip = tip
  }

  reached(checkpoint: Checkpoint | null): void {
    this.#checkpoint = checkpoint
  }

  /** What was stored since `enter`. */
  stored({ blocks, events }: { readonly blocks: number; readonly events: number }): void {
    this.#saidWaiting = false
    if (this.#phase === 'backfill') this.#backfill.add(blocks, (performance.now() - this.#enteredAt) / 1000)
    this.#blocks += blocks
    this.#events += events
  }

  /** The last report, so that a stopped worker does not look alive. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    if (this.#phase !== 'finished' && this.#phase !== 'stopped')
      this.enter('stopped', 'its worker was stopped')
    await this.#reporting
  }

  #sample(): void {
    const at = Date.now()
    this.#samples.push({ at, blocks: this.#blocks, events: this.#events })
    while ((this.#samples[1]?.at ?? at) <= at - RATE_WINDOW_MS) this.#samples.shift()
  }

  #rates(): { blocksPerSecond: number; eventsPerSecond: number } {
    const first = this.#samples[0]
    const seconds = first ? Math.max((Date.now() - first.at) / 1000, 0.001) : 1
    const round = (rate: number) => Math.round(rate * 10) / 10
    return {
      blocksPerSecond: round((this.#blocks - (first?.blocks ?? 0)) / seconds),
      eventsPerSecond: round((this.#events - (first?.events ?? 0)) / seconds),
    }
  }

  #line(): void {
    const { blocksPerSecond, eventsPerSecond } = this.#rates()
    const head = this.#tip?.head ?? null
    const height = this.#checkpoint?.height ?? null
    const target = this.worker.options.endHeight ?? head?.height ?? null
    const reason = this.#told()
    const lag = target === null ? null : Math.max(0, target - (height ?? this.worker.options.startHeight - 1))
    this.worker.logger.info(
      {
        phase: this.#phase,
        height,
        head: head?.height ?? null,
        lag,
        lagSeconds:
          this.#checkpoint && Math.round(secondsBetween(this.#checkpoint.time, timeFromMs(Date.now()))),
        blocksPerSecond,
        eventsPerSecond,
        etaSeconds: !lag || blocksPerSecond === 0 ? null : Math.round(lag / blocksPerSecond),
        ...(this.#checkpoint && { blockTime: formatTimeShort(this.#checkpoint.time) }),
        ...(reason && { reason }),
      },
      'progress',
    )
  }

  /** Why the chain does not go on; while it does, what is the matter with nodes that others stand in for. */
  #told(): string | null {
    return this.#reason ?? this.worker.source.trouble()
  }

  /** One at a time; a report that fails is followed by the next one. */
  #report(): void {
    if (this.lost.aborted) return
    const { db, options, logger } = this.worker
    this.#reporting = this.#reporting
      .then(() =>
        writeReport(db, {
          chain: options.chain,
          phase: this.#phase,
          reason: this.#told(),
          headHeight: this.#tip?.head.height ?? null,
          headTime: this.#tip?.head.time ?? null,
          finalizedHeight: this.#tip?.finalized ?? null,
          endHeight: options.endHeight,
          ...this.#rates(),
          backfillBlocksPerSecond: this.#backfill.perSecond,
        }),
      )
      .catch((error: unknown) =>
        logger.debug({ reason: describeError(error) }, 'status could not be written'),
      )
  }
}
