/*
 * Goal: an answer that is not of the documented shape is refused, with the method and the field in the message.
 * Method: a node over HTTP that answers rightly save for one field.
 */
import { type ChainSource, height, MalformedAnswerError } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { addressOf, evmChainOptions, SimulatedEvmNode, transferLog } from '../../testkit/src/evm/index.js'
import { createEvmSource } from './index.js'

let node: SimulatedEvmNode
let source: ChainSource

beforeEach(async () => {
  node = new SimulatedEvmNode({ chainId: 1 })
  const url = await node.start()
  source = createEvmSource(evmChainOptions({ rpc: [url] }), { logger: silentLogger() })
})
afterEach(async () => {
  await source.close()
  await node.stop()
})

const transfer = (value: bigint) =>
  transferLog({ token: addressOf(0x70), from: addressOf(1), to: addressOf(2), value })

describe('a malformed answer names method and field', () => {
  const cases: [string, unknown, RegExp][] = [
    ['eth_getBlockByNumber', {}, /eth_getBlockByNumber .*number is missing/],
    ['eth_getBlockByNumber', { number: '0x1', hash: null }, /parentHash is missing/],
    ['eth_getBlockByNumber', [], /block is \[\], not an object/],
    ['eth_getBlockByNumber', 'x', /block is "x"/],
    ['eth_getLogs', null, /eth_getLogs .*result is null, not a list/],
    ['eth_getLogs', [{ address: '0xzz', topics: [], data: '0x' }], /address is "0xzz", not 20 bytes/],
  ]
  test.each(cases)('%s: %j', async (method, answer, words) => {
    node.extend([{ logs: [transfer(1n)] }])
    node.answer(method, () => answer)
    const error = await source.block(height(1)).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(MalformedAnswerError)
    expect(String(error)).toMatch(words)
  })

  test.each([
    ['hash', '0x12'],
    ['hash', null],
    ['number', null],
    ['number', '0xg'],
    ['timestamp', 1700000000],
    ['timestamp', '0xffffffffffff'],
    ['parentHash', undefined],
    ['logsBloom', '0x00'],
  ])('header field %s: %j', async (field, value) => {
    node.extend([{ fields: { [field]: value } }])
    const words = new RegExp(`eth_getBlockByNumber.*${field}`)
    await expect(source.header(height(1))).rejects.toThrow(words)
  })

  test.each([
    ['blockHash', null],
    ['blockNumber', null],
    ['logIndex', null],
    ['logIndex', '0xffffffff'],
    ['topics', ['0x12']],
    ['topics', Array.from({ length: 5 }, () => `0x${'1'.repeat(64)}`)],
    ['data', '0x123'],
    ['data', null],
    ['transactionHash', '0x12'],
    ['address', '0x12'],
  ])('log field %s: %j', async (field, value) => {
    node.extend([{ logs: [transfer(1n)] }])
    node.answer('eth_getLogs', (_, honest) =>
      (honest() as object[]).map((log) => ({ ...log, [field]: value })),
    )
    await expect(source.block(height(1))).rejects.toThrow(new RegExp(`eth_getLogs.*${field}`))
  })
})
