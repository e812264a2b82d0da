import {
  type ChainTip,
  CheckpointMovedError,
  DatabaseUnavailableError,
  LockstepError as KnownError,
  LeaseLostError,
  type LockstepError,
  nextStep,
  WriteRefusedError,
} from '@lockstep/domain'
import { carryOutFreeChains, takePart } from '@lockstep/rewind'
import {
  adoptSettings,
  type ChainRewind,
  type ChainWriter,
  chainChanged,
  chainChangedError,
  type LeaseKeeper,
  type RewindState,
  readChain,
  readCheckpoint,
  readRewindState,
  setKeepOrphans,
} from '@lockstep/store'
import { Backoff } from './backoff.js'
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
  /** The chain is empty and was registered with other settings: it takes those of the config before its first write. */
  #adopts = false

  constructor(
    readonly worker: WorkerOptions,
    readonly keeper: LeaseKeeper,
    readonly progress: Progress,
    readonly heads: HeadWatch,
  ) {
    this.#backoff = new Backoff(worker.retry)
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
        this.#backoff.reset()
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
    const step = nextStep({
      checkpoint: this.#writer.checkpoint?.height ?? null,
      startHeight: options.startHeight,
      endHeight: options.endHeight,
      head: this.#tip.head.height,
      finalized: this.#tip.finalized,
      rangeWidthMax: rangeWidthMax(options),
    })
    if (step.do === 'wait' || step.do === 'finish') {
      if (step.do === 'finish') progress.enter('finished', `block ${options.endHeight} is stored`)
      else progress.atHead(this.#tip, step.for)
      if ((await checkForFork(worker, this.#writer, this.#tip, signal)) === 'forked')
        return this.#resolveFork(worker, heard, signal)
      return this.#lookAgain(heard, signal)
    }
    progress.enter(step.do === 'range' ? 'backfill' : 'live')
    const taken =
      step.do === 'range'
        ? await takeRange(worker, this.#writer, step, this.#tip, signal)
        : await takeBlock(worker, this.#writer, step.height, this.#tip, signal)
    if (taken.outcome === 'forked') return this.#resolveFork(worker, heard, signal)
    if (taken.outcome === 'not_there') return this.#lookAgain(heard, signal)
    this.#setWriter(taken.writer)
    progress.stored(taken)
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
    if (resolved !== null) this.#setWriter(resolved)
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
    const { options, db } = this.worker
    const { registered, checkpoint } = await db.transaction(async (tx) => ({
      registered: await readChain(tx, options.chain),
      checkpoint: await readCheckpoint(tx, options.chain),
    }))
    this.#setWriter({ ...this.#writer, checkpoint })
    this.#loaded = true
    this.#adopts = false
    await setKeepOrphans(db, options.chain, options.keepOrphans)
    if (registered === null || !chainChanged(registered, options)) return
    if (checkpoint !== null) throw chainChangedError(registered, options)
    this.#adopts = true // a write, so not before the look for a rewind or pause
  }

  async #adopt(): Promise<void> {
    await adoptSettings(this.worker.db, this.#writer, this.worker.options)
    this.#adopts = false
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
