import { getAddress, type Hex } from 'viem'
import type { Place } from './place.js'

/** EIP-55: mixed case is a checksum, and a wrong one means a wrong digit somewhere. One case is no checksum. */
export function resolveAddress(place: Place, text: string): Hex | null {
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
