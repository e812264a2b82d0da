import type { OnFork } from '@lockstep/config'
import { coordinate, followRewind } from '@lockstep/coordinator'
import {
  type ChainKey,
  chainKey,
  DatabaseUnavailableError,
  type Height,
  LeaseLostError,
  RequestRefusedError,
  type TimeUs,
} from '@lockstep/domain'
import {
  type CarryOutOptions,
  cancelRewind,
  pause,
  type RewindRequest,
  requestRewind,
  resume,
} from '@lockstep/rewind'
import { Database, Listener, registerChains, surrenderLeasesOf } from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'
import { runChainWorker } from '@lockstep/worker'
import { ModelChain } from './model-chain.js'
import { ModelNode, ModelSource } from './model-source.js'
import { Random } from './random.js'
import type { Scheduler } from './scheduler.js'
import { SimulatedProcess } from './simulated-process.js'
import { SCHEMA } from './simulated-server.js'

/** Names of the chains a run may have, each with its kind. */
export const CHAINS = [
  ['alpha', 'evm'],
  ['beta', 'cosmos'],
  ['gamma', 'evm'],
  ['delta', 'cosmos'],
] as const

export interface WorldOptions {
  readonly chains: number
  readonly onFork: OnFork
  readonly leaseMs: number
  readonly takeOverAfterMs: number
  readonly writeTimeoutMs: number
  readonly pollMs: number
  readonly logger: (process: string) => Logger
  /** A process ended as none should. */
  readonly onDefect: (process: string, error: unknown) => void
}

export interface ChainPlace {
  readonly model: ModelChain
  readonly node: ModelNode
  /** Taken out of the config: nobody starts a worker for it. */
  retired: boolean
}

/** The deployment that is simulated: its chains, and the processes that work on it. */
export class World {
  readonly chains: ChainPlace[] = []
  readonly workers = new Map<SimulatedProcess, ChainKey>()
  readonly operators = new Set<SimulatedProcess>()
  coordinator: SimulatedProcess | null = null
  /** What was last asked for. */
  lastMoment: TimeUs | null = null
  readonly #all: SimulatedProcess[] = []
  readonly #stops = new Map<SimulatedProcess, AbortController>()
  #names = 0

  constructor(
    readonly seed: number,
    readonly scheduler: Scheduler,
    /** Of the environment; the scheduler and each process have their own. */
    readonly random: Random,
    readonly options: WorldOptions,
  ) {}

  get processes(): readonly SimulatedProcess[] {
    return this.#all
  }

  get living(): SimulatedProcess[] {
    return this.#all.filter((process) => process.alive)
  }

  makeChains(): void {
    const falls = this.random.chance(0.4)
    for (const [name, kind] of CHAINS.slice(0, this.options.chains)) {
      const model = makeChain(`${this.seed}/${name}`, name, kind, falls)
      model.extend(this.random.between(8, 30))
      this.chains.push({ model, node: new ModelNode(model, this.scheduler), retired: false })
    }
  }

  // ---- processes ------------------------------------------------------------------------------------------------

