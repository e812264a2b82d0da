// What a node announces over its websocket, and the ways in which that ends: each is noticed, and the next connection
// brings announcements again. A simulated node over a real socket.
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChainSource } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { cosmosChainOptions, SimulatedCometChain, SimulatedCometNode } from '../../testkit/src/comet/index.js'
import { createCosmosSource } from './cosmos-source.js'

let node: SimulatedCometNode
let source: ChainSource
let heard: number

function open(silentAfterMs = 60_000, ws: string | null = node.wsUrl): void {
  const options = cosmosChainOptions({ rpc: [{ url: node.url, ws }] })
  source = createCosmosSource(options, { logger: silentLogger(), silentAfterMs })
}

const until = async (condition: () => boolean) => {
  while (!condition()) await sleep(10)
}

/** Announces until it is heard: a subscription may be on its way. */
async function untilHeard(): Promise<void> {
  const before = heard
  while (heard === before) {
    node.announce()
    await sleep(20)
  }
}

const listen = () =>
  source.onHead(() => {
    heard += 1
  })

beforeEach(async () => {
  const chain = new SimulatedCometChain({ chainId: 'sim-1', version: '0.38.17' })
  chain.extendEmpty(3, 1_000_000n)
  node = await SimulatedCometNode.start(chain)
  heard = 0
})

afterEach(async () => {
  await source.close()
  await node.stop()
})

it('is passed on while somebody listens', async () => {
  open()
  expect(node.sockets.open).toBe(0)
  const end = listen()
  await untilHeard()
  expect(source.trouble()).toBeNull()
  end()
  await until(() => node.sockets.open === 0)
  const again = listen()
  await untilHeard()
  again()
})

it('is not asked for where no address is given', async () => {
  open(60_000, null)
  listen()()
  expect([node.sockets.asked, source.trouble()]).toEqual([0, null])
})

describe('a subscription', () => {
  it.each<[string, () => void, RegExp]>([
    ['that is dropped', () => node.sockets.drop(false), /announces no heads: the connection was dropped/],
    ['that ends with a goodbye', () => node.sockets.drop(true), /the connection was dropped/],
  ])('%s is opened anew', async (_, end, words) => {
    open()
    listen()
    await untilHeard()
    end()
    await until(() => source.trouble() !== null)
    expect(source.trouble()).toMatch(words)
    await untilHeard()
    expect(source.trouble()).toBeNull()
    expect(node.sockets.asked).toBe(2)
  })

  it('that falls silent is opened anew', async () => {
    open(300)
    listen()
    await untilHeard()
    node.sockets.forget()
    await until(() => source.trouble() !== null)
    expect(source.trouble()).toMatch(/announces no heads: nothing came for 300 ms/)
    await untilHeard()
    expect(source.trouble()).toBeNull()
  })

  it('that is refused is asked for again', async () => {
    node.sockets.refusal = 'max_subscription_clients 100 reached'
    open()
    listen()
    await until(() => source.trouble() !== null)
    expect(source.trouble()).toMatch(/it refused: .*max_subscription_clients 100 reached/)
    node.sockets.refusal = null
    await untilHeard()
  })

  it('of a node that is not there does no harm, and says no secret of its address', async () => {
    open(60_000, 'ws://user:pass@127.0.0.1:3/secret')
    listen()
    await until(() => source.trouble() !== null)
    expect(source.trouble()).toMatch(/ECONNREFUSED/)
    expect(source.trouble()).not.toMatch(/secret|pass/)
  })

  it('leaves no connection when the source is closed, opening ones included', async () => {
    open()
    listen()
    await source.close()
    await sleep(200)
    expect(node.sockets.open).toBe(0)
  })
})
