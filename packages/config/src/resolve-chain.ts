import { chainKey, height, isChainKey } from '@lockstep/domain'
import { isMapping } from './config-document.js'
import { cosmosFilterDigest, evmFilterDigest } from './filter-digest.js'
import type {
  ChainOptions,
  CosmosChainOptions,
  EndpointOptions,
  EvmChainOptions,
  Finality,
  FinalityTag,
} from './options.js'
import { Place } from './place.js'
import { resolveCosmosContract } from './resolve-cosmos-contract.js'
import { resolveEvmContracts } from './resolve-evm-contract.js'
import { resolveCosmosQuery, resolveEvmQuery } from './resolve-query.js'
import { cosmosChainShape, evmChainShape, REQUESTS_AT_ONCE } from './schema.js'
import { closest } from './suggest.js'

/** One entry under `chains:`; null where a problem was reported. */
export function resolveChain(chain: Place): ChainOptions | null {
  const kind = resolveKind(chain)
  if (kind === null) return null
  refuseEndBeforeStart(chain)
  const contracts = chain.child('contracts')
  refuseNothingToIndex(chain, contracts)
  for (const contract of contracts.children()) refuseContractName(contract)
  return kind === 'evm' ? resolveEvmChain(chain, contracts) : resolveCosmosChain(chain, contracts)
}

const KINDS = ['evm', 'cosmos'] as const

/** Where the kind is misspelt the chain is judged as what was meant, so that its other mistakes are found too. */
function resolveKind(chain: Place): 'evm' | 'cosmos' | null {
  if (!isMapping(chain.value))
    return chain.refuse('must hold the settings of a chain', 'Begin with kind: evm or kind: cosmos.')
  const place = chain.child('kind')
  const found = KINDS.find((kind) => kind === place.value)
  if (found) return found
  if (place.value === undefined) return place.refuse('is missing', 'Write kind: evm or kind: cosmos.', 'key')
  place.refuse('must be evm or cosmos', place.suggest(String(place.value), KINDS))
  const meant = closest(String(place.value), KINDS)
  if (meant === null) return null
  resolveChain(new Place(chain.document, chain.path, { ...chain.value, kind: meant }))
  return null
}

function resolveEvmChain(chain: Place, contracts: Place): EvmChainOptions | null {
  const shape = chain.take(evmChainShape)
  const resolved = resolveEvmContracts(contracts)
  if (!shape || !resolved) return null
  const queries = contracts
    .children()
    .map((place) => resolveEvmQuery(place, resolved.find(({ contract }) => contract === place.key) ?? null))
  return {
    ...common(chain, shape),
    kind: 'evm',
    finality: resolveFinality(shape.finality),
    contracts: resolved,
    queries: queries.filter((query) => query !== null),
    filterDigest: evmFilterDigest(shape, resolved),
  }
}

function resolveFinality(given: FinalityTag | number | { tag: FinalityTag; depth: number }): Finality {
  if (typeof given === 'number') return { by: 'depth', depth: given }
  return typeof given === 'string' ? { by: 'tag', tag: given } : { by: 'both', ...given }
}

function resolveCosmosChain(chain: Place, contracts: Place): CosmosChainOptions | null {
  const shape = chain.take(cosmosChainShape)
  const resolved = contracts.children().map(resolveCosmosContract)
  const queries = contracts.children().map(resolveCosmosQuery)
  if (!shape || !resolved.every((contract) => contract !== null)) return null
  const finality: Finality = { by: 'depth', depth: shape.finality }
  return {
    ...common(chain, shape),
    kind: 'cosmos',
    finality,
    contracts: resolved,
    queries: queries.filter((query) => query !== null),
    filterDigest: cosmosFilterDigest(shape, resolved),
  }
}

type EndpointShape =
  | string
  | {
      readonly url: string
      readonly ws?: string | undefined
      readonly requestsPerSecond?: number | undefined
      readonly requestsAtOnce: number
    }

interface CommonShape {
  readonly chainId: string | number
  readonly rpc: EndpointShape | EndpointShape[]
  readonly startHeight: number
  readonly endHeight?: number | undefined
  readonly maxRollbackDepth: number
  readonly pollInterval: number
  readonly blocks: 'events' | 'all'
  readonly transactions: boolean
  readonly keepOrphans: boolean
}

/** A bad key was reported before, and its chain is then never used. */
const PLACEHOLDER = chainKey('unnamed')

function common(chain: Place, shape: CommonShape) {
  return {
    chain: isChainKey(chain.key) ? chain.key : PLACEHOLDER,
    chainId: String(shape.chainId),
    rpc: [shape.rpc].flat().map(resolveEndpoint),
    startHeight: height(shape.startHeight),
    endHeight: shape.endHeight === undefined ? null : height(shape.endHeight),
    rollbackDepthMax: shape.maxRollbackDepth,
    pollMs: shape.pollInterval,
    blocks: shape.blocks,
    transactions: shape.transactions,
    keepOrphans: shape.keepOrphans,
  }
}

function resolveEndpoint(given: EndpointShape): EndpointOptions {
  if (typeof given === 'string')
    return { url: given, ws: null, requestsPerSecond: null, requestsAtOnce: REQUESTS_AT_ONCE }
  return { ...given, ws: given.ws ?? null, requestsPerSecond: given.requestsPerSecond ?? null }
}

/** On the bare values: other mistakes in the chain must not hide this one. */
function refuseEndBeforeStart(chain: Place): void {
  const start = chain.child('startHeight').value
  const end = chain.child('endHeight')
  if (typeof start !== 'number' || typeof end.value !== 'number' || end.value >= start) return
  end.refuse(
    'is below startHeight',
    'Both blocks are included: endHeight is at least startHeight. Left out: no end.',
  )
}

function refuseNothingToIndex(chain: Place, contracts: Place): void {
  const misspelt = contracts.value === undefined && closestToContracts(chain)
  if (contracts.children().length > 0 || chain.child('blocks').value === 'all' || misspelt) return
  const hint = 'Name at least one contract under contracts, or write blocks: all to store bare blocks.'
  contracts.refuse('nothing to index', hint, 'key')
}

/** Reported as an unknown key already. */
const closestToContracts = (chain: Place): boolean =>
  chain.children().some(({ key }) => closest(key, Object.keys(evmChainShape.shape)) === 'contracts')

function refuseContractName(contract: Place): void {
  if (/^[A-Za-z_][A-Za-z0-9_-]{0,62}$/.test(contract.key)) return
  contract.refuse('is not a contract name', 'Letters, digits, _ and -, a letter first, at most 63.', 'key')
}
