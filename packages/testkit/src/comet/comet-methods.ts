import { createHash } from 'node:crypto'
import { RpcFault } from '../rpc/index.js'
import { VALIDATOR_ADDRESS } from './build-block.js'
import type { CometChainView, ServedBlock } from './comet-wire.js'

/** What a node has of its chain, and what it says of itself. */
export interface CometNodeState {
  readonly chain: CometChainView
  /** As `status` says it; the chain's own where the node does not lie. */
  readonly network: string
  /** The highest height that the node has; 0: none. */
  readonly head: number
  /** The lowest height that the node still has. */
  readonly base: number
}

export type CometParams = Readonly<Record<string, unknown>>
export type CometMethod = (state: CometNodeState, params: CometParams) => unknown

/** Headers that `blockchain` gives at most. */
const HEADERS_MAX = 20

/** Each method with the names of its parameters, in the order in which a list of them counts. */
export const COMET_METHODS: Readonly<
  Record<string, { readonly names: readonly string[]; readonly answer: CometMethod }>
> = {
  health: { names: [], answer: () => ({}) },
  status: { names: [], answer: status },
  genesis: { names: [], answer: genesis },
  block: { names: ['height'], answer: (state, params) => blockAt(state, heightOf(state, params)).block },
  block_results: { names: ['height'], answer: blockResults },
  header: {
    names: ['height'],
    answer: (state, params) => ({ header: blockAt(state, heightOf(state, params)).block.block.header }),
  },
  blockchain: { names: ['minHeight', 'maxHeight'], answer: blockchain },
  tx: { names: ['hash', 'prove'], answer: tx },
}

/** CometBFT's only way to say no: the reason is in `data`. */
export const internalError = (reason: string): RpcFault => new RpcFault(-32603, 'Internal error', reason)

function status({ chain, network, head, base }: CometNodeState): unknown {
  const [latest, earliest] = [chain.at(head)?.block ?? null, chain.at(base)?.block ?? null]
  return {
    node_info: {
      protocol_version: { p2p: '8', block: '11', app: '1' },
      id: '0b8e9b2fc583439e365a85f06a8909294f7657e8',
      listen_addr: 'tcp://0.0.0.0:26656',
      network,
      version: chain.version,
      channels: '40202122233038606100',
      moniker: 'simulated',
      other: { tx_index: 'on', rpc_address: 'tcp://0.0.0.0:26657' },
    },
    sync_info: {
      latest_block_hash: latest?.block_id.hash ?? '',
      latest_app_hash: latest?.block.header.app_hash ?? '',
      latest_block_height: String(head),
      latest_block_time: latest?.block.header.time ?? '0001-01-01T00:00:00Z',
      earliest_block_hash: earliest?.block_id.hash ?? '',
      earliest_app_hash: earliest?.block.header.app_hash ?? '',
      earliest_block_height: String(earliest === null ? 0 : base),
      earliest_block_time: earliest?.block.header.time ?? '0001-01-01T00:00:00Z',
      catching_up: false,
    },
    validator_info: { ...VALIDATOR, voting_power: '10' },
  }
}

const VALIDATOR = {
  address: VALIDATOR_ADDRESS,
  pub_key: { type: 'tendermint/PubKeyEd25519', value: 'OKAnhjqSneoGRrC37lMmw13vpj3pge3Au8/5Q1YfGq0=' },
}

function genesis({ chain }: CometNodeState): unknown {
  return {
    genesis: {
      genesis_time: chain.at(chain.initialHeight)?.block.block.header.time ?? '0001-01-01T00:00:00Z',
      chain_id: chain.chainId,
      initial_height: String(chain.initialHeight),
      consensus_params: {
        block: { max_bytes: '22020096', max_gas: '-1' },
        evidence: { max_age_num_blocks: '100000', max_age_duration: '172800000000000', max_bytes: '1048576' },
        validator: { pub_key_types: ['ed25519'] },
        version: { app: '0' },
        ...(/^0\.3[47]\./.test(chain.version) ? {} : { abci: { vote_extensions_enable_height: '0' } }),
      },
      validators: [{ ...VALIDATOR, power: '10', name: '' }],
      app_hash: '',
    },
  }
}