  startWorker(place: ChainPlace): SimulatedProcess {
    const { chain, options } = place.model
    const { leaseMs, takeOverAfterMs, writeTimeoutMs, pollMs, onFork } = this.options
    const process = this.#start(`worker ${chain}`, async (process, db, stop) => {
      const listener = Listener.open(db)
      try {
        await runChainWorker(
          {
            options,
            onFork,
            rewind: { takeOverAfterMs, searchTimeoutMs: 3000, writeTimeoutMs, pollMs },
            lease: { timeMs: leaseMs },
            progressMs: 3_600_000,
            db,
            listener,
            source: new ModelSource(place.node, process),
            logger: this.options.logger(process.name),
          },
          stop,
        )
      } finally {
        await listener.close()
      }
    })
    this.workers.set(process, chain)
    return process
  }

  startCoordinator(): void {
    const { leaseMs, pollMs } = this.options
    this.coordinator = this.#start('coordinator', async (process, db, stop) => {
      const listener = Listener.open(db)
      const logger = this.options.logger(process.name)
      try {
        await coordinate(
          { db, listener, logger, leaseMs, pollMs, carryOut: this.#carryOut(process, stop) },
          stop,
        )
      } finally {
        await listener.close()
      }
    })
  }

  #carryOut(process: SimulatedProcess, signal: AbortSignal): CarryOutOptions {
    return {
      leaseMs: this.options.leaseMs,
      timeoutMs: 1000,
      logger: this.options.logger(process.name),
      signal,
      sourceOf: (chain) => {
        const place = this.chains.find(({ model }) => model.chain === chain)
        return place && !place.retired ? new ModelSource(place.node, process) : null
      },
    }
  }

  /** An operator's `lockstep rewind`; with `follow` it stays until the rewind is over, and carries out what is free. */
  requestRewind(request: RewindRequest, follow: boolean): void {
    this.lastMoment = request.timestamp
    this.#operate('rewind', async (process, db, stop) => {
      const { rewindId } = await requestRewind(db, { request, signal: stop })
      if (!follow) return
      const listener = Listener.open(db)
      try {
        const { pollMs } = this.options
        const carryOut = this.#carryOut(process, stop)
        await followRewind(db, rewindId, { listener, pollMs, carryOut, onProgress: () => {}, signal: stop })
      } finally {
        await listener.close()
      }
    })
  }

  /** Somebody who changes their mind twice: another rewind with the same T. */
  cancelAndAskAgain(): void {
    this.#operate('again', async (_, db) => {
      const { timestamp } = await cancelRewind(db)
      await requestRewind(db, { request: { timestamp, reason: null, who: 'operator' } })
    })
  }

  cancelRewind(): void {
    this.#operate('cancel', async (_, db) => void (await cancelRewind(db)))
  }

  pause(): void {
    this.#operate('pause', (_, db) => pause(db, { who: 'operator', reason: null }))
  }

  resume(): void {
    this.#operate('resume', async (_, db) => void (await resume(db)))
  }

  register(places: readonly ChainPlace[]): void {
    this.#operate('migrate', (_, db) =>
      registerChains(
        db,
        places.map(({ model }) => model.options),
      ),
    )
  }

  /** What a supervisor does for a process that it knows to be dead. */
  surrenderLeasesOf(dead: SimulatedProcess): void {
    this.#operate('supervisor', async (_, db) => void (await surrenderLeasesOf(db, dead.holder)))
  }

  #operate(
    name: string,
    work: (process: SimulatedProcess, db: Database, stop: AbortSignal) => Promise<void>,
  ): void {
    this.operators.add(this.#start(name, work))
  }

  #start(
    kind: string,
    work: (process: SimulatedProcess, db: Database, stop: AbortSignal) => Promise<void>,
  ): SimulatedProcess {
    this.#names += 1
    const name = `${kind} #${this.#names}`
    const random = new Random(`${this.seed}/process ${this.#names}`)
    const process = new SimulatedProcess(name, `${kind.replaceAll(' ', '-')}-${this.#names}`, random)
    this.#all.push(process)
    this.scheduler.log(`${name} starts`)
    const stop = new AbortController()
    this.#stops.set(process, stop)
    process.run(() => {
      const db = new Database({
        url: 'postgres://simulated/lockstep',
        schema: SCHEMA,
        holder: process.holder,
        writeTimeoutMs: this.options.writeTimeoutMs,
        logger: this.options.logger(name),
      })
      work(process, db, stop.signal)
        .finally(() => db.close())
        .then(
          () => this.#ended(process, null),
          (error: unknown) => this.#ended(process, error),
        )
    })
    return process
  }

  #ended(process: SimulatedProcess, error: unknown): void {
    this.scheduler.log(`${process.name} ended${error === null ? '' : `: ${(error as Error).message}`}`)
    if (error !== null && !isExpected(error)) this.options.onDefect(process.name, error)
    process.alive = false
    this.#forget(process)
    const chain = this.workers.get(process)
    if (chain !== undefined) this.restartLater(chain)
  }

  /** As whoever watches over workers does. */
  restartLater(chain: ChainKey): void {
    this.scheduler.after(null, this.random.between(200, 8000), () => {
      const place = this.chains.find(({ model }) => model.chain === chain)
      if (place && !place.retired && !this.workerOf(chain)) this.startWorker(place)
    })
  }

  workerOf(chain: ChainKey): SimulatedProcess | null {
    return [...this.workers].find(([process, its]) => its === chain && process.alive)?.[0] ?? null
  }

  stop(process: SimulatedProcess): void {
    process.run(() => this.#stops.get(process)?.abort())
  }

  async kill(process: SimulatedProcess): Promise<void> {
    this.scheduler.log(`${process.name} is killed`)
    await this.scheduler.kill(process)
    this.#forget(process)
  }

  freeze(process: SimulatedProcess, ms: number, deaf: boolean): void {
    this.scheduler.log(`${process.name} freezes${deaf ? ', out of reach of time-outs' : ''}`)
    process.frozen = true
    process.deaf = deaf
    this.scheduler.after(null, ms, () => this.thaw(process))
  }

  thaw(process: SimulatedProcess): void {
    if (!process.frozen) return
    this.scheduler.log(`${process.name} wakes`)
    process.frozen = false
    process.deaf = false
  }

  #forget(process: SimulatedProcess): void {
    this.operators.delete(process)
    if (this.coordinator === process) this.coordinator = null
  }
}

export function makeChain(
  seed: string,
  name: string,
  kind: (typeof CHAINS)[number][1],
  falls: boolean,
): ModelChain {
  const random = new Random(seed)
  const pace = {
    stepUs: random.pick([2_000_000, 6_000_000, 12_000_000]),
    equal: random.pick([0, 0.2, 0.5]),
    falling: falls ? random.pick([0, 0.15, 0.35]) : 0,
  }
  return new ModelChain(chainKey(name), kind, pace, random.pick([2, 4, 8]), random, {
    startHeight: random.pick([1, 1, 4]) as Height,
    endHeight: random.chance(0.15) ? (random.between(12, 30) as Height) : null,
    blocks: random.pick(['events', 'events', 'all'] as const),
  })
}

/** What a process may end with in a deployment that is disturbed. */
const isExpected = (error: unknown): boolean =>
  error instanceof LeaseLostError ||
  error instanceof RequestRefusedError ||
  error instanceof DatabaseUnavailableError ||
  (error as Error).name === 'AbortError'
