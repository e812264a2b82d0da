// What contracts and nodes may say at random: events of any text and bytes come through with nothing lost, and whatever a
// node answers, the source gives the true block or one of our errors, never another and never none. A simulated node
// over real HTTP; fast-check prints the seed of what it finds.
import {
  bytesOfText,
  type ChainSource,
  type EventFact,
  type Height,
  LockstepError,
  storableText,
} from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import {
  type CometEventScript,
  cosmosChainOptions,
  SimulatedCometChain,
  SimulatedCometNode,
} from '../../testkit/src/comet/index.js'
import { createCosmosSource } from './cosmos-source.js'

const at = (height: number) => height as Height
const nodes: SimulatedCometNode[] = []
const sources: ChainSource[] = []

async function start(chain: SimulatedCometChain): Promise<SimulatedCometNode> {
  const node = await SimulatedCometNode.start(chain)
  nodes.push(node)
  return node
}

function open(node: SimulatedCometNode): ChainSource {
  const contracts = [{ contract: 'all', address: null, events: null, failedTransactions: true }]
  const options = cosmosChainOptions({ rpc: [node.url], contracts, transactions: true })
  const source = createCosmosSource(options, { logger: silentLogger(), requestTimeoutMs: 5000 })
  sources.push(source)
  return source
}

async function stopAll(): Promise<void> {
  for (const source of sources.splice(0)) await source.close()
  for (const node of nodes.splice(0)) await node.stop()
}

afterEach(stopAll)

/** Texts of all kinds, halves of surrogate pairs and the characters of the escape among them. */
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string(),
  fc.constantFrom('', '\u0000', '\ud800', '\u{10F7FF}', '_failed', 'mode', '__proto__', 'dGVzdA=='),
)
const bytes = fc.uint8Array({ maxLength: 20 })

/** Every real block holds an attribute with a name; what is judged is how the others come through beside it. */
const NAMED = ['_contract_address', 'osmo1pool'] as const

const event = (value: fc.Arbitrary<string | Uint8Array>): fc.Arbitrary<CometEventScript> =>
  fc.record({
    type: text,
    attributes: fc
      .array(fc.tuple(text, fc.option(value)), { maxLength: 6 })
      .map((pairs) => [NAMED, ...pairs] as CometEventScript['attributes']),
  })

const block = (events: fc.Arbitrary<CometEventScript[]>) =>
  fc.record({
    beginEvents: events,
    endEvents: events,
    txs: fc.array(fc.record({ events, code: fc.nat({ max: 2 }), bytes: fc.uint8Array({ minLength: 1 }) }), {
      maxLength: 3,
    }),
  })

/** What the application meant, as bytes. */
const meant = (value: string | Uint8Array | null) =>
  value === null ? null : Buffer.from(bytesOfText(typeof value === 'string' ? storableText(value) : ''))

describe.each(['0.34.24', '0.37.4', '0.38.17', '1.0.1'])(
  'events of any kind through version %s',
  (version) => {
    const value = version.startsWith('0.34.') ? fc.oneof(text, bytes) : text // later nodes write texts only

    it('come through, each at a place of its own, with every value', async () => {
      await fc.assert(
        fc.asyncProperty(block(fc.array(event(value), { maxLength: 3 })), async (script) => {
          const chain = new SimulatedCometChain({ chainId: 'sim-1', version })
          chain.extend([{ time: '2024-01-01T00:00:00Z', ...script }])
          const read = await open(await start(chain)).block(at(1))
          await stopAll()
          const given = [
            ...script.beginEvents,
            ...script.txs.flatMap(({ events }) => events),
            ...script.endEvents,
          ]
          const facts = read?.events ?? []
          expect(facts).toHaveLength(given.length)
          expect(new Set(facts.map(({ txIndex, eventIndex }) => `${txIndex}/${eventIndex}`)).size).toBe(
            given.length,
          )
          for (const [index, fact] of facts.entries()) expectAll(fact, given[index])
          expect(read?.transactions.length).toBe(script.txs.filter(({ events }) => events.length > 0).length)
        }),
        { numRuns: 40 },
      )
    })
  },
)

