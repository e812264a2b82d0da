// How a call ends that gets no answer, or none that can be read: aborted, closed, too late, refused by HTTP.
import { getEventListeners } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ChainSource,
  describeError,
  type Height,
  HeightPrunedError,
  MalformedAnswerError,
  RpcUnavailableError,
} from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { cosmosChainOptions, SimulatedCometChain, SimulatedCometNode } from '../../testkit/src/comet/index.js'
import { createCosmosSource } from './cosmos-source.js'

const at = (height: number) => height as Height

let chain: SimulatedCometChain
let node: SimulatedCometNode
let source: ChainSource

/** With a time-out that is longer than any test: what ends a call must be what is tested. */
const open = (rpc = node.url, requestTimeoutMs = 60_000): ChainSource =>
  createCosmosSource(cosmosChainOptions({ rpc: [rpc] }), { logger: silentLogger(), requestTimeoutMs })

beforeEach(async () => {
  chain = new SimulatedCometChain({ chainId: 'sim-1', version: '0.38.17' })
  const events = [{ type: 'x', attributes: [['k', 'v']] as const }]
  chain.extend([1, 2, 3, 4].map((second) => ({ time: `2024-01-01T00:00:0${second}Z`, txs: [{ events }] })))
  node = await SimulatedCometNode.start(chain)
  source = open()
})

afterEach(async () => {
  await source.close()
  await node.stop()
})

describe('a call', () => {
  const calls: readonly [string, (target: ChainSource, signal?: AbortSignal) => Promise<unknown>][] = [
    ['check', (target, signal) => target.check(signal)],
    ['tip', (target, signal) => target.tip(signal)],
    ['header', (target, signal) => target.header(at(2), signal)],
    ['block', (target, signal) => target.block(at(2), signal)],
    ['range', (target, signal) => target.range(at(1), at(4), signal)],
    ['blockOfTransaction', (target, signal) => target.blockOfTransaction(chain.txHash(2, 0), signal)],
  ]

  it.each(calls)('of %s ends with the reason of its aborted signal', async (_, call) => {
    node.delay(60_000)
    const controller = new AbortController()
    const reason = new Error('enough')
    const answer = call(source, controller.signal)
    setTimeout(() => controller.abort(reason), 50)
    await expect(answer).rejects.toBe(reason)
    await expect(call(source, controller.signal)).rejects.toBe(reason)
  })

  it.each(calls)('of %s ends when the source is closed, and none is begun after', async (_, call) => {
    node.delay(60_000)
    const answer = call(source)
    setTimeout(() => void source.close(), 50)
    await expect(answer).rejects.toThrow(/the source was closed/)
    await expect(call(source)).rejects.toThrow(RpcUnavailableError)
  })

  it('is aborted inside a request and inside a pause too', async () => {
    await source.header(at(1))
    const lag = () => {
      node.lagResults(1000)
      return () => node.lagResults(0)
    }
    for (const prepare of [() => node.override('block', () => new Promise(() => {})), lag]) {
      const undo = prepare()
      const signal = AbortSignal.timeout(120)
      await expect(source.block(at(2), signal)).rejects.toMatchObject({ name: 'TimeoutError' })
      undo()
    }
  })

  it('leaves no listener on its signal, and many at once are no warning', async () => {
    chain.extendEmpty(60, 1_000_000n)
    const warnings: Error[] = []
    const note = (warning: Error) => warnings.push(warning)
    process.on('warning', note)
    const { signal } = new AbortController()
    await source.range(at(1), at(64), signal)
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
    await sleep(10) // warnings come with the next tick
    process.off('warning', note)
    expect(warnings).toEqual([])
  })

  it('ends after the time-out of a request', async () => {
    node.failNext(1, { kind: 'hang' })
    await expect(open(node.url, 100).tip()).rejects.toThrow(/no answer within 100 ms/)
  })

  it.each([
    ['a dropped connection', { kind: 'drop' }, /does not answer: (.+)/],
    ['a status of 502', { kind: 'status', status: 502, body: '<html>' }, /HTTP status 502/],
    ['a status of 429', { kind: 'status', status: 429 }, /HTTP status 429/],
    ['a page that is no JSON', { kind: 'status', status: 200, body: '<html>' }, /it is no JSON object/],
  ] as const)('fails on %s, and the next one works', async (_, fault, words) => {
    node.failNext(1, fault)
    await expect(source.tip()).rejects.toThrow(words)
    expect((await source.tip()).head.height).toBe(4)
  })

  it('is not made before the time that a refusal asks for', async () => {
    await source.check()
    const before = node.server.httpRequests
    node.failNext(1, { kind: 'status', status: 429, headers: { 'retry-after': '1' } })
    await expect(source.tip()).rejects.toThrow(/HTTP status 429/)
    await expect(source.tip()).rejects.toThrow(/left alone for another \d+ ms/)
    expect(node.server.httpRequests).toBe(before + 1)
    await sleep(1100)
    expect((await source.tip()).head.height).toBe(4)
  })

  it('whose answer is too long is not read to its end', async () => {
    const options = cosmosChainOptions({ rpc: [node.url] })
    const strict = createCosmosSource(options, { logger: silentLogger(), answerBytesMax: 2000 })
    await expect(strict.header(at(2))).resolves.toEqual(chain.ref(2))
    await expect(strict.range(at(1), at(4))).rejects.toThrow(/its answer is longer than 2000 bytes/)
    await strict.close()
  })

  it('reads a JSON-RPC error out of an answer with status 500', async () => {
    await source.check()
    const error = {
      code: -32603,
      message: 'Internal error',
      data: 'height 2 is not available, lowest height is 9',
    }
    node.failNext(1, { kind: 'status', status: 500, body: JSON.stringify({ jsonrpc: '2.0', id: -1, error }) })
    await expect(source.header(at(2))).rejects.toThrow(HeightPrunedError)
  })

  it('that fails says no secret of the address', async () => {
    const { host, port } = new URL(node.url)
    const secretive = open(`http://user:pass@${host}/v1/secretkey?token=secrettoken`)
    await node.stop()
    const error = await secretive.tip().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(RpcUnavailableError)
    expect(describeError(error)).toContain(host)
    expect(JSON.stringify([describeError(error), error])).not.toMatch(/secret|pass|user/)
    await node.server.start(Number(port))
  })

  it.each<[string, object, RegExp]>([
    ['an id that is not that of the request', { jsonrpc: '2.0', id: 'x', result: {} }, /its id is not/],
    ['neither a result nor an error', { jsonrpc: '2.0', id: 1 }, /neither a result nor an error/],
    ['a list', [], /no JSON object/],
  ])('refuses an answer with %s', async (_, answer, words) => {
    node.failNext(1, { kind: 'status', status: 200, body: JSON.stringify(answer) })
    const call = source.tip()
    await expect(call).rejects.toThrow(words)
    await expect(call).rejects.toThrow(MalformedAnswerError)
  })

  it('sends the user and password of the address as a header', async () => {
    const seen: (string | undefined)[] = []
    const server = createServer((request, response) => {
      seen.push(request.headers.authorization)
      response.writeHead(401).end()
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as AddressInfo
    await expect(open(`http://us%40er:pass@127.0.0.1:${port}/`).tip()).rejects.toThrow(/HTTP status 401/)
    expect(seen).toEqual([`Basic ${Buffer.from('us@er:pass').toString('base64')}`])
    server.closeAllConnections()
    server.close()
  })
})
