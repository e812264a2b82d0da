/*
 * Goal: whatever happens at once (forks, stalls, lies, lost connections, ended sessions, restarts, rewinds), the
 * promises hold on the way, and once it is quiet the tables are those of a fresh index.
 *
 * Method: a seed chooses the disorder over two EVM chains and one Cosmos chain, followed by workers in this process
 * into a real database. A watcher reads the tables all the while, each time in one statement, so of one moment.
 * LOCKSTEP_SEED replays one seed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChainOptions, CosmosChainOptions } from '@lockstep/config'
import { chainKey, LeaseLostError, RequestRefusedError, timeFromSeconds } from '@lockstep/domain'
import { evmChainOptions, type SimulatedCometChain, type SimulatedEvmNode } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { cosmosChainOptions } from '../../packages/testkit/src/comet/index.js'
import type { InProcessWorker } from '../kit/in-process-worker.js'
import { cometHeadOf, headOf, Scene, type Stage, transfer, transfers } from './scene.js'

const SEEDS = [1, 2, 3, 4, 5, 6]
const STEPS = 40
/** Below every finality here, so that no fork replaces what is final. */
const FORK_DEPTH_MAX = 8
const FINALITY = 12
const START = 1_700_000_000

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const replayed = process.env.LOCKSTEP_SEED
for (const seed of replayed === undefined ? SEEDS : [Number(replayed)]) {
  test(`seed ${seed}: after ${STEPS} steps of disorder the tables are those of a fresh index`, async () => {
    const world = await World.create(seed)
    const watch = new Watch(world.stage)
    try {
      for (let step = 0; step < STEPS; step++) await world.disturb()
      await world.quieten()
    } finally {
      console.info(`seed ${seed}: ${world.story.join(' ')}`)
      await watch.stop()
    }
    expect(watch.broken).toEqual([])
    expect(world.defects).toEqual([])
    await world.stage.expectFresh(...world.chains)
  })
}

class World {
  /** What was done, for who replays it. */
  readonly story: string[] = []
  readonly workers = new Map<string, InProcessWorker>()
  /** What ended a worker and should not have. */
  readonly defects: unknown[] = []
  /** Not the seed's own: nodes draw from it at moments that no seed decides. */
  readonly noise = new Random(0)
  #over = false

  private constructor(
    readonly random: Random,
    readonly stage: Stage,
    readonly evm: ReadonlyMap<string, SimulatedEvmNode>,
    readonly comet: Awaited<ReturnType<Scene['comet']>>,
    readonly chains: readonly ChainOptions[],
  ) {}

  static async create(seed: number): Promise<World> {
    const random = new Random(seed)
    const evm = new Map<string, SimulatedEvmNode>()
    const chains: ChainOptions[] = []
    for (const [chain, blockTime] of [
      ['alpha', 12],
      ['beta', 2],
    ] as const) {
      const node = await scene.evm(transfers(40), { seed, chainId: 1, blockTime, firstTime: START })
      node.chain.finalizedDepth = FINALITY
      evm.set(chain, node)
      chains.push(
        evmChainOptions({
          chain: chainKey(chain),
          rpc: [node.url],
          pollMs: 25,
          blocks: random.of(['events', 'all']),
        }),
      )
    }
    const comet = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
    comet.chain.extend(cometBlocks(random, comet.chain, 40))
    chains.push(gammaOptions(comet.node.url))
    const stage = await scene.deploy(...chains)
    const world = new World(random, stage, evm, comet, chains)
    for (const { chain } of chains) world.#start(chain)
    return world
  }

  async disturb(): Promise<void> {
    const acts = [
      this.#grow,
      this.#grow,
      this.#fork,
      this.#fork,
      this.#misbehave,
      this.#cure,
      this.#rewind,
      this.#endSession,
      this.#restart,
    ]
    await this.random.of(acts).call(this)
    await sleep(this.random.below(120))
  }

