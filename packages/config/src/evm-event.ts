import { type AbiEvent, type AbiParameter, type Hex, toEventSelector, toEventSignature } from 'viem'
import { argumentNames } from './argument-names.js'

/** How an event's facts look, for whoever reads them: nothing here depends on the chain. */
export interface EvmEvent {
  /** Its name in the ABI. */
  readonly name: string
  /** `Transfer(address,address,uint256)`; facts carry it as their name where a contract has overloads of one name. */
  readonly signature: string
  /** As in Solidity: `Transfer(address indexed from, address indexed to, uint256 value)`. */
  readonly declaration: string
  /** Null: anonymous. */
  readonly topic0: Hex | null
  /** How many topics its logs have. */
  readonly topics: number
  readonly inputs: readonly EvmArgument[]
}

export interface EvmArgument {
  /** Its key in `args`: its name; its place where it has none, or where one before it has the same. */
  readonly key: string
  /** Its name in the ABI; empty where it has none. */
  readonly name: string
  /** `uint256`, `tuple[]`, … */
  readonly type: string
  readonly indexed: boolean
}

export function evmEvent(event: AbiEvent): EvmEvent {
  const inputs: readonly (AbiParameter & { indexed?: boolean | undefined })[] = event.inputs
  const keys = argumentNames(inputs)
  const indexedCount = inputs.filter(({ indexed }) => indexed === true).length
  return {
    name: event.name,
    signature: toEventSignature(event),
    declaration: declare(event),
    topic0: event.anonymous === true ? null : toEventSelector(event),
    topics: indexedCount + (event.anonymous === true ? 0 : 1),
    inputs: inputs.map(({ name, type, indexed }, index) => ({
      key: keys[index] as string,
      name: name ?? '',
      type,
      indexed: indexed === true,
    })),
  }
}

/** Of an argument whose topic is all there is of it: not its value, but its keccak-256. */
export const isHashed = ({ type, indexed }: EvmArgument): boolean =>
  indexed && /^(string|bytes|tuple)$|\]$/.test(type)

function declare({ name, inputs, anonymous }: AbiEvent): string {
  const list = inputs.map((input) =>
    [typeText(input), input.indexed === true ? 'indexed' : '', input.name ?? '']
      .filter((word) => word !== '')
      .join(' '),
  )
  return `${name}(${list.join(', ')})${anonymous === true ? ' anonymous' : ''}`
}

/** A tuple with what it holds: `(uint256 amount, address to)[]`. */
function typeText(parameter: AbiParameter): string {
  if (!('components' in parameter)) return parameter.type
  const fields = parameter.components.map((each) => [typeText(each), each.name ?? ''].join(' ').trim())
  return `(${fields.join(', ')})${parameter.type.slice('tuple'.length)}`
}
