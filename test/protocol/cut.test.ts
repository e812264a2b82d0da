/**
 * Goal: a rewind removes exactly what lies after T, and leaves each chain at the right height, whatever its node says.
 * Method: chains stored from a simulated node over HTTP, with equal, falling and uneven times; the node is taken away,
 * pruned, behind, slow or on another branch. Then random chains and random stored subsets against a linear scan.
 */
import { bisectionSteps, type ChainSource, height } from '@lockstep/domain'
import { type Cut, findCut, requestRewind, takePart } from '@lockstep/rewind'
import {
  type ChainWriter,
  type Database,
  putCutHint,
  readChain,
  readCheckpoint,
  readRewindState,
  writeBatch,
} from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { EvmNode, evmChainOptions, SimulatedEvmNode } from '@lockstep/testkit'
import { createSource } from '@lockstep/worker'
import fc from 'fast-check'
import { afterEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { globalKeys, readRows, storedHeights } from '../store/read-rows.js'
import {
  ALPHA,
  at,
  BETA,
  batchOf,
  block,
  chainOptions,
  event,
  GAMMA,
  heightOf,
  steady,
  takeChain,
  withEvents,
  writeBlocks,
} from '../store/written-chain.js'
import { ownRow, requestOf, rewindChain } from './chain-rewind.js'

const ORIGIN = 1_700_000_000

/** A chain on a simulated node, of which some heights are stored. */
class Scene {
  private constructor(
    readonly deployment: Deployment,
    readonly db: Database,
    readonly node: SimulatedEvmNode,
    readonly source: ChainSource,
    public writer: ChainWriter,
  ) {}

  /** Blocks from `first` on at these seconds after the origin; `stored` are heights, facts if even, headers if odd. */
  static async create(
    times: readonly number[],
    { first = 0, stored }: { first?: number; stored: readonly number[] },
  ): Promise<Scene> {
    const [firstTime = 0, ...others] = times.map((seconds) => ORIGIN + seconds)
    const node = new SimulatedEvmNode({ chainId: 1, firstHeight: first, firstTime })
    node.extend(others.map((time) => ({ time })))
    const options = evmChainOptions({ rpc: [await node.start()], startHeight: height(first) })
    const deployment = await createDeployment([options])
    const db = deployment.open()
    const scene = new Scene(
      deployment,
      db,
      node,
      createSource(options, silentLogger()),
      await takeChain(db, ALPHA),
    )
    for (const h of stored) await scene.store([h])
    return scene
  }

  /** Stores these heights in one write. */
  async store(heights: readonly number[]): Promise<void> {
    const refs = heights.map((h) => {
      const served = this.node.chain.at(h)
      if (served === null) throw new Error(`the node has no block ${h}`)
      return { ...block(h, served.time - ORIGIN), hash: served.hash, parentHash: served.parentHash }
    })
    const facts = refs.filter((ref) => ref.height % 2 === 0).map((ref) => withEvents(ref, event(0)))
    const batch = batchOf(facts, { headers: refs.filter((ref) => ref.height % 2 === 1) })
    this.writer = await writeBatch(this.db, this.writer, batch)
  }

  /** Everything is taken away, and another chain stands in its place. */
  async become(times: readonly number[]): Promise<void> {
    await this.rewindTo(-1_000_000, { node: false })
    await readRows(this.deployment, 'update chain set times_fell = false')
    this.node.rollback(this.node.chain.head.number) // down to block 0, which lies far below all times
    this.node.extend(times.map((seconds) => ({ time: ORIGIN + seconds })))
  }

  async rewindTo(
    seconds: number,
    { node = true, timeoutMs = 10_000 } = {},
  ): Promise<Cut & { height: number | null }> {
    await requestRewind(this.db, requestOf(at(seconds)))
    const row = await ownRow(this.db, this.writer.chain)
    const options = { source: node ? this.source : null, timeoutMs }
    const cut = await findCut(this.db, row, options)
    const part = await takePart(this.db, this.writer, row, { ...options, logger: silentLogger() })
    this.writer = part.writer
    return { ...cut, height: heightOf(part.writer) }
  }

  stored = () => storedHeights(this.deployment, this.writer.chain)

  async close(): Promise<void> {
    await this.source.close()
    await this.node.stop()
    await this.deployment.drop()
  }
}

let scene: Scene | null = null
afterEach(async () => {
  await scene?.close()
  scene = null
})

const start = async (...given: Parameters<typeof Scene.create>): Promise<Scene> => {
  scene = await Scene.create(...given)
  return scene
}

const TENS = Array.from({ length: 101 }, (_, index) => index * 10)

test('between two stored blocks the node tells the exact height, in a handful of headers', async () => {
  const chain = await start(TENS, { stored: [0, 100] })
  const cut = await chain.rewindTo(425)
  expect(cut).toMatchObject({ by: 'search', height: 42, note: null })
  expect(cut.reads).toBeLessThanOrEqual(4)
  expect(await chain.stored()).toEqual([0])
  expect(await chain.db.transaction((tx) => readCheckpoint(tx, ALPHA))).toEqual({
    height: 42,
    hash: chain.node.chain.at(42)?.hash,
    time: at(420),
  })
})

test('where the stored blocks leave nothing open no node is asked', async () => {
  const chain = await start(TENS, { stored: [41, 42, 43, 44] })
  expect(await chain.rewindTo(425)).toMatchObject({ by: 'stored', height: 42, reads: 0 })
  expect(chain.node.calls).toHaveLength(0)
  expect(await chain.stored()).toEqual([41, 42])
})

test('a checkpoint that an earlier rewind took from the node is itself found to lie after T', async () => {
  const chain = await start(TENS, { stored: [0, 100] })
  expect((await chain.rewindTo(425)).height).toBe(42)
  const again = await chain.rewindTo(201)
  expect(again).toMatchObject({ by: 'search', height: 20 })
  expect(await chain.rewindTo(200)).toMatchObject({ by: 'unchanged', height: 20, reads: 0 })
  expect(await chain.rewindTo(-1)).toMatchObject({ height: null })
  expect(await chain.stored()).toEqual([])
})

const troubles: readonly [string, (node: SimulatedEvmNode) => unknown][] = [
  ['is down', (node) => node.stop()],
  ['has pruned the heights between', (node) => node.prune(90)],
  ['answers null between', (node) => node.hide(...Array.from({ length: 99 }, (_, index) => index + 1))],
  ['is behind', (node) => node.lowerHead(95)],
  ['is of another chain', (node) => Object.assign(node, { reportedChainId: 77 })],
  ['answers nonsense', (node) => node.answer('eth_getBlockByNumber', () => ({ number: 'soon' }))],
  [
    'is slower than the time-out',
    (node) => {
      node.latencyMs = 60_000
    },
  ],
]
test.each(troubles)(
  'a node that %s: the last stored block below serves, and nothing else is lost',
  async (_, trouble) => {
    const chain = await start(TENS, { stored: [0, 10, 100] })
    await trouble(chain.node)
    const cut = await chain.rewindTo(425, { timeoutMs: 1500 })
    expect(cut).toMatchObject({ by: 'stored', height: 10, note: expect.stringMatching(/.+/) })
    expect(await chain.stored()).toEqual([0, 10])
    expect(await globalKeys(chain.deployment)).toEqual(['epoch'])
  },
)

test.each([
  ['that fits', 42, { by: 'hint', height: 42 }],
  ['at the height that goes', 100, { by: 'stored', height: 10 }],
  ['at or below the last stored block', 10, { by: 'stored', height: 10 }],
])('without a node a hint %s is judged by the stored blocks', async (_, hinted, expected) => {
  const chain = await start(TENS, { stored: [0, 10, 100] })
  await requestRewind(chain.db, requestOf(at(425)))
  const row = await ownRow(chain.db, ALPHA)
  const hint = { height: height(hinted), hash: '0x42' as const, time: at(hinted * 10) }
  await chain.db.transaction((tx) => putCutHint(tx, row, hint))
  const cut = await findCut(chain.db, await ownRow(chain.db, ALPHA), { source: null, timeoutMs: 0 })
  const part = await rewindChain(chain.db, chain.writer)
  expect({ by: cut.by, height: heightOf(part.writer) }).toEqual(expected)
  expect(await chain.stored()).toEqual([0, 10])
})

test('a node on another branch: what is removed is the same, and the stored blocks below stay', async () => {
  const chain = await start(TENS, { stored: [0, 10, 100] })
  chain.node.fork(95) // from block 6 on, with other hashes and times
  const cut = await chain.rewindTo(425)
  expect(cut.height).toBeGreaterThanOrEqual(10)
  expect(cut.height).toBeLessThan(100)
  expect(await chain.stored()).toEqual([0, 10])
})

/** Whether a node shows the branch it forked to, or still the stored one, at the nth header that it is asked for. */
type ShowsFork = (height: number, nth: number, sawHigh: boolean) => boolean
const switches: readonly [string, number, ShowsFork][] = [
  ['showed a fork until the stored block was read', 425, (h, _, sawHigh) => h !== 100 && !sawHigh],
  ['showed a fork until the stored block just above the cut was read', 995, (h) => h !== 100],
  ['showed a fork when the block above the cut was read', 425, (h) => h === 43],
  ['stands for nodes with and without a fork, in turn', 425, (_, nth) => nth % 2 === 1],
]
test.each(switches)(
  'a node that %s: no block of the fork becomes the checkpoint',
  async (_, seconds, showsFork) => {
    const chain = await start(TENS, { stored: [0, 10, 100] })
    const before = new EvmNode(chain.node.chain.snapshot())
    const options = evmChainOptions({ rpc: [await before.start()], startHeight: height(0) })
    const old = createSource(options, silentLogger())
    try {
      chain.node.fork(
        95,
        Array.from({ length: 95 }, (_, index) => ({ time: ORIGIN + 60 + index * 10 })),
      )
      const asked: number[] = []
      const source: ChainSource = {
        ...old,
        header: (h, signal) => {
          const forked = showsFork(h, asked.length, asked.includes(100))
          asked.push(h)
          return (forked ? chain.source : old).header(h, signal)
        },
      }
      await requestRewind(chain.db, requestOf(at(seconds)))
      const row = await ownRow(chain.db, ALPHA)
      const cut = await findCut(chain.db, row, { source, timeoutMs: 10_000 })
      expect(cut).toMatchObject({
        by: 'stored',
        checkpoint: { height: 10 },
        note: 'the node changed branches while it was asked',
        reads: asked.length,
      })
      expect(asked.length).toBeLessThanOrEqual(2 * bisectionSteps(90) + 1)
    } finally {
      await old.close()
      await before.stop()
    }
  },
)

test('a cut just below the stored block that goes is proved by that one, and one that is stored needs no proof', async () => {
  const chain = await start(TENS, { stored: [0, 10, 100] })
  await requestRewind(chain.db, requestOf(at(995)))
  const row = await ownRow(chain.db, ALPHA)
  const options = { source: chain.source, timeoutMs: 10_000 }
  const just = await findCut(chain.db, row, options)
  expect(just).toMatchObject({ by: 'search', checkpoint: { height: 99 }, reads: 2 }) // 99, and 100 for its parent
  chain.node.fork(95)
  const stored = await findCut(chain.db, { ...row, timestamp: at(105) }, options)
  expect(stored).toMatchObject({ by: 'search', checkpoint: { height: 10 }, note: null })
})

test('a rewind that is called off while the node is asked does not wait for it', async () => {
  const chain = await start(TENS, { stored: [0, 100] })
  chain.node.latencyMs = 60_000
  await requestRewind(chain.db, requestOf(at(425)))
  const abort = new AbortController()
  const asking = findCut(chain.db, await ownRow(chain.db, ALPHA), {
    source: chain.source,
    timeoutMs: 120_000,
    signal: abort.signal,
  })
  setTimeout(() => abort.abort(new Error('called off')), 200)
  await expect(asking).rejects.toThrow('called off')
})

test('equal block times give one definite cut, with any stored subset', async () => {
  const times = [0, 1, 2, 2, 2, 2, 3]
  for (const stored of [[10, 11, 12, 13, 14, 15, 16], [10, 16], [10, 14, 16], [13, 16], [16]]) {
    for (const [seconds, expected] of [
      [2, 15],
      [1, 11],
    ] as const) {
      const chain = await start(times, { first: 10, stored })
      expect({ stored, cut: (await chain.rewindTo(seconds)).height }).toEqual({ stored, cut: expected })
      expect(await chain.stored()).toEqual(stored.filter((h) => h <= expected))
      await chain.close()
      scene = null
    }
  }
})

test('a chain of nothing but equal times is kept whole or goes whole', async () => {
  const chain = await start(Array(21).fill(2), { first: 20, stored: [20, 30, 40] })
  expect(await chain.rewindTo(2)).toMatchObject({ height: 40, by: 'unchanged' })
  expect(await chain.rewindTo(1)).toMatchObject({ height: null })
  expect(await chain.stored()).toEqual([])
})

test('a genesis with time zero, and T below, at and above it', async () => {
  const zero = -ORIGIN
  const chain = await start([zero, zero, 0, 12], { stored: [0, 1, 2, 3] })
  expect((await chain.rewindTo(5)).height).toBe(2)
  expect((await chain.rewindTo(-1)).height).toBe(1)
  expect((await chain.rewindTo(zero)).height).toBe(1)
})

test('T before, at and between the edges of a chain', async () => {
  const times = Array.from({ length: 1001 }, (_, index) => 1000 + index * 2)
  const stored = [1000, 1001, 1500, 2000]
  for (const [seconds, cut, left] of [
    [9999, 2000, stored],
    [3000, 2000, stored],
    [2500, 1750, [1000, 1001, 1500]],
    [1000, 1000, [1000]],
    [999, null, []],
    [500, null, []],
  ] as const) {
    const chain = await start(times, { first: 1000, stored })
    expect({ seconds, cut: (await chain.rewindTo(seconds)).height }).toEqual({ seconds, cut })
    expect(await chain.stored()).toEqual(left)
    await chain.close()
    scene = null
  }
})

test('T before the start where the first stored block is far above it: the node is asked, and nothing is kept', async () => {
  const chain = await start(TENS, { stored: [64, 100] })
  expect(await chain.rewindTo(-5)).toMatchObject({ by: 'search', height: null })
  expect(await chain.stored()).toEqual([])
})

test('where times fell, the lowest height after T is where the chain is cut, not the first time after T', async () => {
  const chain = await start([0, 10, 90, 20, 50, 60], { stored: [0, 1, 2, 3, 4, 5] })
  expect(await chain.db.transaction((tx) => readChain(tx, ALPHA))).toMatchObject({ timesFell: true })
  expect((await chain.rewindTo(40)).height).toBe(1)
  expect(await chain.stored()).toEqual([0, 1])
})

test('a block whose time fell below a header that only links marks the chain as well', async () => {
  const chain = await start([0, 50, 20, 60], { stored: [0, 1, 2, 3] }) // block 1 is only a header
  expect((await chain.rewindTo(40)).height).toBe(0)
  expect(await chain.stored()).toEqual([0])
})

// ---- S07: who takes part ----------------------------------------------------------------------------------------

test('a chain below T removes nothing and waits; a stopped chain is awaited, and rewinds when it comes', async () => {
  const deployment = await createDeployment([ALPHA, BETA, GAMMA].map((chain) => chainOptions(chain)))
  try {
    const db = deployment.open()
    const alpha = await writeBlocks(db, await takeChain(db, ALPHA), steady(0, 50, 0, 10))
    const beta = await writeBlocks(db, await takeChain(db, BETA), steady(0, 5, 0, 10))
    await writeBlocks(db, await takeChain(db, GAMMA, 1), steady(0, 40, 0, 10))
    await requestRewind(db, requestOf(at(100)))
    expect(await rewindChain(db, alpha)).toMatchObject({ released: false })
    expect(await rewindChain(db, beta)).toMatchObject({ released: false, writer: beta })
    expect(await storedHeights(deployment, 'beta')).toHaveLength(6)
    const { lock, waitingFor } = await db.transaction(readRewindState)
    expect([lock?.timestamp, waitingFor.map((row) => row.chain)]).toEqual([at(100), [GAMMA]])
    const process = deployment.open()
    const gamma = await rewindChain(process, await takeChain(process, GAMMA))
    expect(gamma.released).toBe(true)
    expect(await storedHeights(deployment, 'gamma')).toHaveLength(11)
    expect(await globalKeys(deployment)).toEqual(['epoch'])
  } finally {
    await deployment.drop()
  }
})

// ---- random chains ----------------------------------------------------------------------------------------------

const rising = fc.array(fc.oneof(fc.constant(0), fc.nat(3), fc.nat(1000)), { minLength: 2, maxLength: 30 })
const falling = fc.array(fc.integer({ min: -20, max: 30 }), { minLength: 2, maxLength: 30 })
const chances = fc.array(fc.boolean(), { minLength: 30, maxLength: 30 })

for (const [name, deltas, neverFalls] of [
  ['never fall', rising, true],
  ['may fall', falling, false],
] as const) {
  test(`random chains whose times ${name}, and random stored blocks: nothing after T stays, nothing before goes`, async () => {
    const chain = await start([-900_000], { stored: [] })
    await fc.assert(
      fc.asyncProperty(
        deltas,
        chances,
        fc.nat(),
        fc.nat(4),
        fc.boolean(),
        async (steps, picks, t, width, asks) => {
          const times = [-900_000] // of block 0, which is never stored
          for (const step of steps) times.push((times.length === 1 ? 100 : (times.at(-1) ?? 0)) + step)
          await chain.become(times.slice(1))
          const heights = times.map((_, h) => h).filter((h) => h > 0 && (picks[h] || h === times.length - 1))
          for (let i = 0; i < heights.length; i += width + 1)
            await chain.store(heights.slice(i, i + width + 1))
          const [least, most] = [Math.min(...times.slice(1)), Math.max(...times)]
          const target = least - 1 + (t % (most - least + 3))
          const kept = await chain.rewindTo(target, { node: asks })
          expectCut({ times, heights, target, asks, neverFalls }, await chain.stored(), kept.height)
        },
      ),
      { numRuns: 40, interruptAfterTimeLimit: 120_000 },
    )
  })
}

interface Random {
  readonly times: readonly number[]
  /** Those that were stored. */
  readonly heights: readonly number[]
  readonly target: number
  readonly asks: boolean
  readonly neverFalls: boolean
}

function expectCut(given: Random, left: readonly number[], cut: number | null): void {
  const { times, heights, target } = given
  const isLate = (h: number) => (times[h] ?? 0) > target
  const from = heights.find(isLate) ?? null
  expect(left).toEqual(heights.filter((h) => from === null || h < from))
  expect(left.some(isLate)).toBe(false)
  const below = left.at(-1) ?? null
  if (from === null || !given.asks) {
    expect(cut).toBe(below)
    return
  }
  if (given.neverFalls) expect(cut).toBe(times.findLastIndex((_, h) => h < from && !isLate(h)))
  expect(cut).toBeGreaterThanOrEqual(below ?? 0)
  expect(cut).toBeLessThan(from)
  expect(isLate(cut ?? 0)).toBe(false)
}
