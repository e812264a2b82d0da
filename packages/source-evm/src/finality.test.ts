/*
 * Goal: head and finalized height by tag or depth, where finalized never falls (S18).
 * Method: the source over HTTP against a node whose tags work, fail and vanish.
 */
import { Writable } from 'node:stream'
import type { EvmChainOptions } from '@lockstep/config'
import type { ChainSource } from '@lockstep/domain'
import { createLogger, silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { evmChainOptions, SimulatedEvmNode } from '../../testkit/src/evm/index.js'
import { HttpFailure, RpcFault } from '../../testkit/src/rpc/index.js'
import { createEvmSource } from './index.js'

let node: SimulatedEvmNode
let source: ChainSource

beforeEach(async () => {
  node = new SimulatedEvmNode({ chainId: 1 })
  await node.start()
  source = sourceWith({})
})
afterEach(async () => {
  await source.close()
  await node.stop()
})

const sourceWith = (given: Partial<EvmChainOptions>, logger = silentLogger()): ChainSource =>
  createEvmSource(evmChainOptions({ rpc: [node.url], ...given }), { logger })

describe('tip', () => {
  test('by tag, never backwards, and null without one', async () => {
    node.extend(100)
    node.chain.finalizedDepth = null
    expect(await source.tip()).toMatchObject({ head: { height: 100 }, finalized: null })
    node.chain.finalizedDepth = 10
    expect((await source.tip()).finalized).toBe(90)
    node.answer('eth_getBlockByNumber', (params, honest) => {
      if (params[0] === 'finalized') throw new RpcFault(-32000, "'finalized' tag not supported")
      return honest()
    })
    expect((await source.tip()).finalized).toBe(90)
    node.answer('eth_getBlockByNumber', null)
    node.extend(1)
    expect((await source.tip()).finalized).toBe(91)
    node.lowerHead(50)
    expect(await source.tip()).toMatchObject({ head: { height: 51 }, finalized: 91 })
  })

  test('warns once of a tag that is refused, and takes an outage for one', async () => {
    const lines: string[] = []
    const destination = new Writable({
      write: (chunk, _, done) => {
        lines.push(JSON.parse(String(chunk)).msg)
        done()
      },
    })
    source = sourceWith({}, createLogger({ level: 'info', format: 'json', destination }))
    node.extend(100)
    const failTag = (error: Error) =>
      node.answer('eth_getBlockByNumber', (params, honest) => {
        if (params[0] === 'finalized') throw error
        return honest()
      })
    failTag(new RpcFault(-32602, 'invalid argument 0: hex string "finalized"'))
    for (let polls = 0; polls < 3; polls++) expect((await source.tip()).finalized).toBeNull()
    expect(lines).toEqual(['finality tag was not answered'])
    failTag(new HttpFailure({ kind: 'status', status: 500 }))
    await expect(source.tip()).rejects.toMatchObject({ code: 'rpc_unavailable' })
  })

  test('by depth', async () => {
    source = sourceWith({ finality: { by: 'depth', depth: 12 } })
    node.extend(5)
    expect((await source.tip()).finalized).toBeNull()
    node.extend(995)
    expect((await source.tip()).finalized).toBe(988)
  })

  test('by the tag safe', async () => {
    source = sourceWith({ finality: { by: 'tag', tag: 'safe' } })
    node.extend(100)
    expect((await source.tip()).finalized).toBe(68)
  })
})
