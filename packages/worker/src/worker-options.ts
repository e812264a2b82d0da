import type { ChainOptions, LeaseOptions, OnFork, RewindOptions } from '@lockstep/config'
import type { ChainSource } from '@lockstep/domain'
import type { StepHook } from '@lockstep/rewind'
import type { Database, Listener } from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'
import type { RetryDelays } from './backoff.js'

/** All that a worker works with; it reads no environment and holds no state outside `runChainWorker`. */
export interface WorkerOptions {
  readonly options: ChainOptions
  readonly rewind: RewindOptions
  /** After a fork: only this chain goes back, or all chains do. */
  readonly onFork: OnFork
  readonly lease: LeaseOptions
  readonly progressMs: number
  readonly db: Database
  readonly listener: Listener
  readonly source: ChainSource
  /** Already carries the chain. */
  readonly logger: Logger
  /** Between tries of what failed; left out: from a quarter of a second to fifteen seconds. */
  readonly retry?: RetryDelays
  readonly onStep?: StepHook
  /** After a stop that the nodes may end by themselves they are asked again after so long. Default: a minute. */
  readonly askNodesAgainMs?: number
}
