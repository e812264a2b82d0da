/*
 * Goal: the source reads a real node as it reads the simulated one.
 * Method: Anvil with a real token; a reorganisation, a rollback, and receipts in place of logs.
 */
import { type ChainSource, height } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Anvil,
  addressOf,
  deployErc20,
  type Erc20,
  evmChainOptions,
  startAnvil,
  TRANSFER_EVENT,
} from '../../testkit/src/evm/index.js'
import { EndpointList } from './endpoint-list.js'
import { readerOf } from './event-reader.fixture.js'
import { fetchHeader } from './fetch-headers.js'
import { fetchReceiptLogs } from './fetch-receipts.js'
import { createEvmSource } from './index.js'

let anvil: Anvil
let token: Erc20
let source: ChainSource

beforeAll(async () => {
  anvil = await startAnvil({ chainId: 31_338, slotsInAnEpoch: 2 })
  token = await deployErc20(anvil.url)
  source = createEvmSource(options(), { logger: silentLogger() })
})
afterAll(async () => {
  await source.close()
  await anvil.stop()
})

const options = () =>
  evmChainOptions({
    rpc: [anvil.url],
    chainId: '31338',
    contracts: [{ contract: 'token', addresses: [token.address], events: [TRANSFER_EVENT] }],
  })

describe('against Anvil', () => {
  test('reads tip, blocks, ranges and transactions', async () => {
    await source.check()
    for (let value = 1n; value <= 9n; value++) await token.transfer(addressOf(7), value)
    const tip = await source.tip()
    expect(tip).toMatchObject({ head: { height: 10 }, finalized: 6 })
    const range = await source.range(height(0), height(10))
    expect(range.blocks.flatMap(({ events }) => events.map(({ args }) => args?.value))).toEqual([
      (10n ** 30n).toString(),
      ...Array.from({ length: 9 }, (_, index) => String(index + 1)),
    ])
    for (const block of range.blocks) expect(await source.block(block.ref.height)).toEqual(block)
    const last = range.blocks.at(-1)
    expect(await source.blockOfTransaction(last?.events[0]?.txHash ?? '0x')).toEqual(last?.ref)
    expect(await source.block(height(11))).toBeNull()
    await expect(source.range(height(5), height(11))).rejects.toMatchObject({ retryable: true })
  })

  test('sees a reorganisation and a rollback', async () => {
    const before = await source.header(height(9))
    await anvil.rpc('anvil_reorg', [3, []])
    const after = await source.header(height(9))
    expect(after?.hash).not.toBe(before?.hash)
    expect((await source.header(height(8)))?.hash).toBe(after?.parentHash)
    await anvil.rpc('anvil_rollback', [2])
    expect((await source.tip()).head.height).toBe(8)
    expect(await source.header(height(9))).toBeNull()
  })

  test('reads the same logs out of receipts', async () => {
    const nodes = new EndpointList(options(), silentLogger(), {
      requestTimeoutMs: 5_000,
      probeMs: 5_000,
      lagMostMs: 5_000,
    })
    const reader = readerOf(options())
    const events = await nodes.ask(undefined, async (node, scope) => {
      const header = await fetchHeader(node, height(3), scope)
      if (header === null) return []
      return reader.read(node, header, await fetchReceiptLogs(node, header, scope), reader.children).events
    })
    expect(events).toEqual((await source.block(height(3)))?.events)
    expect(events).toHaveLength(1)
  })
})
