// Blocks of real chains, recorded, served by the simulated node: what the source makes of them is compared with
// counts that are taken from the recordings by hand-written, much simpler code, and with facts written down here.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CosmosChainOptions } from '@lockstep/config'
import {
  type ChainSource,
  formatTime,
  type Height,
  TX_INDEX_BEGIN_BLOCK,
  TX_INDEX_END_BLOCK,
} from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { describe, expect, it } from 'vitest'
import {
  cosmosChainOptions,
  loadRecordedCometChain,
  type RecordedCometChain,
  SimulatedCometNode,
} from '../../testkit/src/comet/index.js'
import { parseBlockResults } from './answers.js'
import { type AttributeEncoding, encodingOf } from './attribute-encoding.js'
import { selectEvents } from './block-events.js'
import { createCosmosSource } from './cosmos-source.js'
import { EventFilters } from './event-filters.js'
import { headerHash } from './header-hash.js'

const DATA = process.env.LOCKSTEP_REAL_DATA ?? ''
const available = DATA !== '' && existsSync(join(DATA, 'cosmos'))
const folder = (...parts: readonly string[]) => join(DATA, 'cosmos', ...parts)

const ALL = { contract: 'all', address: null, events: null, failedTransactions: false }
const EVERYTHING = new EventFilters([ALL])

async function withSource(
  recorded: RecordedCometChain,
  test: (source: ChainSource) => Promise<void>,
  wish: Pick<CosmosChainOptions, 'transactions' | 'contracts'> = { transactions: false, contracts: [ALL] },
): Promise<void> {
  const node = await SimulatedCometNode.start(recorded)
  const options = cosmosChainOptions({ ...wish, rpc: [node.url], chainId: recorded.chainId })
  const source = createCosmosSource(options, { logger: silentLogger() })
  try {
    await test(source)
  } finally {
    await source.close()
    await node.stop()
  }
}

interface Result {
  readonly code: number
  readonly gas_used: string
  readonly events?: readonly unknown[]
}

interface Results {
  readonly txs_results?: readonly Result[] | null
  readonly begin_block_events?: readonly unknown[] | null
  readonly end_block_events?: readonly unknown[] | null
}

const chains: readonly [string, string, () => readonly string[]][] = [
  ['cronos_777-1', '0.34.24', () => [folder('crypto-com/cronos_777-1')]],
  ['testnet-croeseid-1', '0.34.0', () => [folder('crypto-com/testnet-croeseid-1')]],
  ['testnet-croeseid-2', '0.34.0', () => [folder('crypto-com/testnet-croeseid-2')]],
  ['devnet-1', '0.34.8', () => [folder('crypto-com/local-devnets/devnet-1')]],
  ['devnet-2', '0.34.8', () => [folder('crypto-com/local-devnets/devnet-2')]],
  ['chaintest', '0.34.14', () => [folder('crypto-com/local-devnets/chaintest')]],
  ['dockerchain', '0.34.21', () => [folder('tendermint-rs/kvstore/v0_34/incoming')]],
  ['dockerchain', '0.38.0', () => [folder('tendermint-rs/kvstore/v0_38/incoming')]],
  ['ibc-0', 'v0.34.9', () => [folder('tendermint-rs/gaia/incoming')]],
]

