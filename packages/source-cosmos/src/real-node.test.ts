// A real CometBFT node with its key-value application. It cannot be steered, so what is compared is what it says of
// itself; its words for what it does not have are the ones that the source must understand.
import { type ChainSource, type Height, WrongChainError } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type CometBft,
  cosmosChainOptions,
  findCometBft,
  startCometBft,
} from '../../testkit/src/comet/index.js'
import { createCosmosSource } from './cosmos-source.js'

const binary = findCometBft()

function open(url: string, chainId: string, ws: string | null = null): ChainSource {
  const contracts = [
    { contract: 'app', address: null, events: [{ type: 'app', action: null }], failedTransactions: false },
  ]
  const options = cosmosChainOptions({
    rpc: [{ url, ws }],
    chainId,
    blocks: 'events',
    contracts,
    transactions: true,
  })
  return createCosmosSource(options, { logger: silentLogger() })
}

describe.skipIf(binary === null)('a real CometBFT node', () => {
  let node: CometBft
  let source: ChainSource

  beforeAll(async () => {
    node = await startCometBft({ chainId: 'kv-1', blockTimeMs: 50, initialHeight: 5 })
    source = open(node.url, 'kv-1')
  }, 60_000)

  afterAll(async () => {
    await source?.close()
    await node?.stop()
  })

  it('is of the configured network, and another is refused', async () => {
    await source.check()
    await expect(open(node.url, 'kv-2').check()).rejects.toThrow(WrongChainError)
  })

  it('gives the events of a transaction, in its block, and finds it by its hash', async () => {
    const tx = await node.addTx('colour', 'blue')
    const block = await source.block(tx.height as Height)
    expect(block?.events.map(({ txHash }) => txHash)).toEqual([tx.hash, tx.hash])
    expect(block?.events[0]?.args).toEqual({
      creator: 'Cosmoshi Netowoko',
      key: 'colour',
      index_key: 'index is working',
      noindex_key: 'index is working',
    })
    expect(await source.blockOfTransaction(tx.hash)).toEqual(block?.ref)
    expect(await source.blockOfTransaction(`0x${'0'.repeat(64)}`)).toBeNull()
  })

  it('gives the transaction of an event, although its bytes are none of the Cosmos SDK', async () => {
    const tx = await node.addTx('taste', 'sweet')
    expect((await source.block(tx.height as Height))?.transactions).toMatchObject([
      {
        txIndex: 0,
        txHash: tx.hash,
        success: true,
        code: 0,
        fee: { undecoded: expect.any(String) },
        memo: null,
      },
    ])
  })

  it('announces its heads', async () => {
    const listening = open(node.url, 'kv-1', node.url.replace('http', 'ws'))
    let heard = 0
    await new Promise<void>((resolve) => {
      listening.onHead(() => {
        heard += 1
        if (heard === 3) resolve()
      })
    })
    expect(listening.trouble()).toBeNull()
    await listening.close()
  })

  it('gives a linked range over pages of headers, with the blocks that hold events', async () => {
    const tx = await node.addTx('shape', 'round')
    let head = (await source.tip()).head.height
    while (head < 30) head = (await source.tip()).head.height
    const range = await source.range(5 as Height, head)
    expect(range.first.parentHash).toBeNull()
    expect(range.blocks.map(({ ref }) => ref.height)).toContain(tx.height)
    expect(await source.header(head)).toEqual(range.last)
  })

  it('has nothing above its head, and nothing below its first block', async () => {
    expect(await source.header(1_000_000 as Height)).toBeNull()
    expect(await source.block(1_000_000 as Height)).toBeNull()
    await expect(source.header(4 as Height)).rejects.toMatchObject({
      code: 'height_pruned',
      facts: { lowest: 5 },
    })
  })
})

it.runIf(binary === null)('the real CometBFT node is skipped: there is no binary', (context) => {
  context.skip('run "node scripts/install-cometbft.mjs", or set COMETBFT_BIN')
})