  /** Every node well, every worker there, everything stored up to the heads. */
  async quieten(): Promise<void> {
    for (const chain of this.evm.keys()) this.#cureEvm(chain)
    this.comet.node.lowerHead(null)
    this.comet.node.server.disturb = () => null
    this.comet.node.server.dropConnections()
    await this.stage.untilReleased()
    for (const node of this.evm.values()) node.extend(transfers(2))
    this.comet.chain.extend(cometBlocks(this.random, this.comet.chain, 2))
    for (const [chain, node] of this.evm) await this.stage.untilAt(chain, headOf(node))
    await this.stage.untilAt('gamma', cometHeadOf(this.comet.chain))
    this.#over = true
  }

  #start(chain: string): void {
    const options = this.chains.find((each) => each.chain === chain) as ChainOptions
    const worker = this.stage.work(options, { searchTimeoutMs: 500, takeOverAfterMs: 1000 })
    this.workers.set(chain, worker)
    worker.ended.catch((error: unknown) => {
      // As its supervisor would: a worker that lost its lease is started again.
      if (!(error instanceof LeaseLostError)) this.defects.push(error)
      if (!this.#over && this.workers.get(chain) === worker) this.#start(chain)
    })
  }

  async #grow(): Promise<void> {
    const count = 1 + this.random.below(30)
    this.#tell(`grow(${count})`)
    for (const node of this.evm.values()) node.extend(evmBlocks(this.random, node, count))
    this.comet.chain.extend(cometBlocks(this.random, this.comet.chain, count))
  }

  async #fork(): Promise<void> {
    const depth = 1 + this.random.below(FORK_DEPTH_MAX)
    const growth = depth + this.random.below(3) // a head never falls by a fork: what is final stays so
    const chain = this.random.of([...this.evm.keys(), 'gamma'])
    this.#tell(`fork(${chain},${depth})`)
    const node = this.evm.get(chain)
    if (node === undefined) {
      this.comet.chain.rollback(depth)
      this.comet.chain.extend(cometBlocks(this.random, this.comet.chain, growth))
    } else {
      node.rollback(depth)
      node.extend(evmBlocks(this.random, node, growth))
    }
  }

  async #misbehave(): Promise<void> {
    const chain = this.random.of([...this.evm.keys(), 'gamma'])
    const how = this.random.of(['stall', 'behind', 'hang', 'refuse', 'drop', 'lie'] as const)
    this.#tell(`${how}(${chain})`)
    const node = this.evm.get(chain)
    const fault = {
      hang: { kind: 'hang' },
      refuse: { kind: 'status', status: 503 },
      drop: { kind: 'drop' },
    } as const
    if (how === 'hang' || how === 'refuse' || how === 'drop') {
      const often = this.random.of([0.2, 1])
      const disturb = () => (this.noise.fraction() < often ? fault[how] : null)
      if (node) node.disturb = disturb
      else this.comet.node.server.disturb = disturb
    } else if (node === undefined)
      this.comet.node.lowerHead(this.comet.chain.head - (how === 'stall' ? 0 : this.random.below(20)))
    else if (how === 'stall') node.stall()
    else if (how === 'behind') node.lowerHead(this.random.below(20))
    else
      node.answer('eth_getBlockByNumber', (_, honest) => {
        const block = honest() as Record<string, unknown> | null
        return block && this.noise.fraction() < 0.3 ? { ...block, hash: `0x${'1e'.repeat(32)}` } : block
      })
  }

  async #cure(): Promise<void> {
    this.#tell('cure')
    for (const chain of this.evm.keys()) this.#cureEvm(chain)
    this.comet.node.lowerHead(null)
    this.comet.node.server.disturb = () => null
    this.comet.node.server.dropConnections()
  }

  #cureEvm(chain: string): void {
    const node = this.evm.get(chain)
    node?.resume()
    node?.lowerHead(0)
    node?.answer('eth_getBlockByNumber', null)
    if (node) node.disturb = () => null
    node?.dropConnections()
  }

  async #rewind(): Promise<void> {
    const back = this.random.below(400)
    this.#tell(`rewind(-${back})`)
    const newest = this.evm.get('beta')?.chain.head.time ?? START
    await this.stage.rewind(newest - back).catch((error: unknown) => {
      if (!(error instanceof RequestRefusedError)) throw error // an earlier one runs
    })
  }

  async #endSession(): Promise<void> {
    this.#tell('end-session')
    await this.stage.list(
      `select pg_terminate_backend(pid) from (select pid from pg_stat_activity where datname = current_database()
        and application_name like 'lockstep:%' and application_name <> $1 order by md5(pid::text || $2) limit 1) chosen`,
      [`lockstep:${this.stage.db.holder}`, String(this.random.below(1000))],
    )
  }

  async #restart(): Promise<void> {
    const chain = this.random.of(['alpha', 'beta', 'gamma'])
    this.#tell(`restart(${chain})`)
    const worker = this.workers.get(chain)
    this.workers.delete(chain)
    await worker?.stop().catch(() => {}) // seen where it was started
    this.#start(chain)
  }

  #tell(what: string): void {
    this.story.push(what)
  }
}

