import type { SimulatedCometNode, SimulatedEvmNode } from '@lockstep/testkit'
import type { TestChain } from '../e2e/kit/chains.js'
import { TOKEN } from '../worker/scene.js'

/*
 * Simulated nodes as `config/chains.yaml` declares them, for cases that speak of processes: what those do is decided by
 * the times and hashes of blocks, which real nodes would not let a test choose.
 */

const TRANSFER = 'event Transfer(address indexed from, address indexed to, uint256 value)'

export const servedEvm = (
  name: string,
  node: SimulatedEvmNode,
  config: Readonly<Record<string, unknown>> = {},
): TestChain => ({
  name,
  config: {
    kind: 'evm',
    chainId: node.chain.chainId,
    rpc: [node.url],
    startHeight: node.chain.first.number,
    pollInterval: '100ms',
    contracts: { token: { address: TOKEN, abi: [TRANSFER], events: ['Transfer'] } },
    ...config,
  },
  stop: () => node.stop(),
})

export const servedCosmos = (name: string, node: SimulatedCometNode): TestChain => ({
  name,
  config: {
    kind: 'cosmos',
    chainId: node.chain.chainId,
    rpc: [node.url],
    startHeight: node.chain.initialHeight,
    pollInterval: '100ms',
    contracts: { app: { events: [{ type: 'transfer' }] } },
  },
  stop: () => node.stop(),
})
