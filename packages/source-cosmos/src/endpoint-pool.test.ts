// Several endpoints of one chain over real HTTP: which one is asked, and what is said when they fail.

import { PassThrough } from 'node:stream'
import {
  type ChainSource,
  type Height,
  HeightPrunedError,
  type LockstepError,
  MalformedAnswerError,
  RpcUnavailableError,
  WrongChainError,
} from '@lockstep/domain'
import { createLogger, silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { cosmosChainOptions, SimulatedCometChain, SimulatedCometNode } from '../../testkit/src/comet/index.js'
import { createCosmosSource } from './cosmos-source.js'
import { COMPARED_EVERY_MS, STALLED_AFTER_MS, VERIFIED_FOR_MS } from './endpoint-pool.js'

const at = (height: number) => height as Height
const nodes: SimulatedCometNode[] = []
const sources: ChainSource[] = []
let chain: SimulatedCometChain
let a: SimulatedCometNode
let b: SimulatedCometNode

async function start(served = chain): Promise<SimulatedCometNode> {
  const node = await SimulatedCometNode.start(served)
  nodes.push(node)
  return node
}

function open(rpc: readonly string[], logger = silentLogger()): ChainSource {
  const source = createCosmosSource(cosmosChainOptions({ rpc }), { logger, requestTimeoutMs: 2000 })
  sources.push(source)
  return source
}

function wordsOf(chainId: string): SimulatedCometChain {
  const written = new SimulatedCometChain({ chainId, version: '0.38.17' })
  written.extend([
    { time: '2024-01-01T00:00:00Z', txs: [{ events: [{ type: 'x', attributes: [['k', 'v']] }] }] },
  ])
  written.extendEmpty(9, 1_000_000n)
  return written
}

const calls = (node: SimulatedCometNode) => node.server.calls.map(({ method }) => method)

beforeEach(async () => {
  chain = wordsOf('sim-1')
  a = await start()
  b = await start()
})

afterEach(async () => {
  vi.restoreAllMocks()
  for (const source of sources.splice(0)) await source.close()
  for (const node of nodes.splice(0)) await node.stop()
})

it('asks the first, and stays with the second after the first failed', async () => {
  const source = open([a.url, b.url])
  await source.header(at(1))
  expect([calls(a), calls(b)]).toEqual([['status', 'blockchain'], []])
  const port = Number(new URL(a.url).port)
  await a.stop()
  expect(await source.header(at(2))).toEqual(chain.ref(2))
  await a.server.start(port)
  const before = a.server.calls.length
  expect(await source.header(at(3))).toEqual(chain.ref(3))
  expect(a.server.calls.length).toBe(before)
})

it('begins a block again where its endpoint fails halfway: nothing is put together from two nodes', async () => {
  const source = open([a.url, b.url])
  await source.check()
  a.override('block_results', () => {
    a.server.dropConnections()
    return null
  })
  expect((await source.block(at(1)))?.ref).toEqual(chain.ref(1))
  expect(calls(b)).toEqual(['status', 'blockchain', 'block_results', 'block', 'blockchain'])
})

it('asks who a node is before its first use, after a failure, and every minute', async () => {
  const source = open([a.url])
  await source.header(at(1))
  await source.header(at(2))
  expect(a.server.countOf('status')).toBe(1)
  a.failNext(1, { kind: 'status', status: 503 })
  await expect(source.header(at(3))).rejects.toThrow(RpcUnavailableError)
  await source.header(at(3))
  expect(a.server.countOf('status')).toBe(2)
  const now = performance.now()
  vi.spyOn(performance, 'now').mockReturnValue(now + VERIFIED_FOR_MS + 1)
  await source.header(at(4))
  expect(a.server.countOf('status')).toBe(3)
})

it('shuts out a node that went over to another network, and never asks it for blocks', async () => {
  const source = open([a.url, b.url])
  a.reportNetwork('other-1')
  expect(await source.header(at(1))).toEqual(chain.ref(1))
  b.failNext(1, { kind: 'drop' })
  await expect(source.header(at(2))).rejects.toThrow(RpcUnavailableError)
  expect(calls(a)).toEqual(['status'])
})

it('lets a shut out node in again when it is of the right network after a check', async () => {
  const source = open([a.url])
  a.reportNetwork('other-1')
  await expect(source.tip()).rejects.toThrow(WrongChainError)
  a.reportNetwork(null)
  await expect(source.tip()).rejects.toThrow(WrongChainError)
  await source.check()
  expect((await source.tip()).head).toEqual(chain.ref(10))
})

it('finds a wrong network by the next tip, without waiting for the minute', async () => {
  const source = open([a.url])
  await source.tip()
  a.reportNetwork('other-1')
  await expect(source.tip()).rejects.toThrow(WrongChainError)
})

it('checks every endpoint: one of another network is an error, one that is down is not', async () => {
  const other = await start(wordsOf('other-1'))
  await expect(open([a.url, other.url]).check()).rejects.toMatchObject({
    code: 'wrong_chain',
    facts: { expected: 'sim-1', reported: 'other-1' },
  })
  await b.stop()
  await open([dead(), a.url]).check()
  await expect(open([dead()]).check()).rejects.toThrow(RpcUnavailableError)
})

/** Ports where nobody listens; not 9 or the like, which fetch itself refuses. */
const dead = (port = 3) => `http://127.0.0.1:${port}`

it('says what each of several dead endpoints said', async () => {
  const error = await open([dead(), a.url])
    .block(at(1))
    .then(() => open([dead(), `${dead(4)}/secret`]).block(at(1)))
    .catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(RpcUnavailableError)
  expect((error as LockstepError).facts.endpoint).toBe('http://127.0.0.1:3, http://127.0.0.1:4/…')
  expect((error as LockstepError).message).toMatch(
    /does not answer: http:\/\/127\.0\.0\.1:3: .*ECONNREFUSED.*; http:\/\/127\.0\.0\.1:4\/…: .*ECONNREFUSED/,
  )
})

it('goes to a node that keeps more; a height is pruned only where all say so', async () => {
  a.pruneBelow(5)
  const source = open([a.url, b.url])
  expect(await source.header(at(2))).toEqual(chain.ref(2))
  b.pruneBelow(7)
  await expect(source.header(at(2))).rejects.toThrow(HeightPrunedError)
  await b.stop()
  await expect(source.header(at(2))).rejects.toThrow(RpcUnavailableError)
})

it('names the gap up to where the node begins that keeps most', async () => {
  a.pruneBelow(8)
  b.pruneBelow(6)
  await expect(open([a.url, b.url]).range(at(2), at(9))).rejects.toThrow(/blocks 2 to 5: its lowest is 6/)
})

/** Time as the pool sees it, from now on. */
function passes(ms: number): void {
  const now = performance.now()
  vi.spyOn(performance, 'now').mockReturnValue(now + ms)
}

it('leaves a node that stands still for one that is ahead', async () => {
  const source = open([a.url, b.url])
  a.stall()
  await source.tip()
  chain.extendEmpty(1, 1_000_000n)
  expect((await source.tip()).head.height).toBe(10)
  passes(STALLED_AFTER_MS)
  await source.tip()
  expect((await source.tip()).head.height).toBe(11)
})

it('leaves a node that follows far behind the others, not one that is a block behind', async () => {
  const source = open([a.url, b.url])
  await source.tip()
  chain.extendEmpty(6, 1_000_000n)
  a.lowerHead(15)
  passes(COMPARED_EVERY_MS)
  await source.tip()
  a.lowerHead(16)
  expect((await source.tip()).head.height).toBe(16)
  expect(calls(b).filter((method) => method === 'blockchain')).toEqual([])
  a.lowerHead(10)
  await source.tip()
  chain.extendEmpty(10, 1_000_000n)
  a.lowerHead(17)
  passes(COMPARED_EVERY_MS)
  await source.tip()
  expect((await source.tip()).head.height).toBe(26)
})

it('stays where it is on a chain that was halted, however long', async () => {
  const source = open([a.url, b.url])
  await source.tip()
  for (const hours of [1, 2, 3]) {
    passes(hours * 3_600_000)
    expect((await source.tip()).head).toEqual(chain.ref(10))
  }
  expect(calls(b).filter((method) => method !== 'status')).toEqual([])
  chain.extendEmpty(1, 1_000_000n)
  expect((await source.tip()).head).toEqual(chain.ref(11))
})

it('tells of a node that fails while another serves, until it is well again', async () => {
  const source = open([a.url, b.url])
  a.failNext(1, { kind: 'status', status: 502 })
  await source.tip()
  expect(source.trouble()).toBe(`${a.url}: HTTP status 502`)
  passes(COMPARED_EVERY_MS)
  await source.tip()
  expect(source.trouble()).toBeNull()
})

it('goes to another node after an answer that cannot be used', async () => {
  a.override('block_results', () => ({ height: '1', txs_results: [] }))
  expect((await open([a.url, b.url]).block(at(1)))?.events).toHaveLength(1)
  b.override('block_results', () => ({ height: '1', txs_results: [] }))
  await expect(open([a.url, b.url]).block(at(1))).rejects.toThrow(MalformedAnswerError)
})

it('reads nodes of several versions side by side, each in its own way', async () => {
  const old = new SimulatedCometChain({ chainId: 'sim-1', version: '0.34.24' })
  old.extend([{ time: '2024-01-01T00:00:00Z', txs: [{ events: [{ type: 'x', attributes: [['k', 'v']] }] }] }])
  const source = open([(await start(old)).url, a.url])
  expect((await source.block(at(1)))?.events[0]?.args).toEqual({ k: 'v' })
  nodes.at(-1)?.failNext(9, { kind: 'drop' })
  expect((await source.block(at(1)))?.events[0]?.args).toEqual({ k: 'v' })
})

it('logs that it moved, with the reason and without secrets', async () => {
  const lines = new PassThrough()
  const logger = createLogger({ level: 'info', format: 'json', destination: lines })
  await open(['http://user:pass@127.0.0.1:3/secret', a.url], logger).tip()
  const line = String(lines.read())
  expect(line).toContain('moved to another endpoint')
  expect(JSON.parse(line)).toMatchObject({ chain: 'sim', endpoint: a.url, err: { code: 'rpc_unavailable' } })
  expect(line).not.toMatch(/secret|pass/)
})
