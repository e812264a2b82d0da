// The simulated node against what real nodes said: recorded answers of 0.34 and 0.38, a real node where there is one,
// and cosmjs's own clients.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Comet1Client, Comet38Client, connectComet, Tendermint37Client } from '@cosmjs/tendermint-rpc'
import { afterEach, describe, expect, it } from 'vitest'
import {
  type CometBlockScript,
  findCometBft,
  SimulatedCometChain,
  SimulatedCometNode,
  startCometBft,
} from './index.js'

const DATA = process.env.LOCKSTEP_REAL_DATA ?? ''
const RECORDINGS = join(DATA, 'cosmos/tendermint-rs')
const recorded = DATA !== '' && existsSync(RECORDINGS)

const nodes: SimulatedCometNode[] = []

async function serve(version: string, blocks: readonly CometBlockScript[], initialHeight = 1) {
  const chain = new SimulatedCometChain({ chainId: 'sim-1', version, initialHeight })
  chain.extend(blocks)
  const node = await SimulatedCometNode.start(chain)
  nodes.push(node)
  return { chain, node }
}

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop()
})

interface Answer {
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: string }
}

async function post(url: string, method: string, params: unknown = {}): Promise<Answer> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method, params })
  return (await (await fetch(url, { method: 'POST', body })).json()) as Answer
}

const EVENT = {
  type: 'app',
  attributes: [
    ['creator', 'Cosmoshi'],
    ['key', 'value'],
  ],
} as const
const QUIET: readonly CometBlockScript[] = Array.from({ length: 12 }, (_, index) => ({
  time: `2024-01-01T00:00:${String(index).padStart(2, '0')}.123456789Z`,
}))
const BUSY: CometBlockScript = {
  time: '2024-01-01T00:01:00Z',
  beginEvents: [EVENT],
  txs: [{ events: [EVENT] }, { code: 4, events: [] }],
  endEvents: [EVENT],
}

/** Names and types of everything in an answer; of a list those of its first item. */
function shapeOf(value: unknown): unknown {
  if (value === null) return 'null'
  if (Array.isArray(value)) return value.length === 0 ? [] : [shapeOf(value[0])]
  if (typeof value !== 'object') return typeof value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, shapeOf(item)]),
  )
}

const recordedAnswer = (file: string): Answer =>
  JSON.parse(readFileSync(join(RECORDINGS, file), 'utf8')) as Answer

describe.skipIf(!recorded)('answers have the keys and types of recorded ones (LOCKSTEP_REAL_DATA)', () => {
  const kvstore: readonly [string, string, object][] = [
    ['status', 'status', {}],
    ['block_at_height_0', 'block', { height: '0' }],
    ['block_at_height_1', 'block', { height: '1' }],
    ['block_at_height_10', 'block', { height: '10' }],
    ['block_results_at_height_10', 'block_results', { height: '10' }],
    ['blockchain_from_1_to_10', 'blockchain', { minHeight: '1', maxHeight: '10' }],
  ]
  const versions = [
    ['0.34.21', 'kvstore/v0_34'],
    ['0.38.0', 'kvstore/v0_38'],
  ] as const
  const cases = versions.flatMap(([version, folder]) =>
    kvstore.map((each) => [version, folder, ...each] as const),
  )

  it.each(cases)('%s: %s %s', async (version, folder, file, method, params) => {
    const { node } = await serve(version, QUIET)
    const answer = await post(node.url, method, params)
    const real = recordedAnswer(`${folder}/incoming/${file}.json`)
    const { result, error } = shapeOf(answer) as Record<string, unknown>
    const expected = shapeOf(real) as Record<string, unknown>
    expect({ result, error }).toEqual({
      result: withoutNewFields(expected.result, version),
      error: expected.error,
    })
    if (real.error !== undefined) expect(answer.error).toEqual(real.error)
  })

  /** The recorded 0.38 is of before its release: `app_hash` came to `block_results` with it. */
  const withoutNewFields = (shape: unknown, version: string): unknown =>
    version.startsWith('0.38.') &&
    typeof shape === 'object' &&
    shape !== null &&
    'finalize_block_events' in shape
      ? { ...shape, app_hash: 'string' }
      : shape

  it('0.34: a transaction', async () => {
    const { chain, node } = await serve('0.34.21', [...QUIET, BUSY])
    const hash = Buffer.from(chain.txHash(13, 0).slice(2), 'hex').toString('base64')
    const { result } = await post(node.url, 'tx', { hash })
    const real = recordedAnswer('kvstore/v0_34/incoming/tx.json').result
    expect(shapeOf(result)).toEqual(shapeOf(real))
  })

  it('gaia 0.34: results with events in all phases', async () => {
    const { node } = await serve('0.34.9', [...QUIET, BUSY])
    const { result } = await post(node.url, 'block_results', { height: '13' })
    const real = recordedAnswer('gaia/incoming/block_results_at_height_10.json').result as Record<
      string,
      unknown
    >
    const shape = shapeOf(result) as Record<string, unknown>
    expect(Object.keys(shape)).toEqual(Object.keys(real).sort())
    expect(shape.begin_block_events).toEqual(shapeOf(real.begin_block_events))
  })
})

