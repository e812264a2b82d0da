import { setTimeout as sleep } from 'node:timers/promises'
import type { ChainOptions, OnFork } from '@lockstep/config'
import type { ChainSource } from '@lockstep/domain'
import type { StepHook } from '@lockstep/rewind'
import { type Database, Listener } from '@lockstep/store'
import { type Logger, silentLogger } from '@lockstep/telemetry'
import { createSource, type RetryDelays, runChainWorker } from '@lockstep/worker'
import type { Deployment } from './deployment.js'

export interface InProcessWorker {
  readonly db: Database
  /** Settles as the worker does. */
  readonly ended: Promise<void>
  /** Asks it to leave, and waits. */
  stop(): Promise<void>
}

export interface InProcessOptions {
  readonly leaseMs?: number
  readonly takeOverAfterMs?: number
  readonly searchTimeoutMs?: number
  readonly pollMs?: number
  readonly onFork?: OnFork
  readonly onStep?: StepHook
  /** Delays between tries of what failed. */
  readonly retry?: RetryDelays
  readonly logger?: Logger
  readonly askNodesAgainMs?: number
  /** The worker's way to its nodes, of the real one; left out: that. */
  readonly source?: (inner: ChainSource) => ChainSource
}

/** A real worker in this process, with its own connections: quick to start, and easy to watch. */
export function startWorker(
  deployment: Deployment,
  options: ChainOptions,
  more: InProcessOptions = {},
): InProcessWorker {
  const logger = more.logger ?? silentLogger()
  const db = deployment.open()
  const listener = Listener.open(db)
  const source = (more.source ?? ((inner) => inner))(createSource(options, logger))
  const stop = new AbortController()
  const leaseMs = more.leaseMs ?? 3000
  const ended = runChainWorker(
    {
      options,
      onFork: more.onFork ?? 'rollback',
      rewind: {
        takeOverAfterMs: more.takeOverAfterMs ?? 2 * leaseMs,
        searchTimeoutMs: more.searchTimeoutMs ?? 3000,
        writeTimeoutMs: db.writeTimeoutMs,
        pollMs: more.pollMs ?? 200,
      },
      lease: { timeMs: leaseMs },
      progressMs: 60_000,
      db,
      listener,
      source,
      logger,
      ...(more.onStep && { onStep: more.onStep }),
      ...(more.askNodesAgainMs !== undefined && { askNodesAgainMs: more.askNodesAgainMs }),
      ...(more.retry && { retry: more.retry }),
    },
    stop.signal,
  ).finally(async () => {
    await source.close()
    await listener.close()
    await sleep(0)
    await db.close()
  })
  ended.catch(() => {}) // whoever awaits `ended` or `stop` sees it
  return {
    db,
    ended,
    stop: async () => {
      stop.abort()
      await ended
    },
  }
}
