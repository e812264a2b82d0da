import { Writable } from 'node:stream'
import type { ChainOptions } from '@lockstep/config'
import { type ChainKey, type ChainSource, type TimeUs, timeFromSeconds } from '@lockstep/domain'
import { type RequestAnswer, requestRewind, type StepHook } from '@lockstep/rewind'
import { Database, Listener, readRewindState } from '@lockstep/store'
import { createLogger, type Logger, silentLogger } from '@lockstep/telemetry'
import {
  addressOf,
  type BlockWish,
  compareFacts,
  SimulatedCometChain,
  SimulatedCometNode,
  SimulatedEvmNode,
  transferLog,
  waitUntil,
} from '@lockstep/testkit'
import { createSource, runChainWorker } from '@lockstep/worker'
import { expect } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { type InProcessOptions, type InProcessWorker, startWorker } from '../kit/in-process-worker.js'

/** What a test sets up: everything is taken down by `end`, newest first, whatever happened. */
export class Scene {
  readonly #undo: (() => Promise<unknown>)[] = []

  /** Takes something down at the end. */
  later(undo: () => Promise<unknown>): void {
    this.#undo.push(undo)
  }

  /** A node of a chain with one block per wish on top of block `firstHeight`. */
  async evm(
    wishes: number | readonly BlockWish[],
    more: Partial<ConstructorParameters<typeof SimulatedEvmNode>[0]> = {},
  ): Promise<SimulatedEvmNode> {
    const node = new SimulatedEvmNode({ chainId: 1, ...more })
    node.extend(wishes)
    return this.serve(node)
  }

  async serve(node: SimulatedEvmNode): Promise<SimulatedEvmNode> {
    await node.start()
    this.later(() => node.stop())
    return node
  }

  async comet(chain: ConstructorParameters<typeof SimulatedCometChain>[0]): Promise<{
    chain: SimulatedCometChain
    node: SimulatedCometNode
  }> {
    const simulated = new SimulatedCometChain(chain)
    return { chain: simulated, node: await this.cometNode(simulated) }
  }

  async cometNode(chain: Parameters<typeof SimulatedCometNode.start>[0]): Promise<SimulatedCometNode> {
    const node = await SimulatedCometNode.start(chain)
    this.later(() => node.stop())
    return node
  }

  async deploy(...chains: ChainOptions[]): Promise<Stage> {
    const deployment = await createDeployment(chains)
    this.later(() => deployment.drop())
    return new Stage(this, deployment)
  }

  async end(): Promise<void> {
    const ends = []
    for (const undo of this.#undo.splice(0).reverse()) ends.push(await Promise.allSettled([undo()]))
    const failed = ends.flat().filter((each) => each.status === 'rejected')
    expect(failed).toEqual([])
  }
}

/** One deployment, and a look into it. */
export class Stage {
  readonly db: Database

  constructor(
    readonly scene: Scene,
    readonly deployment: Deployment,
  ) {
    this.db = deployment.open()
  }

  work(options: ChainOptions, more: InProcessOptions & { readonly url?: string } = {}): InProcessWorker {
    const { url, ...rest } = more
    const deployment = url === undefined ? this.deployment : this.#through(url)
    const worker = startWorker(deployment, options, { leaseMs: 5000, ...rest })
    this.scene.later(() => worker.stop().catch(() => {})) // a test that cares has awaited it
    return worker
  }

  /**
   * A worker whose notifications never come, as behind a pooler: it listens on another deployment's channel.
   * @param more.through stands between the worker and its nodes: makes it slow, say
   */
  workDeaf(
    options: ChainOptions,
    more: {
      readonly pollMs?: number
      readonly leaseMs?: number
      readonly through?: (source: ChainSource) => ChainSource
    } = {},
  ): { readonly db: Database; readonly ended: Promise<void> } {
    const { pollMs = 200, leaseMs = 5000, through = (source) => source } = more
    const logger = silentLogger()
    const db = this.deployment.open()
    const elsewhere = new Database({
      url: this.deployment.url,
      schema: 'elsewhere',
      holder: 'elsewhere',
      writeTimeoutMs: 5000,
      logger,
    })
    const listener = Listener.open(elsewhere)
    const source = through(createSource(options, logger))
    const stop = new AbortController()
    const rewind = { takeOverAfterMs: 600_000, searchTimeoutMs: 3000, writeTimeoutMs: 5000, pollMs }
    const ended = runChainWorker(
      {
        options,
        rewind,
        onFork: 'rollback',
        lease: { timeMs: leaseMs },
        progressMs: 60_000,
        db,
        listener,
        source,
        logger,
      },
      stop.signal,
    )
    ended.catch(() => {}) // seen by who awaits it
    this.scene.later(async () => {
      stop.abort()
      await ended.catch(() => {}) // one that lost its lease ends with an error; a test that cares has seen it
      await Promise.all([source.close(), listener.close()])
      await elsewhere.close()
    })
    return { db, ended }
  }

  #through(url: string): Deployment {
    return { ...this.deployment, open: (settings) => this.deployment.open({ ...settings, url }) }
  }

  async rows<Row extends Record<string, unknown>>(sql: string, values: unknown[] = []): Promise<Row[]> {
    return this.db.transaction(async (tx) => (await tx.query<Row>(sql, values)).rows)
  }

