import { relative } from 'node:path'
import type {
  ChainOptions,
  DatabaseOptions,
  EndpointOptions,
  EvmContractOptions,
  Finality,
  LockstepOptions,
} from './options.js'

/** What was understood, for a person; addresses without what may be secret in them. Several lines. */
export function describeConfig(options: LockstepOptions): string {
  const { database, lease, rewind } = options
  return [
    `file      ${relative('.', options.file) || options.file}`,
    `database  ${describeDatabase(database)}; tables in "${database.schema}", views in "${database.readSchema}", made by "lockstep migrate" or "start"`,
    `lease     ${span(lease.timeMs)}; a rewind takes a chain over after ${span(rewind.takeOverAfterMs)}`,
    ...options.chains.flatMap((chain) => ['', ...describeChain(chain)]),
  ].join('\n')
}

/** Host and name of the database; user, password and parameters are left out. */
function describeDatabase({ url }: DatabaseOptions): string {
  if (url === null) return 'embedded PostgreSQL'
  const { host, pathname } = new URL(url)
  return `PostgreSQL ${pathname.slice(1) || '(default)'} at ${host || 'this machine'}`
}

function describeChain(chain: ChainOptions): string[] {
  const { startHeight, endHeight } = chain
  return [
    `${chain.chain}  ${chain.kind}, chain id ${chain.chainId}`,
    `  rpc       ${chain.rpc.map(describeEndpoint).join(', ')}`,
    `  blocks    ${startHeight} to ${endHeight ?? 'the head'}; ${chain.blocks === 'all' ? 'all are' : 'those with events are'} stored${chain.transactions ? ', and transactions with events' : ''}`,
    `  finality  ${describeFinality(chain.finality)}; a fork takes back at most ${count(chain.rollbackDepthMax, 'block')}${chain.keepOrphans ? ', and keeps their events' : ''}`,
    ...describeContracts(chain),
    ...chain.queries
      .filter(({ index }) => index.length > 0)
      .map(({ contract, index }) => `  ${contract}: views are indexed by ${index.join(', ')}`),
  ]
}

function describeEndpoint({ url, ws, requestsPerSecond }: EndpointOptions): string {
  const more = [
    ...(ws === null ? [] : [`heads from ${withoutSecrets(ws)}`]),
    ...(requestsPerSecond === null ? [] : [`at most ${requestsPerSecond} requests a second`]),
  ]
  return `${withoutSecrets(url)}${more.length > 0 ? ` (${more.join('; ')})` : ''}`
}

/** Scheme and host: a path or query often is the key to the node. */
function withoutSecrets(url: string): string {
  const { protocol, host } = new URL(url)
  return `${protocol}//${host}`
}

function describeFinality(finality: Finality): string {
  if (finality.by === 'tag') return `the node's "${finality.tag}"`
  const byDepth = finality.depth === 0 ? 'the head' : `${count(finality.depth, 'block')} below the head`
  return finality.by === 'depth'
    ? byDepth
    : `the node's "${finality.tag}", or ${byDepth} where it never answers that`
}

function describeContracts(chain: ChainOptions): string[] {
  if (chain.kind === 'evm') {
    return chain.contracts.map((contract) => {
      const names = contract.events.map(({ name, where }) => (where ? `${name} where` : name))
      return `  ${contract.contract}: ${describeAddresses(contract)}, ${list(names, 'event')}`
    })
  }
  return chain.contracts.map(({ contract, address, events, failedTransactions }) => {
    const names = events?.map(({ type, action }) => (action === null ? type : `${type}/${action}`))
    const what = names ? list(names, 'event') : 'all events'
    return `  ${contract}: ${address ?? 'any address'}, ${what}${failedTransactions ? ', of failed transactions too' : ''}`
  })
}

function describeAddresses({ addresses, factory }: EvmContractOptions): string {
  if (factory) return `children of ${factory.of.contract}`
  if (addresses === null) return 'any address'
  return addresses.length === 1 ? String(addresses[0]) : `${addresses.length} addresses`
}

const list = (names: readonly string[], noun: string): string =>
  `${count(names.length, noun)} (${names.join(', ')})`

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`

const span = (ms: number): string => (ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`)
