// Blocks of real chains, recorded, served by the simulated node: what the source makes of them is compared with
// counts that are taken from the recordings by hand-written, much simpler code, and with facts written down here.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
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
import type { AttributeEncoding } from './attribute-encoding.js'
import { selectEvents } from './block-events.js'
import { createCosmosSource } from './cosmos-source.js'
import { EventFilters } from './event-filters.js'

const DATA = process.env.LOCKSTEP_REAL_DATA ?? ''
const available = DATA !== '' && existsSync(join(DATA, 'cosmos'))
const folder = (...parts: readonly string[]) => join(DATA, 'cosmos', ...parts)

async function withSource(
  recorded: RecordedCometChain,
  test: (source: ChainSource) => Promise<void>,
): Promise<void> {
  const node = await SimulatedCometNode.start(recorded)
  const options = cosmosChainOptions({ rpc: [node.url], chainId: recorded.chainId })
  const source = createCosmosSource(options, { logger: silentLogger() })
  try {
    await test(source)
  } finally {
    await source.close()
    await node.stop()
  }
}

const ALL = { contract: 'all', address: null, events: null, failedTransactions: false }
const EVERYTHING = new EventFilters([ALL])

interface Results {
  readonly txs_results?: readonly { readonly code: number; readonly events?: readonly unknown[] }[] | null
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

it.runIf(!available)('recorded chains are skipped: LOCKSTEP_REAL_DATA is not set', (context) => {
  context.skip('set LOCKSTEP_REAL_DATA to the folder with recorded chain data')
})
