import type { AbiEvent } from 'viem'
import type { EvmContractOptions } from './options.js'
import type { Place } from './place.js'
import { readAbiEvents } from './read-abi-events.js'
import { resolveAddress } from './resolve-address.js'
import { resolveFactories } from './resolve-factory.js'
import { evmContractShape } from './schema.js'
import { selectEvents } from './select-events.js'

/** The contracts of an EVM chain, in the order of the file; null where a problem was reported. */
export function resolveEvmContracts(contracts: Place): EvmContractOptions[] | null {
  const drafts = contracts.children().map((place) => ({ place, options: resolveEvmContract(place) }))
  const resolved = resolveFactories(drafts)
  return resolved.every((contract) => contract !== null) ? resolved : null
}

/** All but its factory; null where a problem was reported. Each field is judged although another is wrong. */
function resolveEvmContract(contract: Place): EvmContractOptions | null {
  const shape = contract.take(evmContractShape)
  const [address, factory] = [contract.child('address'), contract.child('factory')]
  const addresses = address.value === undefined ? null : resolveAddresses(address)
  const abi = contract.child('abi')
  const known = abi.read(evmContractShape.shape.abi) === null ? null : readAbiEvents(abi)
  const events = known && selectEvents(contract.child('events'), known)
  if (events && address.value === undefined && factory.value === undefined) refuseAnonymous(contract, events)
  if (address.value !== undefined && factory.value !== undefined)
    factory.refuse('stands beside address', 'A contract has an address, or is created by a factory.', 'key')
  if (!shape || !events || (address.value !== undefined && !addresses)) return null
  return { contract: contract.key, addresses, events }
}

function resolveAddresses(place: Place): string[] | null {
  const seen = new Set<string>()
  const resolved = place.oneOrMore().map((item) => {
    const address = typeof item.value === 'string' ? resolveAddress(item, item.value) : null
    if (address !== null && seen.has(address))
      item.refuse('is listed twice', 'Remove one of the two; case makes no difference.')
    if (address !== null) seen.add(address)
    return address
  })
  return resolved.every((address) => address !== null) ? resolved : null
}

/** A log of an anonymous event carries no topic that tells it from any other log: only its address does. */
function refuseAnonymous(contract: Place, events: readonly AbiEvent[]): void {
  const anonymous = events.find((event) => event.anonymous)
  if (!anonymous) return
  const named = contract
    .child('events')
    .children()
    .find((item) => item.value === anonymous.name || item.child('name').value === anonymous.name)
  const hint = 'Give the address of the contract, or list under events only others.'
  const sentence = `the event ${contract.quote(anonymous.name)} is anonymous and can only be found by an address`
  ;(named ?? contract.child('abi')).refuse(sentence, hint)
}
