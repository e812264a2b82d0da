/*
 * Goal: a node's announcements of heads are heard, and a subscription that is refused, dropped, silent or of another
 * chain is noticed and opened anew, ever more slowly (S31).
 * Method: the source against a simulated node over HTTP and WebSocket, and against Anvil.
 */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChainSource } from '@lockstep/domain'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { evmChainOptions, SimulatedEvmNode, startAnvil } from '../../testkit/src/evm/index.js'
import { createEvmSource } from './index.js'
import { recordingLogger } from './recording-logger.fixture.js'

let node: SimulatedEvmNode
let source: ChainSource
let log: ReturnType<typeof recordingLogger>
let heard = 0

beforeEach(async () => {
  node = new SimulatedEvmNode({ chainId: 1 })
  node.chain.finalizedDepth = 2
  node.extend(10)
  await node.start()
  heard = 0
})
afterEach(async () => {
  await source.close()
  await node.stop()
})

/** Listens; gives the function that ends it. */
function listen(ws = node.wsUrl, url = node.url): () => void {
  log = recordingLogger()
  source = createEvmSource(evmChainOptions({ rpc: [{ url, ws }] }), log)
  return source.onHead(() => {
    heard += 1
  })
}

async function until(what: string, holds: () => boolean, round = async () => {}): Promise<void> {
  for (let rounds = 0; !holds(); rounds++) {
    if (rounds > 3_000) throw new Error(`${what} never came`)
    await round()
    await sleep(10)
  }
}

/** A block, and a poll that sees it. */
const move = async (): Promise<void> => {
  node.extend(1)
  await source.tip()
}

/** Blocks until one is announced. */
const untilHeard = (): Promise<void> => {
  const before = heard
  return until(
    'an announcement',
    () => heard > before,
    async () => {
      node.extend(1)
    },
  )
}

const messages = () => log.lines.map(({ msg }) => msg)

test('heads are announced while somebody listens, and each once', async () => {
  const end = listen()
  await untilHeard()
  const before = heard
  node.extend(1)
  await until('the announcement', () => heard > before)
  await sleep(50)
  expect(heard).toBe(before + 1)
  expect(source.trouble()).toBeNull()
  end()
  await until('the end', () => node.socketsOpen === 0)
  node.extend(1)
  await sleep(50)
  expect(heard).toBe(before + 1)
  expect(log.lines).toEqual([])
})

test('nothing is opened where no address was given, or nobody listens', async () => {
  source = createEvmSource(evmChainOptions({ rpc: [node.url] }), recordingLogger())
  source.onHead(() => {})()
  await source.close()
  source = createEvmSource(evmChainOptions({ rpc: [{ url: node.url, ws: node.wsUrl }] }), recordingLogger())
  await source.tip()
  await sleep(50)
  expect(node.socketsOpened).toBe(0)
})

describe('a subscription', () => {
  test('that was dropped is opened anew', async () => {
    listen()
    await untilHeard()
    node.dropSockets()
    await until('the trouble', () => source.trouble() !== null)
    expect(source.trouble()).toMatch(/^ws:\/\/127\.0\.0\.1:\d+ announces no heads: the connection was closed/)
    await untilHeard()
    expect(source.trouble()).toBeNull()
    expect(messages()).toEqual(['head subscription failed', 'head subscription recovered'])
  })

  test('that is refused is tried ever more slowly, in one line', async () => {
    node.refusesSockets = true
    listen()
    await until('the trouble', () => /403/.test(source.trouble() ?? ''))
    await sleep(3_500) // room for four more tries at most; without growing delays for hundreds
    expect(node.socketsRefused).toBeGreaterThan(1)
    expect(node.socketsRefused).toBeLessThanOrEqual(5)
    expect(messages()).toEqual(['head subscription failed'])
    node.refusesSockets = false
    await untilHeard()
    expect(messages()).toEqual(['head subscription failed', 'head subscription recovered'])
  })

  test('that is accepted and delivers nothing while the head moves is opened anew, and polling sees the heads', async () => {
    node.mutesHeads = true
    listen()
    await until('the connection', () => node.socketsOpen === 1)
    await until('the trouble', () => source.trouble() !== null, move)
    expect(source.trouble()).toMatch(/the head moved to 1\d, and it said nothing/)
    await until('another try', () => node.socketsOpened > 1, move)
    expect(messages()).toEqual(['head subscription failed'])
    node.mutesHeads = false
    await untilHeard()
    expect(messages()).toEqual(['head subscription failed', 'head subscription recovered'])
  })

  test('that delivers nothing while the head stands still is no trouble', async () => {
    listen()
    await until('the connection', () => node.socketsOpen === 1)
    for (let polls = 0; polls < 20; polls++) await source.tip()
    expect([source.trouble(), node.socketsOpened]).toEqual([null, 1])
  })

  test('that is heard is no trouble, however often the head moves', async () => {
    listen()
    await untilHeard()
    for (let moves = 0; moves < 20; moves++) {
      const before = heard
      node.extend(1)
      await until('the announcement', () => heard > before)
      await source.tip()
    }
    expect([source.trouble(), node.socketsOpened]).toEqual([null, 1])
  })

  test('at a node of another chain is named', async () => {
    const other = new SimulatedEvmNode({ chainId: 56 })
    await other.start()
    try {
      listen(other.wsUrl)
      await until('the trouble', () => /is of chain 56, but the config says 1/.test(source.trouble() ?? ''))
    } finally {
      await other.stop()
    }
  })

  test('keeps the secrets of its address to itself', async () => {
    node.refusesSockets = true
    listen(`${node.wsUrl.replace('//', '//someone:passw0rd-long@')}/v3/0123456789abcdef`)
    await until('the trouble', () => source.trouble() !== null)
    expect(`${source.trouble()} ${JSON.stringify(log.lines)}`).not.toMatch(/passw0rd|0123456789abcdef/)
  })

  test('at an address that is none is a trouble, and no crash', async () => {
    listen(`${node.wsUrl}/#fragment`)
    expect(source.trouble()).toMatch(/fragment/)
  })
})

test('Anvil announces its heads', async () => {
  const anvil = await startAnvil({ chainId: 1 })
  try {
    listen(anvil.url.replace('http', 'ws'), anvil.url)
    await until(
      'an announcement',
      () => heard > 0,
      async () => {
        await anvil.rpc('anvil_mine', ['0x1'])
      },
    )
    expect(source.trouble()).toBeNull()
  } finally {
    await anvil.stop()
  }
})

test('a refusal that is nested deeper than JSON.stringify goes ends the subscription alone', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
  server.on('connection', (socket) =>
    socket.on('message', () => socket.send(`{"jsonrpc":"2.0","id":2,"error":${deep}}`)),
  )
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const end = listen(`ws://127.0.0.1:${port}`)
  await until('the refusal', () => /it refused: .*nested too deeply/.test(source.trouble() ?? ''))
  end()
  for (const socket of server.clients) socket.terminate()
  server.close()
})