const gammaOptions = (url: string): CosmosChainOptions =>
  cosmosChainOptions({
    chain: chainKey('gamma'),
    rpc: [url],
    pollMs: 25,
    finality: { by: 'depth', depth: FINALITY },
  })

/** Some hold events, some do not; some times repeat, a few fall. */
const evmBlocks = (random: Random, node: SimulatedEvmNode, count: number) => {
  let time = node.chain.head.time
  return Array.from({ length: count }, () => {
    time += random.of([2, 2, 12, 12, 0, -3])
    return { ...(random.fraction() < 0.6 ? transfer(random.below(1e6)) : {}), time }
  })
}

const cometBlocks = (random: Random, chain: SimulatedCometChain, count: number) =>
  Array.from({ length: count }, (_, index) => ({
    time: timeFromSeconds(START + (chain.head + index) * 5),
    txs: Array.from({ length: random.below(3) }, () => ({
      events: [{ type: 'transfer', attributes: [['amount', String(random.below(1e6))]] as const }],
    })),
  }))

/** mulberry32: small, and the same everywhere. */
class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed
  }

  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }

  below(limit: number): number {
    return Math.floor(this.fraction() * limit)
  }

  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T
  }
}

/** What holds at every moment; each query counts what breaks it. */
const PROMISES: Readonly<Record<string, string>> = {
  'a chain that is done with a rewind holds nothing after its moment': `
    select count(*) from (select chain, block_time from block union all select chain, block_time from event
      union all select chain, block_time from header union all select chain, block_time from checkpoint) stored,
      _global lock
    where lock.key = 'rewind_lock' and stored.block_time > (lock.value ->> 'timestamp')::timestamptz
      and not exists (select from _global own where own.key = 'rewind_timestamp_' || stored.chain)`,
  'nothing is stored above a checkpoint': `
    select count(*) from (select chain, height from block union all select chain, height from event
      union all select chain, height from header) stored join checkpoint c using (chain)
    where c.height is null or stored.height > c.height`,
  'stored neighbours are linked': `
    with stored as (select chain, height, hash, parent_hash from block union all
      select chain, height, hash, parent_hash from header)
    select count(*) from stored a join stored b on b.chain = a.chain and b.height = a.height + 1
    where b.parent_hash is distinct from a.hash`,
  'every event is of a stored block': `
    select count(*) from event e where not exists (
      select from block b where b.chain = e.chain and b.height = e.height and b.hash = e.block_hash)`,
  'a row of a chain is there only while the lock is': `
    select count(*) from _global where starts_with(key, 'rewind_timestamp_')
      and not exists (select from _global where key = 'rewind_lock')`,
}

class Watch {
  readonly broken: string[] = []
  #stopped = false
  readonly #watching: Promise<void>

  constructor(readonly stage: Stage) {
    this.#watching = this.#watch()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#watching
  }

  async #watch(): Promise<void> {
    while (!this.#stopped) {
      for (const [promise, sql] of Object.entries(PROMISES)) {
        const [count] = await this.stage.list(sql)
        if (count !== 0) this.broken.push(`${promise} (${count})`)
      }
      await sleep(20)
    }
  }
}
