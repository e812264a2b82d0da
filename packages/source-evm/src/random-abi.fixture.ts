import { bytesOfText, type Hex, hexOf, type JsonValue } from '@lockstep/domain'
import fc from 'fast-check'
import {
  type AbiEvent,
  type AbiParameter,
  encodeAbiParameters,
  encodeEventTopics,
  keccak256,
  toEventSelector,
} from 'viem'

/* Random ABI shapes and values, as viem encodes them and as facts have them. */

const bits = fc.integer({ min: 1, max: 32 }).map((bytes) => 8 * bytes)
const elementary = fc.oneof(
  bits.map((size) => `uint${size}`),
  bits.map((size) => `int${size}`),
  fc.integer({ min: 1, max: 32 }).map((size) => `bytes${size}`),
  fc.constantFrom('address', 'bool', 'string', 'bytes'),
)

/** Of at most so many levels; names may be missing, but do not repeat, for viem then loses one. */
function parameters(depth: number, max: number): fc.Arbitrary<AbiParameter[]> {
  return fc
    .tuple(fc.array(shape(depth), { minLength: depth === 3 ? 0 : 1, maxLength: max }), fc.boolean())
    .map(([list, named]) =>
      list.map((each, at) => ({ ...each, name: named ? `n${at}` : '' }) as AbiParameter),
    )
}

function shape(depth: number): fc.Arbitrary<{ type: string }> {
  const simple = elementary.map((type) => ({ type }))
  if (depth === 0) return simple
  const tuple = parameters(depth - 1, 3).map((components) => ({ type: 'tuple', components }))
  const length = fc.option(fc.integer({ min: 1, max: 3 }), { nil: '' as const })
  const list = fc
    .tuple(shape(depth - 1), length)
    .map(([element, many]) => ({ ...element, type: `${element.type}[${many}]` }))
  return fc.oneof({ weight: 4, arbitrary: simple }, tuple, list)
}

const bytes = (size: number): fc.Arbitrary<Hex> =>
  fc.uint8Array({ minLength: size, maxLength: size }).map((value) => hexOf(value))

/** In the form that viem encodes. */
export function valuesOf(parameter: AbiParameter): fc.Arbitrary<unknown> {
  const { type } = parameter
  const list = /^(.*)\[(\d*)\]$/.exec(type)
  if (list !== null) {
    const length =
      list[2] === '' ? { maxLength: 4 } : { minLength: Number(list[2]), maxLength: Number(list[2]) }
    return fc.array(valuesOf({ ...parameter, type: list[1] as string }), length)
  }
  if (type === 'tuple' && 'components' in parameter) {
    const { components } = parameter
    const named = components.every(({ name }) => name !== '')
    return fc
      .tuple(...components.map(valuesOf))
      .map((values) =>
        named ? Object.fromEntries(components.map(({ name }, at) => [name, values[at]])) : values,
      )
  }
  if (type === 'bool') return fc.boolean()
  if (type === 'address') return bytes(20)
  if (type === 'string')
    return fc.string({ unit: 'binary', maxLength: 40 }).filter((text) => text.isWellFormed())
  if (type === 'bytes') return fc.integer({ min: 0, max: 70 }).chain(bytes)
  if (type.startsWith('bytes')) return bytes(Number(type.slice(5)))
  const size = Number(type.replace(/\D+/, ''))
  const signed = type.startsWith('int')
  const [min, max] = signed
    ? [-(2n ** BigInt(size - 1)), 2n ** BigInt(size - 1) - 1n]
    : [0n, 2n ** BigInt(size) - 1n]
  return fc
    .oneof(fc.bigInt({ min, max }), fc.constantFrom(min, max, 0n))
    .map((value) => (size <= 48 ? Number(value) : value))
}

export const isHashed = ({ type }: AbiParameter): boolean => /^(string|bytes|tuple)$|\]$/.test(type)

export interface Sample {
  readonly event: AbiEvent
  readonly values: readonly unknown[]
}

/** An event of any shape, with values for its arguments. */
export const sample: fc.Arbitrary<Sample> = fc
  .tuple(parameters(3, 6), fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }), fc.boolean())
  .map(([list, wishes, anonymous]): AbiEvent => {
    let left = anonymous ? 4 : 3
    const inputs = list.map((each, at) => ({ ...each, indexed: wishes[at] === true && left-- > 0 }))
    return { type: 'event', name: 'Random', inputs, anonymous }
  })
  .chain((event) => fc.tuple(...event.inputs.map(valuesOf)).map((values) => ({ event, values })))

/** A topic as the ABI specification has it; viem hashes text and bytes, of tuples and lists any hash will do. */
function topicOf(input: AbiParameter, value: unknown): Hex {
  if (isHashed(input) && !/^(string|bytes)$/.test(input.type))
    return keccak256(encodeAbiParameters([input], [value]))
  const event = { type: 'event', name: 'E', inputs: [{ ...input, name: 'x', indexed: true }] } as const
  return encodeEventTopics({ abi: [event], args: { x: value } } as never)[1] as Hex
}

/** The log that a contract emits for it. */
export function logOf({ event, values }: Sample): { topics: Hex[]; data: Hex } {
  const topics = event.inputs.flatMap((input, at) => (input.indexed ? [topicOf(input, values[at])] : []))
  const plain = event.inputs.filter(({ indexed }) => !indexed)
  return {
    topics: event.anonymous ? topics : [toEventSelector(event), ...topics],
    data: encodeAbiParameters(
      plain,
      values.filter((_, at) => !event.inputs[at]?.indexed),
    ),
  }
}

/** What viem gives, in the words of facts. */
export function plain(value: unknown, parameter: AbiParameter): JsonValue {
  const element = /^(.*)\[\d*\]$/.exec(parameter.type)?.[1]
  if (element !== undefined)
    return (value as unknown[]).map((item) => plain(item, { ...parameter, type: element }))
  if (parameter.type === 'tuple' && 'components' in parameter) {
    const fields = value as Record<string, unknown>
    return Object.fromEntries(
      parameter.components.map((each, at) => {
        const key = each.name || String(at)
        return [key, plain(fields[key], each)]
      }),
    )
  }
  if (typeof value === 'bigint' || typeof value === 'number') return String(value)
  if (typeof value === 'boolean') return value
  return parameter.type === 'string' ? String(value) : String(value).toLowerCase()
}

/** Ours with every text as viem gives it: broken bytes replaced. */
export function asViem(value: JsonValue, parameter: AbiParameter): JsonValue {
  const element = /^(.*)\[\d*\]$/.exec(parameter.type)?.[1]
  if (element !== undefined)
    return (value as JsonValue[]).map((item) => asViem(item, { ...parameter, type: element }))
  if (parameter.type === 'tuple' && 'components' in parameter) {
    const fields = value as Record<string, JsonValue>
    return Object.fromEntries(
      parameter.components.map((each, at) => {
        const key = each.name || String(at)
        return [key, asViem(fields[key] as JsonValue, each)]
      }),
    )
  }
  return parameter.type === 'string'
    ? new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytesOfText(value as string))
    : value
}
