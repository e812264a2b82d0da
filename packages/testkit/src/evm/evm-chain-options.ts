import type { EvmChainOptions } from '@lockstep/config'
import { chainKey, height } from '@lockstep/domain'
import { type EndpointWish, endpointOptions } from '../rpc/index.js'
import { TRANSFER_EVENT } from './transfer-log.js'

/** Options of an EVM chain as the config would resolve them: ERC-20 transfers of any address, unless said otherwise. */
export function evmChainOptions({
  rpc,
  ...given
}: Partial<Omit<EvmChainOptions, 'rpc'>> & { readonly rpc: readonly EndpointWish[] }): EvmChainOptions {
  return {
    kind: 'evm',
    chain: chainKey('alpha'),
    chainId: '1',
    startHeight: height(0),
    endHeight: null,
    finality: { by: 'tag', tag: 'finalized' },
    rollbackDepthMax: 64,
    pollMs: 100,
    blocks: 'events',
    transactions: false,
    keepOrphans: false,
    queries: [],
    filterDigest: 'test',
    contracts: [{ contract: 'token', addresses: null, events: [TRANSFER_EVENT] }],
    rpc: endpointOptions(rpc),
    ...given,
  }
}