/** JSON cannot say half a surrogate pair in base64, so such texts are compared in their plain form only. */
function expectAll(fact: EventFact, script: CometEventScript | undefined): void {
  expect(fact.name).toBe(storableText(script?.type ?? ''))
  const wellFormed =
    script?.attributes.filter(([key, value]) => key.isWellFormed() && isWellFormed(value)) ?? []
  for (const [key, value] of wellFormed) {
    const found = [fact.args?.[storableText(key)]].flat()
    const asBytes = found.map((each) =>
      typeof each === 'string' ? Buffer.from(bytesOfText(each)).toString('hex') : each,
    )
    const expected = typeof value === 'object' && value !== null ? Buffer.from(value) : meant(value)
    expect(asBytes).toContainEqual(expected === null ? null : expected.toString('hex'))
  }
  const values = Object.entries(fact.args ?? {}).flatMap(([, each]) => each)
  const inOneList = Array.isArray(fact.args?.mode) || typeof fact.args?.mode === 'string' // the phases' own attribute
  const count = values.filter((each) => typeof each !== 'object' || each === null).length
  const attributes = script?.attributes.length ?? 0
  expect([attributes, attributes + Number(inOneList)]).toContain(count)
}

const isWellFormed = (value: string | Uint8Array | null) => typeof value !== 'string' || value.isWellFormed()

const METHODS = ['status', 'blockchain', 'block_results', 'block', 'tx'] as const

describe('a node that answers at random', () => {
  async function scene() {
    const chain = new SimulatedCometChain({ chainId: 'sim-1', version: '0.38.17' })
    const x = { type: 'x', attributes: [['k', 'v']] as const }
    chain.extend(
      [1, 2, 3].map((second) => ({ time: `2024-01-01T00:00:0${second}Z`, txs: [{ events: [x] }] })),
    )
    const node = await start(chain)
    const source = open(node)
    const calls: readonly (() => Promise<unknown>)[] = [
      () => source.tip(),
      () => source.header(at(2)),
      () => source.block(at(2)),
      () => source.range(at(1), at(3)),
      () => source.blockOfTransaction(chain.txHash(2, 0)),
    ]
    return { node, calls, honest: await Promise.all(calls.map((call) => call())) }
  }

  /** The answer, or our error as its code; anything else is thrown on. */
  const outcome = async (call: () => Promise<unknown>): Promise<unknown> => {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof LockstepError)) throw error
      return error.code
    }
  }

  it('with any JSON gives the truth, nothing, or one of our errors', async () => {
    const { node, calls, honest } = await scene()
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...METHODS), fc.jsonValue(), async (method, value) => {
        const undo = node.override(method, () => value)
        for (const [index, call] of calls.entries()) {
          const given = await outcome(call)
          if (typeof given !== 'string') expect(given).toEqual(honest[index])
        }
        undo()
      }),
      { numRuns: 60 },
    )
  })

  it('with any bytes gives one of our errors', async () => {
    const { node, calls } = await scene()
    await fc.assert(
      fc.asyncProperty(
        fc.nat({ max: calls.length - 1 }),
        fc.string({ unit: 'binary' }),
        async (index, body) => {
          node.failNext(100, { kind: 'status', status: 200, body })
          expect(typeof (await outcome(calls[index] ?? calls[0] ?? (async () => null)))).toBe('string')
        },
      ),
      { numRuns: 60 },
    )
  })

  it('with a part of its headers or blocks changed gives the truth or one of our errors', async () => {
    const { node, calls, honest } = await scene()
    const change = fc.record({ where: fc.nat(), value: fc.jsonValue({ maxDepth: 1 }) })
    await fc.assert(
      fc.asyncProperty(fc.constantFrom('blockchain', 'block'), change, async (method, { where, value }) => {
        const undo = node.override(method, (_, truth) => changedAt(truth(), where, value))
        for (const index of [1, 2, 3]) {
          const given = await outcome(calls[index] ?? (async () => null))
          if (typeof given === 'string' || given === null) continue
          expect(withoutTxs(given)).toEqual(withoutTxs(honest[index]))
        }
        undo()
      }),
      { numRuns: 150 },
    )
  })
})

/** The value at one place of a JSON tree is another. */
function changedAt(tree: unknown, where: number, value: unknown): unknown {
  const places: (() => void)[] = []
  const visit = (node: unknown) => {
    if (typeof node !== 'object' || node === null) return
    for (const [key, child] of Object.entries(node)) {
      places.push(() => Object.assign(node, { [key]: value }))
      visit(child)
    }
  }
  visit(tree)
  places[where % places.length]?.()
  return tree
}

/** A header counts its transactions, and what they are is the node's word. */
const withoutTxs = (answer: unknown): unknown =>
  JSON.parse(
    JSON.stringify(answer, (key, value) => {
      if (key === 'txHash' || key === 'transactions') return undefined
      return typeof value === 'bigint' ? String(value) : value
    }),
  )
