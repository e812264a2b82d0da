import { formatTime, type TimeUs, timeFromSeconds } from '@lockstep/domain'
import {
  addressOf,
  type BlockWish,
  SimulatedCometChain,
  SimulatedCometNode,
  SimulatedEvmNode,
  transferLog,
} from '@lockstep/testkit'
import type { TestChain } from './chains.js'

/** Three chains on nodes that fail and lie on demand. They stand still, save where a test extends or forks them. */
export interface SimulatedChains {
  readonly alpha: SimulatedEvmNode
  readonly beta: SimulatedEvmNode
  readonly gamma: { readonly chain: SimulatedCometChain; readonly node: SimulatedCometNode }
  readonly chains: readonly [TestChain, TestChain, TestChain]
  /** Each chain's last block. */
  readonly heads: Readonly<Record<ChainName, number>>
  /** So many events a fresh index holds of the chain up to that height. */
  eventsUpTo(chain: ChainName, height: number): number
  stop(): Promise<void>
}

export type ChainName = 'alpha' | 'beta' | 'gamma'

const ORIGIN_SECONDS = 1_700_000_000
const SPAN_SECONDS = 300
const ALPHA_STEP = 12
const BETA_STEP = 5
/** Cosmos times are finer than a second, and than what tables keep. */
const GAMMA_STEP_US = 7_123_457n
const TOKEN = addressOf(0x70)

/** A moment that the chains were at, `seconds` after their first blocks; the last ones are at 300. */
export const momentAt = (seconds: number): string => new Date((ORIGIN_SECONDS + seconds) * 1000).toISOString()

/**
 * Not every block holds an event, so between stored blocks the cut has to be searched at the node. `beta` stores all
 * its blocks.
 */
export async function startSimulatedChains(): Promise<SimulatedChains> {
  const alpha = evmNode(1001, ALPHA_STEP)
  const beta = evmNode(1002, BETA_STEP)
  const chain = gammaChain()
  const node = await SimulatedCometNode.start(chain)
  await Promise.all([alpha.start(), beta.start()])
  const stop = async (): Promise<void> => {
    await Promise.all([alpha.stop(), beta.stop(), node.stop()])
  }
  return {
    alpha,
    beta,
    gamma: { chain, node },
    chains: [
      { name: 'alpha', config: evmConfig(1001, alpha.url), stop },
      { name: 'beta', config: { ...evmConfig(1002, beta.url), blocks: 'all' }, stop },
      { name: 'gamma', config: cosmosConfig(node.url), stop },
    ],
    heads: { alpha: alpha.chain.head.number, beta: beta.chain.head.number, gamma: chain.head },
    eventsUpTo: (name, height) => eventsOf(name === 'gamma' ? 1 : 0, height),
    stop,
  }
}

/** Each third block holds one event, each ninth two. */
const eventsAt = (height: number): number => (height % 9 === 0 ? 2 : height % 3 === 0 ? 1 : 0)

const eventsOf = (first: number, height: number): number => {
  let events = 0
  for (let each = first; each <= height; each++) events += each === 0 ? 0 : eventsAt(each)
  return events
}

function evmNode(chainId: number, step: number): SimulatedEvmNode {
  const node = new SimulatedEvmNode({ chainId, seed: chainId, blockTime: step, firstTime: ORIGIN_SECONDS })
  node.chain.finalizedDepth = 8
  node.extend(
    Array.from({ length: SPAN_SECONDS / step }, (_, index) => ({
      logs: Array.from({ length: eventsAt(index + 1) }, (_log, number) => transferOf(index + 1, number)),
    })),
  )
  return node
}

/** An EVM block with one transfer, so many seconds after the first blocks. */
export const transferWish = (seconds: number, value: number): BlockWish => ({
  time: ORIGIN_SECONDS + seconds,
  logs: [transferOf(seconds, value)],
})

const transferOf = (height: number, number: number) =>
  transferLog({
    token: TOKEN,
    from: addressOf(0xa),
    to: addressOf(0xb),
    value: BigInt(1000 * height + number),
  })

function gammaChain(): SimulatedCometChain {
  const chain = new SimulatedCometChain({ chainId: 'e2e-1', version: '0.38.0' })
  const origin = timeFromSeconds(ORIGIN_SECONDS)
  const count = Number((BigInt(SPAN_SECONDS) * 1_000_000n) / GAMMA_STEP_US)
  for (let height = 1; height <= count; height++) {
    const events = Array.from({ length: eventsAt(height) }, (_, index) => ({
      type: 'app',
      attributes: [['key', `${height}/${index}`]] as const,
    }))
    const time = formatTime((origin + BigInt(height) * GAMMA_STEP_US) as TimeUs)
    chain.extend([{ time, txs: events.length > 0 ? [{ events }] : [] }])
  }
  return chain
}

const evmConfig = (chainId: number, url: string): Readonly<Record<string, unknown>> => ({
  kind: 'evm',
  chainId,
  rpc: [url],
  startHeight: 0,
  pollInterval: '200ms',
  contracts: {
    token: {
      address: TOKEN,
      abi: ['event Transfer(address indexed from, address indexed to, uint256 value)'],
      events: ['Transfer'],
    },
  },
})

const cosmosConfig = (url: string): Readonly<Record<string, unknown>> => ({
  kind: 'cosmos',
  chainId: 'e2e-1',
  rpc: [url],
  startHeight: 1,
  pollInterval: '200ms',
  contracts: { app: { events: [{ type: 'app' }] } },
})
