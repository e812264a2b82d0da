/*
 * Goal: recorded blocks of real Cosmos chains come out of PostgreSQL as they were recorded.
 * Method: recordings are served over HTTP; each block, which stands alone, is indexed as a chain of one block by a real
 * worker, counted against the recording by much simpler code, and verified. Skipped without LOCKSTEP_REAL_DATA.
 */
import { chainKey, height } from '@lockstep/domain'
import { cosmosChainOptions, loadRecordedCometChain, SimulatedCometNode } from '@lockstep/testkit'
import { afterEach, describe, expect, test } from 'vitest'
import { Scene } from '../worker/scene.js'
import { recorded, recording, replay } from './replay-chain.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const CHAINS: readonly [string, string, string][] = [
  ['cronos_777-1', '0.34.24', 'crypto-com/cronos_777-1'],
  ['testnet-croeseid-1', '0.34.0', 'crypto-com/testnet-croeseid-1'],
  ['testnet-croeseid-2', '0.34.0', 'crypto-com/testnet-croeseid-2'],
  ['devnet-1', '0.34.8', 'crypto-com/local-devnets/devnet-1'],
  ['devnet-2', '0.34.8', 'crypto-com/local-devnets/devnet-2'],
  ['chaintest', '0.34.14', 'crypto-com/local-devnets/chaintest'],
  ['dockerchain', '0.34.21', 'tendermint-rs/kvstore/v0_34/incoming'],
  ['dockerchain', '0.38.0', 'tendermint-rs/kvstore/v0_38/incoming'],
  ['ibc-0', 'v0.34.9', 'tendermint-rs/gaia/incoming'],
]

interface Results {
  readonly txs_results?: readonly { readonly code: number; readonly events?: readonly unknown[] }[] | null
  readonly begin_block_events?: readonly unknown[] | null
  readonly end_block_events?: readonly unknown[] | null
  readonly finalize_block_events?: readonly unknown[] | null
}

/** Events of a block, without those of failed transactions. */
function countOf(results: Results): number {
  const phases = [results.begin_block_events, results.end_block_events, results.finalize_block_events]
  const inTxs = (results.txs_results ?? []).map(({ code, events }) =>
    code === 0 ? (events?.length ?? 0) : 0,
  )
  return [...phases.map((events) => events?.length ?? 0), ...inTxs].reduce((sum, count) => sum + count, 0)
}

describe.skipIf(!recorded('cosmos'))('recorded Cosmos chains (LOCKSTEP_REAL_DATA)', () => {
  test.each(CHAINS)('%s, version %s', async (chainId, version, folder) => {
    const chain = loadRecordedCometChain(version, recording('cosmos', folder))
    const node = await SimulatedCometNode.start(chain)
    scene.later(() => node.stop())
    const blocks = chain.heights.flatMap((at) => {
      const served = chain.at(at)
      return served === null || served.results === null
        ? []
        : [{ at, served, results: served.results as Results }]
    })
    expect(blocks.length).toBeGreaterThan(0)
    const chains = blocks.map(({ at }) =>
      cosmosChainOptions({
        chain: chainKey(`at-${at}`),
        chainId,
        rpc: [node.url],
        startHeight: height(at),
        endHeight: height(at),
        pollMs: 30,
      }),
    )
    const stage = await scene.deploy(...chains)
    for (const options of chains) await replay(stage, options)

    expect(
      await stage.rows(
        `select height, '0x' || encode(hash, 'hex') as hash,
           (select count(*) from event e where e.chain = b.chain) as events from block b order by height`,
      ),
    ).toEqual(
      blocks.map(({ at, served, results }) => ({
        height: at,
        hash: `0x${served.block.block_id.hash.toLowerCase()}`,
        events: countOf(results),
      })),
    )
  })
})
