import {
  type ChainTip,
  CheckpointMovedError,
  DatabaseUnavailableError,
  type Gap,
  KnownChildren,
  LockstepError as KnownError,
  LeaseLostError,
  type LockstepError,
  MalformedAnswerError,
  type NextStep,
  nextStep,
  RpcUnavailableError,
  WriteRefusedError,
} from '@lockstep/domain'
import { carryOutFreeChains, takePart } from '@lockstep/rewind'
import {
  type ChainRewind,
  type ChainWriter,
  type LeaseKeeper,
  type RewindState,
  readRewindState,
  setKeepOrphans,
} from '@lockstep/store'
import { Backoff } from './backoff.js'
import { describeGaps, loadChain, takeOverConfig } from './chain-state.js'
import { fillNextGap } from './fill-gap.js'
import { checkForFork, describeUnsure, resolveFork } from './fork.js'
import { rangeWidthMax, takeBlock, takeRange } from './forward.js'
import { HeadWatch } from './head-watch.js'
import { rest, untilRewound } from './patience.js'
import { PauseLog } from './pause-log.js'
import { Progress } from './progress.js'
import { waitForLease } from './wait-for-lease.js'
import type { WorkerOptions } from './worker-options.js'

/**
 * The whole life of a worker: one chain, followed until `stop` aborts. Every decision of a worker is in this file; what
 * it calls are straight lines.
 *
 * @throws LeaseLostError where another process has taken the chain over: this one must not touch it any more
 */
export async function runChainWorker(worker: WorkerOptions, stop: AbortSignal): Promise<void> {
  const keeper = await waitForLease(worker, stop)
  if (keeper === null) return
  const progress = new Progress(worker, keeper.lost) // only the holder of the lease speaks for the chain
  const heads = new HeadWatch(worker.source)
  try {
    await new ChainFollower(worker, keeper, progress, heads).run(stop)
  } finally {
    heads.close()
    await progress.close()
    await keeper.close()
  }
}

/** Stops that a node may end by itself: a proxy that led to another chain is mended, a node gets its blocks. */
const OF_THE_NODES = new Set(['wrong_chain', 'height_pruned'])
/** Seldom enough that a chain that is stopped is seen to be. */
const ASK_NODES_AGAIN_MS = 60_000

/** However often a node announces heads, it is asked for no more than ten a second. */
const LOOK_AGAIN_LEAST_MS = 100

class ChainFollower {
  readonly #backoff: Backoff
  readonly #pauseLog: PauseLog
  #writer: ChainWriter
  /** Whether all nodes were asked once which chain they are of. */
  #checked = false
  /** What the node last said; null: ask before anything else. */
  #tip: ChainTip | null = null
  /** Aborts when a node announces a head that the tip may not know yet. */
  #newHead: AbortSignal
  /** Whether the checkpoint is known to be on the node's chain: false after a start, a rewind or a lost connection. */
  #verified = false
  /** Why this chain does not go on by itself. It still takes part in rewinds, and a rewind clears it. */
  #stopped: LockstepError | null = null
  #askNodesAgainAt = Number.POSITIVE_INFINITY
  #loaded = false
  /** The config was changed since the chain was indexed: what is stored has to follow, before anything is fetched. */
  #adopts = false
  /** What the facts up to the checkpoint tell of: read anew wherever the checkpoint goes back. */
  #children = new KnownChildren()
  /** Heights that filters are missing, up to the checkpoint. */
  #gaps: readonly Gap[] = []
  /** Filling gaps and going forward take turns: what was indexed before stays live, however long a gap is. */
  #gapIsNext = false
  readonly #gapBackoff: Backoff
  #gapRestsUntil = Number.NEGATIVE_INFINITY
  /** Why the gap rests, for as long as gaps are open; null: it goes well. */
  #gapTrouble: string | null = null