  /** The first column of all rows. */
  async list(sql: string, values: unknown[] = []): Promise<unknown[]> {
    return (await this.rows(sql, values)).map((row) => Object.values(row)[0])
  }

  /** The chain's checkpoint, as `{height, hash}`; nulls before the start. */
  async checkpoint(chain: string): Promise<{ height: number | null; hash: string | null }> {
    const [row] = await this.rows<{ height: number | null; hash: string | null }>(
      `select height, '0x' || encode(hash, 'hex') as hash from checkpoint where chain = $1`,
      [chain],
    )
    return row ?? { height: null, hash: null }
  }

  status(chain: string): Promise<{ phase: string; reason: string | null; finalized: number | null } | null> {
    return this.rows<{ phase: string; reason: string | null; finalized: number | null }>(
      'select phase, reason, finalized_height as finalized from chain_status where chain = $1',
      [chain],
    ).then((rows) => rows[0] ?? null)
  }

  until(what: string, ask: () => Promise<unknown>, timeoutMs = 60_000): Promise<unknown> {
    return waitUntil(what, async () => ((await ask()) ? true : null), timeoutMs, 30)
  }

  untilPhase(chain: string, phase: string, reason: RegExp = /(?:)/): Promise<unknown> {
    return this.until(`${chain} to be ${phase} (${reason})`, async () => {
      const status = await this.status(chain)
      return status?.phase === phase && reason.test(status.reason ?? '')
    })
  }

  /** Waits until everything up to the node's head, and of its branch, is stored. */
  untilAt(chain: string, head: { readonly height: number; readonly hash: string }): Promise<unknown> {
    return this.until(`${chain} to reach ${head.height} (${head.hash})`, async () => {
      const { height, hash } = await this.checkpoint(chain)
      return height === head.height && hash === head.hash
    })
  }

  async rewind(to: number | TimeUs, onStep?: StepHook): Promise<RequestAnswer> {
    const timestamp = typeof to === 'number' ? timeFromSeconds(to) : to
    return requestRewind(this.db, {
      request: { timestamp, reason: null, who: 'test' },
      ...(onStep && { onStep }),
    })
  }

  untilReleased(timeoutMs = 60_000): Promise<unknown> {
    return this.until(
      'the release',
      async () => (await this.db.transaction(readRewindState)).lock === null,
      timeoutMs,
    )
  }

  async waitingFor(): Promise<ChainKey[]> {
    return (await this.db.transaction(readRewindState)).waitingFor.map((row) => row.chain)
  }

  /** Everything that belongs to one chain and is not of a run. */
  async digestOf(chain: string): Promise<unknown> {
    const tables = [
      'event',
      'block',
      'transaction',
      'header',
      'checkpoint',
      'contract_registry',
      'backfill_ranges',
    ]
    return Promise.all(
      tables.map((table) =>
        this.list(
          `select (to_jsonb(t) - 'token' - 'holder')::text from ${table} t where chain = $1 order by 1`,
          [chain],
        ),
      ),
    )
  }

  /** Compares with a new deployment whose workers only ever saw the chains as they are now. */
  async expectFresh(...chains: ChainOptions[]): Promise<void> {
    await this.expectFreshBy((fresh, options) => fresh.work(options), ...chains)
  }

  /** As `expectFresh`, with workers of the test's own making. */
  async expectFreshBy(
    work: (fresh: Stage, options: ChainOptions) => InProcessWorker,
    ...chains: ChainOptions[]
  ): Promise<void> {
    const fresh = await this.scene.deploy(...chains)
    const workers = chains.map((options) => work(fresh, options))
    for (const { chain } of chains) {
      const { height } = await this.checkpoint(chain)
      await fresh.until(
        `a fresh index to reach ${chain} ${height}`,
        async () => (await fresh.checkpoint(chain)).height === height,
      )
    }
    await Promise.all(workers.map((worker) => worker.stop()))
    const { differences } = await compareFacts(this.deployment, fresh.deployment)
    expect(differences).toEqual([])
  }
}

export const headOf = (node: SimulatedEvmNode): { height: number; hash: string } => ({
  height: node.chain.head.number,
  hash: node.chain.head.hash,
})

export const cometHeadOf = (chain: SimulatedCometChain): { height: number; hash: string } => ({
  height: chain.head,
  hash: chain.ref(chain.head).hash,
})

export const TOKEN = addressOf(0x70)

/** A block with one transfer of so much. */
export const transfer = (value: number | bigint, more: Partial<BlockWish> = {}): BlockWish => ({
  logs: [transferLog({ token: TOKEN, from: addressOf(0xa), to: addressOf(0xb), value: BigInt(value) })],
  ...more,
})

export const transfers = (count: number, from = 1): BlockWish[] =>
  Array.from({ length: count }, (_, index) => transfer(from + index))

/** A logger, and its lines so far. */
export function recordingLogger(): { logger: Logger; lines: { msg: string; [field: string]: unknown }[] } {
  const lines: { msg: string; [field: string]: unknown }[] = []
  const destination = new Writable({
    decodeStrings: false,
    write: (text, _encoding, done) => {
      lines.push(JSON.parse(String(text)))
      done()
    },
  })
  return { logger: createLogger({ level: 'info', format: 'json', destination }), lines }
}
