import { Database, migrate, registerChains } from '@lockstep/store'
import { type Logger, silentLogger } from '@lockstep/telemetry'
import { mixtureOf } from './disturbances.js'
import { interpose } from './interpose.js'
import { type Picture, takePicture } from './picture.js'
import { checkCommit, PromiseBroken } from './promises.js'
import { calmDown } from './quiet.js'
import { Random } from './random.js'
import { RewindBook } from './rewind-book.js'
import { Scheduler } from './scheduler.js'
import type { Committed } from './session-book.js'
import { outside } from './simulated-process.js'
import { SCHEMA, type SimulatedServer } from './simulated-server.js'
import { CHAINS, makeChain, World } from './world.js'

export interface SimulationOptions {
  readonly seed: number
  /** Disturbances. */
  readonly steps: number
  /** What the processes log. */
  readonly logger?: (process: string) => Logger
}

export interface SimulationResult {
  readonly seed: number
  readonly steps: number
  /** Of the whole trace: equal for equal seeds. */
  readonly digest: string
  readonly trace: readonly string[]
  readonly virtualSeconds: number
  /** The promise that was broken, and how. */
  readonly failure: { readonly promise: string; readonly detail: string } | null
}

/** Disturbances between two quiet points. */
const QUIET_EVERY = 40

/** Makes a database ready for simulations. */
export async function prepareDatabase(url: string): Promise<void> {
  const db = new Database({
    url,
    schema: SCHEMA,
    holder: 'simulation',
    writeTimeoutMs: 60_000,
    logger: silentLogger(),
  })
  try {
    await migrate(db, 'indexed')
    const all = CHAINS.map(([name, kind]) => makeChain('', name, kind, false).options)
    await registerChains(db, all) // makes the partitions
  } finally {
    await db.close()
  }
}

/** Runs one seed to its end, or to the first promise that is broken. */
export async function simulate(
  server: SimulatedServer,
  options: SimulationOptions,
): Promise<SimulationResult> {
  const run = new Run(server, options)
  const giveBack = interpose(run.scheduler)
  try {
    await outside(() => run.go())
  } finally {
    await run.scheduler.close(run.world.processes)
    giveBack()
  }
  return run.result()
}

class Run {
  readonly scheduler: Scheduler
  readonly world: World
  readonly #random: Random
  readonly #book = new RewindBook()
  #before: Picture | null = null
  #failure: SimulationResult['failure'] = null

  constructor(
    readonly server: SimulatedServer,
    readonly options: SimulationOptions,
  ) {
    const { seed } = options
    this.#random = new Random(`${seed}/environment`)
    this.scheduler = new Scheduler(server, new Random(`${seed}/scheduler`), {
      committed: (commit) => this.#check(commit),
      deadlocked: (labels) => this.#fail('no deadlock', labels.join(' | ')),
    })
    const leaseMs = this.#random.pick([3000, 8000])
    this.world = new World(seed, this.scheduler, this.#random, {
      chains: this.#random.between(2, CHAINS.length),
      onFork: this.#random.pick(['rollback', 'rewind']),
      leaseMs,
      takeOverAfterMs: this.#random.pick([2000, 2 * leaseMs]),
      writeTimeoutMs: this.#random.pick([1000, leaseMs]),
      pollMs: this.#random.pick([300, 1000, 5000]),
      logger: options.logger ?? (() => silentLogger()),
      onDefect: (process, error) => this.#fail('no defect', `${process}: ${(error as Error).stack ?? error}`),
    })
  }

  async go(): Promise<void> {
    const onRejection = (error: unknown) =>
      this.#fail('no defect', `unhandled: ${(error as Error).stack ?? error}`)
    process.on('unhandledRejection', onRejection)
    try {
      await this.#start()
      await this.#disturb()
      await this.#quiet()
    } catch (error) {
      if (!(error instanceof PromiseBroken)) throw error
      this.#fail(error.promise, error.detail)
    } finally {
      process.off('unhandledRejection', onRejection)
    }
  }

  result(): SimulationResult {
    const { seed, steps } = this.options
    const { digest, trace, now, epoch } = this.scheduler
    return { seed, steps, digest, trace, virtualSeconds: (now - epoch) / 1000, failure: this.#failure }
  }

  async #start(): Promise<void> {
    await this.server.clean()
    await this.server.setClock(this.scheduler.now)
    this.world.makeChains()
    const late = this.#random.chance(0.15) ? this.world.chains.length - 1 : this.world.chains.length
    this.world.register(this.world.chains.slice(0, late))
    for (const place of this.world.chains) this.world.startWorker(place)
    if (this.#random.chance(0.7)) this.world.startCoordinator()
  }

  async #disturb(): Promise<void> {
    const random = this.#random
    const disturb = mixtureOf(random)
    const timeRate = random.pick([0.005, 0.02, 0.1])
    const between = random.pick([
      [1, 5, 15, 40],
      [0, 1, 3, 8],
      [10, 30, 80],
    ])
    await this.#steps(random.pick([10, 150, 150, 300, 300, 600]), timeRate)
    for (let step = 1; step <= this.options.steps && this.#failure === null; step++) {
      await disturb(this.world)
      await this.#steps(random.pick(between), timeRate)
      if (step % QUIET_EVERY === 0 && step < this.options.steps) await this.#quiet()
    }
  }

  async #steps(count: number, timeRate: number): Promise<void> {
    for (let index = 0; index < count && this.#failure === null; index++) {
      if (!(await this.scheduler.step(timeRate))) return
    }
  }

  async #quiet(): Promise<void> {
    if (this.#failure === null)
      await calmDown(this.world, this.server, this.#book, () => this.#failure !== null)
  }

  async #check(commit: Committed): Promise<void> {
    if (!commit.statements.some(({ text }) => CHANGES.test(text))) return
    const after = await takePicture(this.server)
    const models = new Map(this.world.chains.map(({ model }) => [model.chain, model]))
    if (this.#before) checkCommit(commit, this.#before, after, models)
    this.#book.note(commit, this.#before, after, this.scheduler.now)
    this.#before = after
  }

  /** The first one counts: what follows may be its consequence. */
  #fail(promise: string, detail: string): void {
    if (this.#failure !== null) return
    this.#failure = { promise, detail }
    this.scheduler.log(`!! ${promise}: ${detail.split('\n')[0]}`)
  }
}

/** Statements that change what the promises speak of. */
const CHANGES =
  /(insert into|update|delete from) (checkpoint|_global|block|event|header|rewind|rewind_chain|chain)\b/