  constructor(
    readonly worker: WorkerOptions,
    readonly keeper: LeaseKeeper,
    readonly progress: Progress,
    readonly heads: HeadWatch,
  ) {
    this.#backoff = new Backoff(worker.retry)
    this.#gapBackoff = new Backoff(worker.retry)
    this.#newHead = heads.next()
    this.#pauseLog = new PauseLog(worker.logger)
    this.#writer = { chain: worker.options.chain, lease: keeper.lease, checkpoint: null }
  }

  async run(stop: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([stop, this.keeper.lost])
    while (!stop.aborted) {
      this.keeper.check()
      const heard = this.worker.listener.heard
      try {
        await this.#step(heard, signal)
      } catch (error) {
        if (stop.aborted && (error instanceof KnownError || (error as Error).name === 'AbortError')) return
        await this.#recover(error, heard, signal)
      }
    }
  }

  /** Looks at the rewind state, before each fetch; then does one thing. */
  async #step(heard: number, signal: AbortSignal): Promise<void> {
    if (!this.#loaded) await this.#load()
    const { chain } = this.#writer
    const state = await this.worker.db.transaction(readRewindState)
    const own = state.waitingFor.find((row) => row.chain === chain)
    if (own) return this.#rewind(own, signal)
    if (state.lock || state.pause) return this.#pause(state, heard, signal)
    this.#pauseLog.end()
    if (this.#stopped) return this.#idle(heard, signal)
    if (this.#adopts) return this.#adopt()
    await this.#follow(heard, signal)
  }

  async #rewind(row: ChainRewind, signal: AbortSignal): Promise<void> {
    this.progress.enter('rewinding')
    const { db, source, rewind, logger, onStep } = this.worker
    const options = { source, timeoutMs: rewind.searchTimeoutMs, signal, logger, ...(onStep && { onStep }) }
    const part = await takePart(db, this.#writer, row, options)
    this.#backoff.reset()
    this.#forget()
    this.#checked = false
    this.#stopped = null
    this.#loaded = false // whether the chain's settings still fit is judged anew: it may be empty now
    this.#setWriter(part.writer)
  }

  async #pause(state: RewindState, heard: number, signal: AbortSignal): Promise<void> {
    this.progress.enter('paused', this.#pauseLog.tick(state))
    this.#forget()
    if (state.lock && this.#pauseLog.pausedMs > this.worker.rewind.takeOverAfterMs)
      await this.#carryOutOthers(signal)
    await this.worker.listener.wait(heard, this.worker.rewind.pollMs, signal)
  }

  /** No coordinator has come for the chains that have no worker: the waiting ones do it, from the database alone. */
  async #carryOutOthers(signal: AbortSignal): Promise<void> {
    const { db, lease, logger } = this.worker
    try {
      await carryOutFreeChains(db, {
        leaseMs: lease.timeMs,
        sourceOf: () => null,
        timeoutMs: 0,
        logger,
        signal,
      })
    } catch (error) {
      if (!(error instanceof LeaseLostError) || this.keeper.lost.aborted) throw error
      logger.info({ err: error }, 'chain that was taken over was taken back by its worker')
    }
  }

  async #follow(heard: number, signal: AbortSignal): Promise<void> {
    const { progress } = this
    const worker = { ...this.worker, source: untilRewound(this.worker, heard) }
    const { options, source } = worker
    if (!this.#checked) await source.check(signal)
    this.#checked = true
    if (this.#tip === null) {
      this.#newHead = this.heads.next()
      this.#tip = await source.tip(signal)
    }
    progress.sawTip(this.#tip)
    if (!this.#verified) return this.#verify(worker, this.#tip, heard, signal)
    if (this.#gapIsNext && Date.now() >= this.#gapRestsUntil)
      return this.#fillGap(worker, this.#tip, heard, signal)
    const step = nextStep({
      checkpoint: this.#writer.checkpoint?.height ?? null,
      startHeight: options.startHeight,
      endHeight: options.endHeight,
      head: this.#tip.head.height,
      finalized: this.#tip.finalized,
      rangeWidthMax: rangeWidthMax(options),
    })
    if (step.do === 'wait' || step.do === 'finish') {
      if ((await checkForFork(worker, this.#writer, this.#tip, signal)) === 'forked')
        return this.#resolveFork(worker, heard, signal)
      if (this.#gaps.length > 0 && Date.now() >= this.#gapRestsUntil) {
        this.#gapIsNext = true
        return
      }
      this.#backoff.reset()
      if (this.#gaps.length > 0) progress.enter('waiting', this.#gapTrouble)
      else if (step.do === 'finish') progress.enter('finished', `block ${options.endHeight} is stored`)
      else progress.atHead(this.#tip, step.for)
      return this.#lookAgain(heard, signal)
    }
    await this.#take(worker, step, this.#tip, heard, signal)
  }

  async #take(
    worker: WorkerOptions,
    step: Extract<NextStep, { do: 'range' | 'block' }>,
    tip: ChainTip,
    heard: number,
    signal: AbortSignal,
  ): Promise<void> {
    const open = this.#gaps.length > 0
    // While work fails again and again, "waiting" and its reason stay until something is stored.
    if (!this.#backoff.failing)
      this.progress.enter(
        step.do === 'range' || open ? 'backfill' : 'live',
        this.#gapTrouble ?? describeGaps(this.#gaps),
      )
    const source = worker.source.asking({ children: this.#children, only: null })
    const taken =
      step.do === 'range'
        ? await takeRange({ ...worker, source }, this.#writer, step, tip, signal)
        : await takeBlock({ ...worker, source }, this.#writer, step.height, tip, signal)
    if (taken.outcome === 'forked') return this.#resolveFork(worker, heard, signal)
    if (taken.outcome === 'not_there') return this.#lookAgain(heard, signal)
    this.#setWriter(taken.writer)
    for (const child of taken.children) this.#children.add(child)
    this.#gapIsNext = open
    this.#backoff.reset() // by what is stored alone: a node that gives headers and no logs fails all the same
    this.progress.stored(taken)
  }

  /** A piece of what filters miss below the checkpoint; then the way forward is looked at again. */
  async #fillGap(worker: WorkerOptions, tip: ChainTip, heard: number, signal: AbortSignal): Promise<void> {
    this.#gapIsNext = false
    this.progress.enter('backfill', describeGaps(this.#gaps))
    const known = { children: this.#children, tip }
    const filled = await fillNextGap(worker, this.#writer, this.#gaps, known, signal).catch((error) =>
      this.#restFromGap(error),
    )
    if (filled === null) return
    this.#tip = null // the chain has grown meanwhile
    if (filled.outcome === 'forked') return this.#resolveFork(worker, heard, signal)
    if (filled.outcome === 'not_there') return this.#lookAgain(heard, signal)
    this.#gaps = filled.gaps
    for (const child of filled.children) this.#children.add(child)
    this.#gapBackoff.reset()
    this.#gapTrouble = null
    this.progress.stored(filled)
    if (this.#gaps.length === 0) worker.logger.info({ to: filled.piece.to }, 'gaps were filled')
  }

  /** A node that refuses what a gap needs does not hold up the way forward: the gap rests by itself. */
  #restFromGap(error: unknown): null {
    if (!(error instanceof RpcUnavailableError || error instanceof MalformedAnswerError)) throw error
    this.#forget()
    const waitMs = this.#gapBackoff.next()
    this.#gapRestsUntil = Date.now() + waitMs
    this.#gapTrouble = `${describeGaps(this.#gaps)}; ${error.message}`
    this.progress.enter('waiting', this.#gapTrouble)
    if (this.#gapBackoff.worthALine)
      this.worker.logger.warn({ err: error, waitMs }, 'gap could not be filled and is tried again')
    return null
  }

  /** Is the checkpoint still on the chain? Else the chain goes back, before anything is fetched. */
  async #verify(worker: WorkerOptions, tip: ChainTip, heard: number, signal: AbortSignal): Promise<void> {
    const answer = await checkForFork(worker, this.#writer, tip, signal)
    if (answer === 'forked') return this.#resolveFork(worker, heard, signal)
    if (answer === 'agrees') {
      this.#verified = true
      return
    }
    this.progress.wait(describeUnsure(this.#writer, tip))
    await this.#lookAgain(heard, signal)
  }

  async #resolveFork(worker: WorkerOptions, heard: number, signal: AbortSignal): Promise<void> {
    const resolved = await resolveFork(worker, this.#writer, signal)
    this.#forget()
    if (resolved !== null)
      this.#loaded = false // children and gaps above the fork point are gone
    else await rest(worker, heard, worker.options.pollMs, signal)
  }

  /** After the poll interval, or as soon as a node announces a head: which shortens the wait, and is not relied on. */
  async #lookAgain(heard: number, signal: AbortSignal): Promise<void> {
    const { pollMs } = this.worker.options
    this.#tip = null
    const leastMs = Math.min(pollMs, LOOK_AGAIN_LEAST_MS)
    await rest(this.worker, heard, leastMs, signal)
    await rest(this.worker, heard, pollMs - leastMs, AbortSignal.any([signal, this.#newHead]))
  }

  /** A stopped chain does nothing but look out for rewinds. */
  async #idle(heard: number, signal: AbortSignal): Promise<void> {
    if (this.#stopped) this.progress.enter('stopped', this.#stopped.message) // a pause has said otherwise meanwhile
    if (Date.now() >= this.#askNodesAgainAt) {
      this.#stopped = null
      this.#checked = false
    }
    await this.worker.listener.wait(heard, this.worker.rewind.pollMs, signal)
  }

  async #load(): Promise<void> {
    const { checkpoint, children, gaps, changed } = await loadChain(this.worker)
    this.#setWriter({ ...this.#writer, checkpoint })
    this.#children = children
    this.#gaps = gaps
    this.#gapIsNext = false
    if (gaps.length === 0) this.#gapTrouble = null
    this.#adopts = changed // a write, so not before the look for a rewind or pause
    this.#loaded = true
    await setKeepOrphans(this.worker.db, this.worker.options.chain, this.worker.options.keepOrphans)
  }

  async #adopt(): Promise<void> {
    this.#loaded = false // whatever comes of it, what is true then is in the database
    await takeOverConfig(this.worker, this.#writer)
  }

  #setWriter(writer: ChainWriter): void {
    this.#writer = writer
    this.progress.reached(writer.checkpoint)
  }

  /** Everything that was believed of the node's chain; the database is asked again. */
  #forget(): void {
    this.#tip = null
    this.#verified = false
  }

  /** What an error means for the worker. Data errors stop the chain; what may pass is tried again, ever more slowly. */
  async #recover(error: unknown, heard: number, signal: AbortSignal): Promise<void> {
    if (this.keeper.lost.aborted) throw this.keeper.lost.reason
    if (error instanceof LeaseLostError || !(error instanceof KnownError)) throw error
    if (error instanceof WriteRefusedError) return // the next look finds the rewind or pause
    this.#forget()
    if (error instanceof CheckpointMovedError || error instanceof DatabaseUnavailableError)
      this.#loaded = false
    if (!error.retryable) {
      this.#stopped = error
      this.#askNodesAgainAt = OF_THE_NODES.has(error.code)
        ? Date.now() + (this.worker.askNodesAgainMs ?? ASK_NODES_AGAIN_MS)
        : Number.POSITIVE_INFINITY
      this.progress.enter('stopped', error.message)
      this.worker.logger.error({ err: error }, 'chain was stopped')
      return
    }
    const waitMs = this.#backoff.next()
    this.progress.enter('waiting', error.message)
    if (this.#backoff.worthALine)
      this.worker.logger.warn({ err: error, waitMs }, 'work failed and is tried again')
    await rest(this.worker, heard, waitMs, signal)
  }
}
