import { fromBech32 } from '@cosmjs/encoding'
import type { CosmosContractOptions } from './options.js'
import type { Place } from './place.js'
import { cosmosContractShape } from './schema.js'

/** One contract of a Cosmos chain; null where a problem was reported. */
export function resolveCosmosContract(contract: Place): CosmosContractOptions | null {
  const shape = contract.take(cosmosContractShape)
  const address = contract.child('address')
  const resolved = typeof address.value === 'string' ? resolveBech32(address, address.value) : null
  if (!shape || (shape.address !== undefined && resolved === null)) return null
  const events = shape.events?.map((event) =>
    typeof event === 'string'
      ? { type: event, action: null }
      : { type: event.type, action: event.action ?? null },
  )
  return {
    contract: contract.key,
    address: resolved,
    events: events ?? null,
    failedTransactions: shape.failedTransactions,
  }
}

/** BIP 173 allows 90; the address of a contract has 32 bytes and so some 60 characters. */
const ADDRESS_LENGTH_MAX = 90

/** Account addresses have 20 bytes, contracts 32. */
const ADDRESS_BYTES = [20, 32]

function resolveBech32(place: Place, text: string): string | null {
  const hint = 'Copy the address again, whole and in quotes; left out: all events that fit.'
  try {
    const { data } = fromBech32(text, ADDRESS_LENGTH_MAX)
    if (ADDRESS_BYTES.includes(data.length)) return text.toLowerCase()
    return place.refuse(`holds ${data.length} bytes, an address has 20 or 32: ${place.quote(text)}`, hint)
  } catch (error) {
    const checksum = error instanceof Error && error.message.includes('checksum')
    return place.refuse(
      `${checksum ? 'has a wrong checksum' : 'is not a bech32 address'}: ${place.quote(text)}`,
      hint,
    )
  }
}