it.runIf(!recorded)('comparison with recordings is skipped: LOCKSTEP_REAL_DATA is not set', (context) => {
  context.skip('set LOCKSTEP_REAL_DATA to the folder with recorded chain data')
})

const binary = findCometBft()

it.skipIf(binary === null)(
  'says the same as a real node, its refusals word for word',
  { timeout: 90_000 },
  async () => {
    const real = await startCometBft({ chainId: 'sim-1', blockTimeMs: 30 })
    try {
      await real.addTx('k', 'v')
      const head = Number(
        ((await post(real.url, 'status')).result as { sync_info: { latest_block_height: string } }).sync_info
          .latest_block_height,
      )
      const { node } = await serve(real.version, QUIET.slice(0, 3))
      const bySimulation = {
        post: (method: string, params: unknown) => post(node.url, method, params),
        head: 3,
      }
      const byRealNode = { post: (method: string, params: unknown) => post(real.url, method, params), head }
      const asked: readonly [string, unknown][] = [
        ['health', {}],
        ['status', {}],
        ['genesis', {}],
        ['header', { height: '2' }],
        ['block', { height: '1' }],
        ['block', ['1']],
        ['block_results', { height: '1' }],
        ['blockchain', { minHeight: '1', maxHeight: '2' }],
        ['block', { height: '0' }],
        ['block_results', { height: '-1' }],
        ['block', { height: 2 }],
        ['nosuch', {}],
        ['blockchain', { minHeight: '3', maxHeight: '2' }],
        ['tx', { hash: Buffer.alloc(32).toString('base64') }],
      ]
      for (const [method, params] of asked) {
        const [simulated, original] = [
          await bySimulation.post(method, params),
          await byRealNode.post(method, params),
        ]
        expect(shapeOf(simulated), `${method} ${JSON.stringify(params)}`).toEqual(shapeOf(original))
        expect(simulated.error).toEqual(original.error)
      }
      // These name the head, which is another on each.
      const future: readonly [string, object][] = [
        ['block', { height: '100000' }],
        ['block_results', { height: '100000' }],
        ['header', { height: '100000' }],
        ['blockchain', { minHeight: '100000', maxHeight: '100001' }],
      ]
      const words = (answer: Answer) => answer.error?.data?.replace(/height \d+$/, 'height HEAD')
      for (const [method, params] of future) {
        expect(words(await bySimulation.post(method, params))).toBe(
          words(await byRealNode.post(method, params)),
        )
      }
    } finally {
      await real.stop()
    }
  },
)

it.runIf(binary === null)('comparison with a real node is skipped: there is no cometbft', (context) => {
  context.skip('run "node scripts/install-cometbft.mjs", or set COMETBFT_BIN')
})

describe("cosmjs's clients, as they are", () => {
  it.each([
    ['0.34.24', Tendermint37Client],
    ['0.37.4', Tendermint37Client],
    ['0.38.17', Comet38Client],
    ['1.0.1', Comet1Client],
  ] as const)('read version %s', async (version, kind) => {
    const { chain, node } = await serve(version, [...QUIET, BUSY])
    const client = await connectComet(node.url)
    expect(client).toBeInstanceOf(kind)
    expect((await client.status()).nodeInfo).toMatchObject({ network: 'sim-1', version })
    const { block, blockId } = await client.block(13)
    expect(Buffer.from(blockId.hash).toString('hex')).toBe(chain.ref(13).hash.slice(2))
    expect(block.header.time.nanoseconds).toBe(0)
    expect((await client.block(2)).block.header.time.nanoseconds).toBe(456_789)
    expect(block.txs).toHaveLength(2)
    expect((await client.block(1)).block.header.lastBlockId).toBeNull()
    expect((await client.blockResults(13)).results.map(({ code }) => code)).toEqual([0, 4])
    expect((await client.blockchain(1, 13)).blockMetas).toHaveLength(13)
    expect((await client.tx({ hash: Buffer.from(chain.txHash(13, 1).slice(2), 'hex') })).height).toBe(13)
    await client.health()
    await client.genesis()
    await expect(client.block(14)).rejects.toThrow(
      /must be less than or equal to the current blockchain height 13/,
    )
    client.disconnect()
  })
})

