import type { CosmosChainOptions } from '@lockstep/config'
import { chainKey, height } from '@lockstep/domain'
import { type EndpointWish, endpointOptions } from '../rpc/index.js'

/** Options of a Cosmos chain as the config would resolve them: every event of every block, unless said otherwise. */
export function cosmosChainOptions({
  rpc,
  ...given
}: Partial<Omit<CosmosChainOptions, 'rpc'>> & { readonly rpc: readonly EndpointWish[] }): CosmosChainOptions {
  return {
    kind: 'cosmos',
    chain: chainKey('sim'),
    chainId: 'sim-1',
    startHeight: height(1),
    endHeight: null,
    finality: { by: 'depth', depth: 0 },
    rollbackDepthMax: 64,
    pollMs: 100,
    blocks: 'all',
    transactions: false,
    keepOrphans: false,
    queries: [],
    filterDigest: 'test',
    contracts: [{ contract: 'all', address: null, events: null, failedTransactions: false }],
    rpc: endpointOptions(rpc),
    ...given,
  }
}