/** `env.getHeight` of CometBFT, its words included. */
function heightOf({ head, base }: CometNodeState, { height }: CometParams): number {
  if (height === undefined || height === null || height === '') return head
  const asked = integerOf(height)
  if (asked <= 0) throw internalError(`height must be greater than 0, but got ${asked}`)
  if (asked > head) {
    throw internalError(`height ${asked} must be less than or equal to the current blockchain height ${head}`)
  }
  if (asked < base) throw internalError(`height ${asked} is not available, lowest height is ${base}`)
  return asked
}

function blockAt({ chain }: CometNodeState, height: number): ServedBlock {
  const served = chain.at(height)
  if (served === null) throw internalError(`no block was recorded at height ${height}`)
  return served
}

function blockResults(state: CometNodeState, params: CometParams): unknown {
  const height = heightOf(state, params)
  const { results } = blockAt(state, height)
  if (results === null) throw internalError(resultsMissing(height))
  return results
}

export const resultsMissing = (height: number | string): string =>
  `could not find results for height #${height}`

/** `filterMinMax` of CometBFT: newest first, the lower bound gives way. */
function blockchain(state: CometNodeState, { minHeight, maxHeight }: CometParams): unknown {
  const { chain, head, base } = state
  const [min, max] = [integerOf(minHeight ?? '0'), integerOf(maxHeight ?? '0')]
  if (min < 0 || max < 0) throw internalError('negative height')
  const high = Math.min(head, max === 0 ? head : max)
  const low = Math.max(base, min === 0 ? 1 : min, high - HEADERS_MAX + 1)
  if (low > high) throw internalError(`min height ${low} can't be greater than max height ${high}`)
  const heights = Array.from({ length: high - low + 1 }, (_, index) => high - index)
  return {
    last_height: String(head),
    // A recording has holes; a node has none.
    block_metas: heights.flatMap((height) => headerMeta(chain.at(height))),
  }
}

function headerMeta(served: ServedBlock | null): readonly unknown[] {
  if (served === null) return []
  const { block_id, block } = served.block
  const txs = block.data.txs ?? []
  return [
    {
      block_id,
      block_size: String(JSON.stringify(block).length),
      header: block.header,
      num_txs: String(txs.length),
    },
  ]
}

function tx(state: CometNodeState, { hash }: CometParams): unknown {
  const wanted = hashParam(hash)
  const { chain, head, base } = state
  for (let height = head; height >= base; height -= 1) {
    const served = chain.at(height)
    const index = served?.block.block.data.txs?.findIndex((bytes) => txHashOf(bytes) === wanted) ?? -1
    const bytes = served?.block.block.data.txs?.[index]
    if (bytes === undefined) continue
    const tx_result = served?.results?.txs_results?.[index]
    return { hash: wanted, height: String(height), index, tx_result, tx: bytes }
  }
  throw internalError(`tx (${wanted}) not found`)
}

const txHashOf = (tx: string): string =>
  createHash('sha256').update(Buffer.from(tx, 'base64')).digest('hex').toUpperCase()

/** Base64 in a POST, `0x…` in an address. */
function hashParam(value: unknown): string {
  const text = String(value ?? '')
  if (text.startsWith('0x')) return text.slice(2).toUpperCase()
  return Buffer.from(text, 'base64').toString('hex').toUpperCase()
}

function integerOf(value: unknown): number {
  if (typeof value === 'string' && /^-?\d+$/.test(value)) return Number(value)
  const shown = JSON.stringify(value)
  const reason = `error converting json params to arguments: invalid 64-bit integer encoding ${JSON.stringify(shown)}, expected string`
  throw new RpcFault(-32602, 'Invalid params', reason)
}
