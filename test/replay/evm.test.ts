/*
 * Goal: real EVM chains, of all eras and oddities on record, come out of PostgreSQL as they were recorded.
 * Method: recordings are served over HTTP, indexed by a real worker, compared field by field with the recordings
 * themselves, and verified. Skipped without LOCKSTEP_REAL_DATA.
 */
import { height } from '@lockstep/domain'
import {
  evmChainOptions,
  loadRecordedEvmChain,
  type RecordedEvmChain,
  replayedEvmNode,
} from '@lockstep/testkit'
import type { AbiEvent } from 'viem'
import { afterEach, describe, expect, test } from 'vitest'
import { Scene, type Stage } from '../worker/scene.js'
import { recorded, recording, replay } from './replay-chain.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

/** Events that take any log with so many topics. */
const ANY_LOG = [1, 2, 3, 4].map(
  (topics): AbiEvent => ({
    type: 'event',
    name: `Topics${topics}`,
    anonymous: true,
    inputs: Array.from({ length: topics }, (_, at) => ({ name: `t${at}`, type: 'bytes32', indexed: true })),
  }),
)

/** Each stretch of blocks that is recorded without a hole, with its receipts. */
const STRETCHES: readonly [string, number, number, number, readonly string[]][] = [
  ['Ethereum', 1, 0, 4_095, ['ethereum-genesis-era']],
  ['Ethereum', 1, 1_000_000, 1_000_030, ['chains/ethereum/1000000', 'ethereum-run-1000001']],
  ['Ethereum', 1, 1_000_040, 1_000_050, ['ethereum-run-1000001']],
  ['Ethereum', 1, 18_000_000, 18_000_000, ['chains/ethereum/18000000']],
  ['Polygon', 137, 50_000_000, 50_000_000, ['chains/polygon/50000000']],
  ['Cronos', 25, 6_541, 6_542, ['chains/cronos/6541', 'chains/cronos/6542']],
  ['Cronos', 25, 68_215, 68_216, ['chains/cronos/68215', 'chains/cronos/68216']],
  ['Tempo', 42_431, 6_541, 6_541, ['chains/tempoModerato/6541']],
  ['Tempo', 42_431, 6_000_178, 6_000_178, ['chains/tempoModerato/6000178']],
]

function recordedIn(chain: RecordedEvmChain, from: number, to: number) {
  const blocks = Array.from({ length: to - from + 1 }, (_, index) => chain.at(from + index))
  return blocks.flatMap((block) => (block === null ? [] : [block]))
}

const storedBlocks = (stage: Stage) =>
  stage.rows(
    `select height, '0x' || encode(hash, 'hex') as hash, '0x' || encode(parent_hash, 'hex') as parent,
       extract(epoch from block_time)::bigint as time from block order by height`,
  )

const storedLogs = (stage: Stage) =>
  stage.rows(
    `select height, '0x' || encode(block_hash, 'hex') as block, '0x' || encode(tx_hash, 'hex') as tx, event_index as index,
       lower(address) as address, '0x' || encode(data, 'hex') as data,
       array_to_string(array[topic0, topic1, topic2, topic3], ',') as topics from event order by height, event_index`,
  )

describe.skipIf(!recorded('evm'))('recorded EVM chains (LOCKSTEP_REAL_DATA)', () => {
  test.each(STRETCHES)('%s (%i): blocks %i to %i', async (_, chainId, from, to, folders) => {
    const chain = loadRecordedEvmChain(chainId, ...folders.map((folder) => recording('evm', folder)))
    const blocks = recordedIn(chain, from, to)
    expect(blocks).toHaveLength(to - from + 1)
    chain.finalized = Math.max(from, to - 10) // the last ten are taken block by block
    const node = replayedEvmNode(chain)
    await node.start()
    scene.later(() => node.stop())
    const logs = blocks.flatMap((block) => block.logs)
    const addresses = [...new Set(logs.map(({ address }) => address.toLowerCase() as typeof address))]
    const alpha = evmChainOptions({
      rpc: [node.url],
      chainId: String(chainId),
      startHeight: height(from),
      endHeight: height(to),
      blocks: 'all',
      pollMs: 30,
      ...(addresses.length > 0 && { contracts: [{ contract: 'any', addresses, events: ANY_LOG }] }),
    })
    const stage = await scene.deploy(alpha)
    await replay(stage, alpha)

    expect(await storedBlocks(stage)).toEqual(
      blocks.map(({ number, hash, parentHash, time }) => ({
        height: number,
        hash,
        parent: number === 0 ? null : parentHash,
        time,
      })),
    )
    expect(await storedLogs(stage)).toEqual(
      logs.map(({ address, topics, data, blockNumber, blockHash, transactionHash, logIndex }) => ({
        height: Number(blockNumber),
        block: blockHash,
        tx: transactionHash,
        index: Number(logIndex),
        address: address.toLowerCase(),
        data,
        topics: topics.map((topic) => topic.replace('0x', '\\x')).join(','),
      })),
    )
  })
})
