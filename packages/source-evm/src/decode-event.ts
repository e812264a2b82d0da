import { type Hex, type JsonObject, type JsonValue, storableText } from '@lockstep/domain'
import { type AbiEvent, type AbiParameter, BaseError, decodeAbiParameters } from 'viem'

/** A log that is not what its ABI says; the message is the reason, for people. */
export class UnfitLogError extends Error {
  override readonly name = 'UnfitLogError'
}

type IndexedParameter = AbiParameter & { readonly indexed?: boolean }

/**
 * The arguments by name; those without a name by their place (`"0"`).
 *
 * Not viem's `decodeEventLog`: it lets a surplus topic pass, so that an ERC-721 Transfer would be read as one of
 * ERC-20, and it does not read anonymous events. Its decoder of parameters does the work here too.
 *
 * @throws UnfitLogError
 */
export function decodeEvent(
  event: AbiEvent,
  log: { readonly topics: readonly Hex[]; readonly data: Hex },
): JsonObject {
  const inputs: readonly IndexedParameter[] = event.inputs
  const topics = event.anonymous === true ? log.topics : log.topics.slice(1)
  const indexedCount = inputs.filter(({ indexed }) => indexed === true).length
  if (topics.length !== indexedCount) {
    throw new UnfitLogError(`the ABI has ${indexedCount} indexed arguments, and the log has ${topics.length}`)
  }
  const plain = decodeData(
    inputs.filter(({ indexed }) => indexed !== true),
    log.data,
  )
  let topicAt = 0
  let plainAt = 0
  const values = inputs.map(
    (input): JsonValue =>
      input.indexed === true ? decodeTopic(input, topics[topicAt++] as Hex) : toJson(input, plain[plainAt++]),
  )
  return named(inputs, values)
}

function decodeData(parameters: readonly AbiParameter[], data: Hex): readonly unknown[] {
  return parameters.length === 0 ? [] : decodeParameters(parameters, data, 'the data do')
}

/** What has no fixed size of 32 bytes is there as its keccak hash alone. */
function decodeTopic(parameter: AbiParameter, topic: Hex): JsonValue {
  if (/^(string|bytes|tuple)$|\]$/.test(parameter.type)) return topic
  const [value] = decodeParameters(
    [parameter],
    topic,
    `the topic of ${parameter.name || 'an unnamed argument'} does`,
  )
  return toJson(parameter, value)
}

function decodeParameters(
  parameters: readonly AbiParameter[],
  data: Hex,
  subject: string,
): readonly unknown[] {
  try {
    return decodeAbiParameters(parameters, data) as readonly unknown[]
  } catch (error) {
    const why =
      error instanceof BaseError ? error.shortMessage : error instanceof Error ? error.message : String(error)
    throw new UnfitLogError(storableText(`${subject} not fit the ABI: ${firstLine(why)}`))
  }
}

const firstLine = (text: string): string => text.split('\n', 1)[0] ?? ''

function toJson(parameter: AbiParameter, value: unknown): JsonValue {
  if (Array.isArray(value) && parameter.type.endsWith(']')) {
    const element = { ...parameter, type: parameter.type.replace(/\[\d*\]$/, '') }
    return value.map((item) => toJson(element, item))
  }
  if (parameter.type === 'tuple') return tupleToJson(parameter, value)
  return scalarToJson(parameter.type, value)
}

/** viem gives a list where a component has no name, else an object. */
function tupleToJson(parameter: AbiParameter, value: unknown): JsonObject {
  const components = 'components' in parameter ? parameter.components : []
  const fields = value as Readonly<Record<string, unknown>>
  const inOrder = Array.isArray(value)
  return named(
    components,
    components.map((component, index) =>
      toJson(component, fields[inOrder ? index : (component.name ?? index)]),
    ),
  )
}

function scalarToJson(type: string, value: unknown): JsonValue {
  if (typeof value === 'bigint' || typeof value === 'number') return value.toString()
  if (typeof value === 'boolean') return value
  if (type === 'string') return storableText(String(value))
  return String(value).toLowerCase() // addresses, which viem gives with a checksum, and bytes
}

/** Where two have the same name the later one goes by its place, so that nothing is lost. */
function named(parameters: readonly AbiParameter[], values: readonly JsonValue[]): JsonObject {
  const entries = new Map<string, JsonValue>()
  parameters.forEach(({ name }, index) => {
    const key = name === undefined || name === '' || entries.has(name) ? String(index) : name
    entries.set(key, values[index] as JsonValue)
  })
  return Object.fromEntries(entries)
}
