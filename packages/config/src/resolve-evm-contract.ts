import { type AbiEvent, getAddress, type Hex, parseAbiItem, toEventSignature } from 'viem'
import type { EvmContractOptions } from './options.js'
import type { Place } from './place.js'
import { readAbiEvents } from './read-abi-events.js'
import { evmContractShape } from './schema.js'

/** One contract of an EVM chain; null where a problem was reported. Each field is judged although another is wrong. */
export function resolveEvmContract(contract: Place): EvmContractOptions | null {
  const shape = contract.take(evmContractShape)
  const address = contract.child('address')
  const addresses = address.value === undefined ? null : resolveAddresses(address)
  const abi = contract.child('abi')
  const known = abi.read(evmContractShape.shape.abi) === null ? null : readAbiEvents(abi)
  const events = known && selectEvents(contract.child('events'), known)
  if (events && address.value === undefined) refuseAnonymous(contract, events)
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

/** EIP-55: mixed case is a checksum, and a wrong one means a wrong digit somewhere. One case is no checksum. */
function resolveAddress(place: Place, text: string): string | null {
  if (!/^0x[0-9a-fA-F]{40}$/.test(text)) {
    const hint = 'An address is 0x and 40 hex digits, in quotes.'
    return place.refuse(`is not an address: ${place.quote(text)}`, hint)
  }
  const address = text.toLowerCase() as Hex
  const digits = text.slice(2)
  const oneCase = digits === digits.toLowerCase() || digits === digits.toUpperCase()
  const right = getAddress(address)
  if (oneCase || text === right) return address
  const hint = `Copy the address again; if its digits are right, write ${place.quote(right)} or all of it in lower case.`
  return place.refuse(`has a wrong checksum: ${place.quote(text)}`, hint)
}

/** The events that the config names, in the order of the ABI; all where it names none. */
function selectEvents(place: Place, known: readonly AbiEvent[]): AbiEvent[] | null {
  if (place.value === undefined) return [...known]
  const wanted = place.children().map((item) => {
    if (typeof item.value !== 'string') return null
    const name = item.value
    const found = known.filter(
      (event) => event.name === name.trim() || toEventSignature(event) === signatureOf(name),
    )
    return found.length > 0 ? found : refuseUnknownEvent(item, name, known)
  })
  if (wanted.includes(null)) return null
  const chosen = new Set(wanted.flat())
  return known.filter((event) => chosen.has(event))
}

/** `event Transfer(address indexed from, address, uint)` and shorter forms as `Transfer(address,address,uint256)`. */
function signatureOf(text: string): string | null {
  if (!text.includes('(')) return null
  try {
    return toEventSignature(parseAbiItem(`event ${text.trim().replace(/^event\s+/, '')}`) as AbiEvent)
  } catch {
    return null
  }
}

function refuseUnknownEvent(place: Place, name: string, known: readonly AbiEvent[]): null {
  const names = name.includes('(')
    ? known.map((event) => toEventSignature(event))
    : known.map((event) => event.name)
  return place.refuse(
    `the ABI has no event ${place.quote(name)}`,
    place.document.show(place.suggest(name, [...new Set(names)])),
  )
}

/** A log of an anonymous event carries no topic that tells it from any other log: only its address does. */
function refuseAnonymous(contract: Place, events: readonly AbiEvent[]): void {
  const anonymous = events.find((event) => event.anonymous)
  if (!anonymous) return
  const named = contract
    .child('events')
    .children()
    .find((item) => item.value === anonymous.name)
  const hint = 'Give the address of the contract, or list under events only others.'
  const sentence = `the event ${contract.quote(anonymous.name)} is anonymous and can only be found by an address`
  ;(named ?? contract.child('abi')).refuse(sentence, hint)
}
