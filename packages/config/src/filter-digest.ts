import { createHash } from 'node:crypto'
import { type AbiEvent, type AbiParameter, toEventSignature } from 'viem'
import type { CosmosContractOptions, EvmContractOptions } from './options.js'

/*
 * What decides the facts, in a form that is the same for configs that mean the same. The order of contracts counts,
 * since a log that fits two belongs to the first; that of addresses and events does not. Parameter names count:
 * they are the keys of `args`.
 */

export function evmFilterDigest(blocks: 'events' | 'all', contracts: readonly EvmContractOptions[]): string {
  return sha256({ kind: 'evm', blocks, contracts: contracts.map(canonicalEvm) })
}

export function cosmosFilterDigest(
  blocks: 'events' | 'all',
  contracts: readonly CosmosContractOptions[],
): string {
  return sha256({ kind: 'cosmos', blocks, contracts: contracts.map(canonicalCosmos) })
}

const canonicalEvm = ({ contract, addresses, events }: EvmContractOptions) => ({
  contract,
  addresses: addresses === null ? null : [...addresses].sort(),
  events: events.map(canonicalEvent).sort(),
})

const canonicalEvent = (event: AbiEvent): string =>
  JSON.stringify([toEventSignature(event), event.anonymous === true, event.inputs.map(canonicalParameter)])

/** Without `internalType`, which decides nothing. */
function canonicalParameter(parameter: AbiParameter & { indexed?: boolean | undefined }): unknown {
  const components = 'components' in parameter ? parameter.components : []
  return [
    parameter.type,
    parameter.name ?? '',
    parameter.indexed === true,
    components.map(canonicalParameter),
  ]
}

const canonicalCosmos = ({ contract, address, events }: CosmosContractOptions) => ({
  contract,
  address,
  events:
    events === null
      ? null
      : [...new Set(events.map(({ type, action }) => JSON.stringify([type, action])))].sort(),
})

// The keys above are written in one fixed order, and JSON.stringify keeps it.
const sha256 = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex')
