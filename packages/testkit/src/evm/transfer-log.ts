import type { Hex } from '@lockstep/domain'
import { encodeAbiParameters, pad, parseAbiItem, toEventSelector, toHex, type Hex as ViemHex } from 'viem'
import type { LogWish } from './simulated-block.js'

/** ERC-20's `Transfer`, as a config would have it. */
export const TRANSFER_EVENT = parseAbiItem(
  'event Transfer(address indexed from, address indexed to, uint256 value)',
)

export const TRANSFER_TOPIC: Hex = toEventSelector(TRANSFER_EVENT)

/** The log of an ERC-20 transfer. */
export function transferLog(
  transfer: { readonly token: Hex; readonly from: Hex; readonly to: Hex; readonly value: bigint },
  more: Partial<LogWish> = {},
): LogWish {
  return {
    address: transfer.token,
    topics: [TRANSFER_TOPIC, pad(transfer.from), pad(transfer.to)],
    data: encodeAbiParameters([{ type: 'uint256' }], [transfer.value]),
    ...more,
  }
}

/** An address that is easy to tell in a table: `addressOf(0xa)` is `0x00…0a`. */
export const addressOf = (number: number): ViemHex => toHex(number, { size: 20 })