describe.skipIf(!available)('recorded chains (LOCKSTEP_REAL_DATA)', () => {
  it.each(chains)(
    '%s, version %s: every block has all events of its successful transactions',
    async (name, version, folders) => {
      const recorded = loadRecordedCometChain(version, ...folders())
      expect(recorded.chainId).toBe(name)
      await withSource(recorded, async (source) => {
        let compared = 0
        for (const height of recorded.heights) {
          const served = recorded.at(height)
          if (served === null || served.results === null) continue
          const block = await source.block(height as Height)
          const { begin_block_events, txs_results, end_block_events } = served.results as Results
          const inTxs = (txs_results ?? []).map(({ code, events }) =>
            code === 0 ? (events?.length ?? 0) : 0,
          )
          const count = (txIndex: number) => block?.events.filter((event) => event.txIndex === txIndex).length
          expect(inTxs.map((_, index) => count(index))).toEqual(inTxs)
          expect(count(TX_INDEX_BEGIN_BLOCK)).toBe(begin_block_events?.length ?? 0)
          expect(count(TX_INDEX_END_BLOCK)).toBe(end_block_events?.length ?? 0)
          expect(block?.ref.hash).toBe(`0x${served.block.block_id.hash.toLowerCase()}`)
          compared += 1
        }
        expect(compared).toBeGreaterThan(0)
      })
    },
  )

  it.each(chains)(
    '%s, version %s: failed transactions are marked, and every transaction that holds an event comes with it',
    async (name, version, folders) => {
      const recorded = loadRecordedCometChain(version, ...folders())
      const wish = { transactions: true, contracts: [{ ...ALL, failedTransactions: true }] }
      const test = async (source: ChainSource) => {
        for (const height of recorded.heights) {
          const served = recorded.at(height)
          if (served === null || served.results === null) continue
          const results = (served.results as unknown as Results).txs_results ?? []
          const given = results.flatMap(({ code, gas_used, events }, txIndex) => {
            const tx = Buffer.from(served.block.block.data.txs?.[txIndex] ?? '', 'base64')
            const txHash = `0x${createHash('sha256').update(tx).digest('hex')}`
            return events?.length ? [{ txIndex, txHash, code, success: code === 0, gasUsed: gas_used }] : []
          })
          const block = await source.block(height as Height)
          const told = block?.transactions.map(({ txIndex, txHash, code, success, gasUsed }) => ({
            txIndex,
            txHash,
            code,
            success,
            gasUsed,
          }))
          expect(told).toEqual(given)
          if (name !== 'dockerchain')
            // the others are chains of the Cosmos SDK
            expect(block?.transactions.every(({ fee, memo }) => Array.isArray(fee) && memo !== null)).toBe(
              true,
            )
          const marked = block?.events.filter(({ args }) => args?._failed !== undefined).length
          const failed = results.map(({ code, events }) => (code === 0 ? 0 : (events?.length ?? 0)))
          expect(marked).toBe(failed.reduce((sum, count) => sum + count, 0))
        }
      }
      await withSource(recorded, test, wish)
    },
  )

  it('all block hashes of all recordings are those of their headers', () => {
    const hashes = recordedObjects().flatMap((object) => {
      const { block_id, header, block } = object as Record<string, Record<string, unknown> | undefined>
      const given = header ?? (block?.header as Record<string, unknown> | undefined)
      return block_id === undefined || given?.data_hash === undefined
        ? []
        : [[headerHash(given, 'header'), block_id.hash]]
    })
    expect(hashes.length).toBeGreaterThan(150)
    for (const [computed, recorded] of hashes) expect(computed).toBe(`0x${String(recorded).toLowerCase()}`)
  })

  it('of all recorded results the encoding is told by what they hold, whatever the version', () => {
    const encodings = recordedObjects().flatMap((object) => {
      if (!('txs_results' in object) || !('height' in object)) return []
      const results = parseBlockResults(object)
      const facts = selectEvents(results, 'plain', new EventFilters([{ ...ALL, failedTransactions: true }]))
      const lists = [
        results.beginBlock,
        results.endBlock,
        results.finalizeBlock,
        ...results.txs.map(({ events }) => events),
      ]
      expect(facts).toHaveLength(lists.reduce((sum, list) => sum + list.length, 0))
      if (!facts.some(({ args }) => Object.keys(args ?? {}).length > 0)) return []
      return [(['base64', 'plain'] as const).map((byVersion) => encodingOf(results, byVersion))]
    })
    expect(encodings.length).toBeGreaterThan(30)
    for (const [first, second] of encodings) expect(first).toBe(second)
    expect(new Set(encodings.flat())).toEqual(new Set(['base64', 'plain']))
  })

  it('a real transaction: its fee and its memo (Cronos block 6580)', async () => {
    const recorded = loadRecordedCometChain('0.34.24', folder('crypto-com/cronos_777-1'))
    const test = async (source: ChainSource) => {
      const facts = (await source.block(6580 as Height))?.transactions
      expect(facts).toMatchObject([
        { code: 0, fee: [{ denom: 'basecro', amount: '129759063724000000' }], memo: '' },
      ])
    }
    await withSource(recorded, test, { transactions: true, contracts: [ALL] })
  })

  it('Cronos block 1634: its hash, time, and the hash of its transaction', async () => {
    await withSource(loadRecordedCometChain('0.34.24', folder('crypto-com/cronos_777-1')), async (source) => {
      const block = await source.block(1634 as Height)
      expect(block && formatTime(block.ref.time)).toBe('2023-01-09T10:26:47.119113Z')
      expect(block?.events).toHaveLength(19 + 16 + 2)
      const [first] = block?.events ?? []
      expect(first).toMatchObject({ name: 'coin_received', txHash: '0x', txIndex: TX_INDEX_BEGIN_BLOCK })
      expect(first?.args?.receiver).toBe('crc1m3h30wlvsf8llruxtpukdvsy0km2kum8l0aw47')
      const hash = block?.events.find(({ txIndex }) => txIndex === 0)?.txHash ?? '0x'
      expect(await source.blockOfTransaction(hash)).toEqual(block?.ref)
    })
  })

  it('Croeseid block 184399: nanoseconds floored, nothing of its failed transaction', async () => {
    await withSource(
      loadRecordedCometChain('0.34.0', folder('crypto-com/testnet-croeseid-1')),
      async (source) => {
        const block = await source.block(184399 as Height)
        expect(block && formatTime(block.ref.time)).toBe('2020-10-28T12:21:43.053211Z') // …43.05321162Z
        expect(block?.events).toHaveLength(122)
        expect(block?.events.every(({ txIndex }) => txIndex === TX_INDEX_BEGIN_BLOCK)).toBe(true)
      },
    )
  })

  it('a null value stays null (chaintest block 324: the key "fee")', async () => {
    await withSource(
      loadRecordedCometChain('0.34.14', folder('crypto-com/local-devnets/chaintest')),
      async (source) => {
        const block = await source.block(324 as Height)
        expect(block?.events.filter(({ args }) => args?.fee === null)).toHaveLength(1)
      },
    )
  })

  it('wasm events say the same in base64 (0.34) and plain (later)', () => {
    const file = folder('wasm-events/neutron-hyperlane-base64-vs-plain.json')
    const recorded = JSON.parse(readFileSync(file, 'utf8')) as {
      encoding: string
      source: string
      attributes: object[]
    }[]
    const factOf = ({ attributes }: (typeof recorded)[number], byVersion: AttributeEncoding) => {
      const results = parseBlockResults({
        height: '1',
        txs_results: [{ code: 0, events: [{ type: 'wasm', attributes }] }],
      })
      return selectEvents(results, byVersion, EVERYTHING)[0]
    }
    const [plain, base64] = ['plain', 'base64'].map((encoding) =>
      recorded.filter((each) => each.encoding === encoding),
    )
    expect(plain?.length).toBeGreaterThan(0)
    // Whatever the version that the node says it has.
    for (const byVersion of ['base64', 'plain'] as const) {
      const facts = [plain, base64].map((list) => list?.map((each) => factOf(each, byVersion)))
      expect(facts[1]?.map((fact) => fact?.args)).toEqual(facts[0]?.map((fact) => fact?.args))
      expect(facts[0]?.every((fact) => fact?.address?.startsWith('neutron1'))).toBe(true)
    }
  })

  it('a large block of Injective gives all events of its successful transactions', () => {
    const file = folder('injective-1/137512194/block_results.json')
    const results = parseBlockResults(JSON.parse(readFileSync(file, 'utf8')))
    const facts = selectEvents(results, 'plain', EVERYTHING)
    const successful = results.txs.filter(({ code }) => code === 0).map(({ events }) => events.length)
    const inTxs = facts.filter(({ txIndex }) => txIndex >= 0 && txIndex < TX_INDEX_END_BLOCK)
    expect(results.txs.length).toBeGreaterThan(1)
    expect(inTxs.length).toBe(successful.reduce((sum, count) => sum + count, 0))
  })

  it('the kvstore chain of 0.34 is linked from its first block on', async () => {
    const recorded = loadRecordedCometChain('0.34.21', folder('tendermint-rs/kvstore/v0_34/incoming'))
    await withSource(recorded, async (source) => {
      const first = await source.header(1 as Height)
      expect(first).toMatchObject({
        hash: '0x56527562e5142c279254641ce18db0d845767f2933aafb784d752905abf410e8',
        parentHash: null,
      })
      expect(first && formatTime(first.time)).toBe('2022-09-22T18:57:22.193215Z')
      expect((await source.tip()).head.parentHash).toBe(
        '0xc84dc8ff0364fb7e79d3e0ea6addb5b1cc7a648b5f940d9480bf1063d7d8594a',
      )
    })
  })
})

/** Every object in every recorded answer. */
function recordedObjects(): object[] {
  const files = readdirSync(folder(), { recursive: true, encoding: 'utf8' })
  const json = files.filter((file) => file.endsWith('.json') && !file.startsWith('chain-registry'))
  return json.flatMap((file) => objectsIn(JSON.parse(readFileSync(folder(file), 'utf8'))))
}

function objectsIn(value: unknown): object[] {
  if (typeof value !== 'object' || value === null) return []
  const inside = Object.values(value).flatMap(objectsIn)
  return Array.isArray(value) ? inside : [value, ...inside]
}

it.runIf(!available)('recorded chains are skipped: LOCKSTEP_REAL_DATA is not set', (context) => {
  context.skip('set LOCKSTEP_REAL_DATA to the folder with recorded chain data')
})
