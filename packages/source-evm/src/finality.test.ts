/*
 * Goal: head and finalized height by tag or depth, where finalized never falls (S18).
 * Method: the source over HTTP against a node whose tags work, fail and vanish.
 */
import type { EvmChainOptions } from '@lockstep/config'
import type { ChainSource } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { evmChainOptions, SimulatedEvmNode } from '../../testkit/src/evm/index.js'
import { HttpFailure, RpcFault } from '../../testkit/src/rpc/index.js'
import { createEvmSource } from './index.js'
import { recordingLogger } from './recording-logger.fixture.js'

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
    const { logger, lines } = recordingLogger()
    source = sourceWith({}, logger)
    node.extend(100)
    const failTag = (error: Error) =>
      node.answer('eth_getBlockByNumber', (params, honest) => {
        if (params[0] === 'finalized') throw error
        return honest()
      })
    failTag(new RpcFault(-32602, 'invalid argument 0: hex string "finalized"'))
    for (let polls = 0; polls < 3; polls++) expect((await source.tip()).finalized).toBeNull()
    expect(lines).toMatchObject([{ msg: 'finality tag was not answered' }])
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

describe('tip by tag and depth (S18)', () => {
  const both = { finality: { by: 'both', tag: 'finalized', depth: 12 } } as const
  const answerTag = (answer: () => unknown) =>
    node.answer('eth_getBlockByNumber', (params, honest) => (params[0] === 'finalized' ? answer() : honest()))
  const refuse = (error: Error) => () => {
    throw error
  }

  test.each([
    ['an error', refuse(new RpcFault(-32602, 'invalid argument 0: hex string "finalized"'))],
    ['null', () => null],
  ])(
    'where the tag is answered with %s from the start the depth serves, with one warning',
    async (_, answer) => {
      const { logger, lines } = recordingLogger()
      source = sourceWith(both, logger)
      answerTag(answer)
      node.extend(5)
      expect((await source.tip()).finalized).toBeNull()
      node.extend(995)
      expect((await source.tip()).finalized).toBe(988)
      node.extend(1)
      expect((await source.tip()).finalized).toBe(989)
      expect(lines).toMatchObject([{ level: 'warn', msg: 'finality tag was not answered', depthInstead: 12 }])
    },
  )

  test('where the tag worked once the depth never serves', async () => {
    source = sourceWith(both)
    node.extend(1000)
    node.chain.finalizedDepth = 60
    const seen = [(await source.tip()).finalized]
    for (const answer of [refuse(new RpcFault(-32000, 'internal')), () => null]) {
      answerTag(answer)
      seen.push((await source.tip()).finalized)
    }
    node.answer('eth_getBlockByNumber', null)
    node.extend(1)
    seen.push((await source.tip()).finalized)
    expect(seen).toEqual([940, 940, 940, 941])
  })

  test('by whichever node it worked', async () => {
    const other = new SimulatedEvmNode(node.chain)
    await other.start()
    try {
      source = sourceWith({ ...both, ...evmChainOptions({ rpc: [node.url, other.url], ...both }) })
      node.extend(1000)
      node.chain.finalizedDepth = 60
      expect((await source.tip()).finalized).toBe(940)
      await node.stop()
      other.answer('eth_getBlockByNumber', (params, honest) => (params[0] === 'finalized' ? null : honest()))
      expect((await source.tip()).finalized).toBe(940)
    } finally {
      await other.stop()
    }
  })

  test('a node that has no time for us has not said that it lacks the tag', async () => {
    source = sourceWith(both)
    node.extend(1000)
    answerTag(refuse(new RpcFault(-32005, 'too many requests')))
    await expect(source.tip()).rejects.toMatchObject({ code: 'rpc_unavailable' })
  })
})