describe('a chain', () => {
  const script = (seconds: number): CometBlockScript => ({ time: `2024-01-01T00:00:0${seconds}Z` })
  const written = (blocks: readonly CometBlockScript[]) => {
    const chain = new SimulatedCometChain({ chainId: 'sim-1', version: '0.38.17' })
    chain.extend(blocks)
    return chain
  }

  it('has the same hashes whenever it is written, and others where anything differs', () => {
    const hash = (blocks: readonly CometBlockScript[]) => written(blocks).ref(1).hash
    expect(hash([script(1)])).toBe(hash([script(1)]))
    const withEvent = { ...script(1), endEvents: [EVENT] }
    expect(new Set([hash([script(1)]), hash([script(2)]), hash([withEvent])]).size).toBe(3)
  })

  it('forks into other hashes, even with the same blocks, and keeps what is below', () => {
    const chain = written([script(1), script(2), script(3)])
    const before = [1, 2, 3].map((height) => chain.ref(height))
    chain.fork(2, [script(2), script(3), script(4)])
    expect(chain.ref(1)).toEqual(before[0])
    expect(chain.ref(2)).toMatchObject({ parentHash: before[0]?.hash, time: before[1]?.time })
    expect(chain.ref(2).hash).not.toBe(before[1]?.hash)
    expect(chain.head).toBe(4)
  })

  it('rolls back, and begins again after all was taken back', () => {
    const chain = written([script(1), script(2)])
    const first = chain.ref(1).hash
    chain.rollback(2)
    expect([chain.head, chain.at(1)]).toEqual([0, null])
    chain.extend([script(1)])
    expect(chain.ref(1).parentHash).toBeNull()
    expect(chain.ref(1).hash).not.toBe(first)
    expect(() => chain.rollback(2)).toThrow(RangeError)
  })

  it('keeps equal and falling times as they are given', () => {
    const chain = written([script(2), script(2), script(1)])
    expect(chain.ref(2).time).toBe(chain.ref(1).time)
    expect(chain.ref(3).time < chain.ref(2).time).toBe(true)
  })
})

describe('a node on demand', () => {
  const data = async (answer: Promise<Answer>) => (await answer).error?.data
  const headOf = async (node: SimulatedCometNode) =>
    ((await post(node.url, 'status')).result as { sync_info: { latest_block_height: string } }).sync_info
      .latest_block_height

  it('stalls while its chain goes on, and catches up', async () => {
    const { chain, node } = await serve('0.38.17', QUIET)
    node.stall()
    chain.extendEmpty(3, 1_000_000n)
    expect(await headOf(node)).toBe('12')
    expect(await data(post(node.url, 'block', { height: '13' }))).toBe(
      'height 13 must be less than or equal to the current blockchain height 12',
    )
    node.lowerHead(null)
    expect(await headOf(node)).toBe('15')
  })

  it('prunes, lags, refuses and names another network', async () => {
    const { node } = await serve('0.38.17', QUIET)
    node.pruneBelow(5)
    expect(await data(post(node.url, 'block', { height: '4' }))).toBe(
      'height 4 is not available, lowest height is 5',
    )
    expect(await data(post(node.url, 'blockchain', { minHeight: '1', maxHeight: '4' }))).toBe(
      "min height 5 can't be greater than max height 4",
    )
    node.lagResults(1)
    expect(await data(post(node.url, 'block_results', { height: '9' }))).toBe(
      'could not find results for height #9',
    )
    expect(await data(post(node.url, 'block_results', { height: '9' }))).toBeUndefined()
    node.refuseNext('tx', 1, 'transaction indexing is disabled')
    expect(await data(post(node.url, 'tx', { hash: '' }))).toBe('transaction indexing is disabled')
    node.reportNetwork('other-1')
    expect(
      ((await post(node.url, 'status')).result as { node_info: { network: string } }).node_info.network,
    ).toBe('other-1')
  })

  it('lies through an override, and its chain stays as it is', async () => {
    const { chain, node } = await serve('0.38.17', QUIET)
    const before = chain.ref(3)
    const undo = node.override('block', (_, honest) => {
      const answer = honest() as { block_id: { hash: string } }
      answer.block_id.hash = 'lie'
      return answer
    })
    expect((await post(node.url, 'block', { height: '3' })).result).toMatchObject({
      block_id: { hash: 'lie' },
    })
    undo()
    expect(chain.ref(3)).toEqual(before)
    expect((await post(node.url, 'block', { height: '3' })).result).toMatchObject({
      block_id: { hash: before.hash.slice(2).toUpperCase() },
    })
    node.override('status', () => null)
    expect((await post(node.url, 'status')).result).toBeNull()
  })

  it('answers addresses as well as posted calls', async () => {
    const { chain, node } = await serve('0.38.17', [...QUIET, BUSY])
    const get = async (path: string) => (await (await fetch(`${node.url}/${path}`)).json()) as Answer
    expect(await get('block?height=3')).toMatchObject({ result: { block: { header: { height: '3' } } } })
    expect(await get('block')).toMatchObject({ result: { block: { header: { height: '13' } } } })
    expect(await get(`tx?hash=${chain.txHash(13, 0)}`)).toMatchObject({ result: { height: '13' } })
  })

  it('drops, delays and fails', async () => {
    const { node } = await serve('0.38.17', QUIET)
    node.failNext(1, { kind: 'drop' })
    await expect(post(node.url, 'health')).rejects.toThrow()
    node.delay(80)
    const began = performance.now()
    await post(node.url, 'health')
    expect(performance.now() - began).toBeGreaterThan(70)
  })
})
