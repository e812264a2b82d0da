import type { Hex } from '@lockstep/domain'
import { type AbiEvent, keccak256, numberToHex, padHex, stringToHex } from 'viem'
import { argumentNames } from './argument-names.js'
import { isMapping } from './config-document.js'
import type { TopicFilter } from './options.js'
import type { Place } from './place.js'
import { resolveAddress } from './resolve-address.js'

/**
 * `where:` of one event as topics, in one form for all that means the same. Only indexed arguments are in topics,
 * and only by topics can a node search; one without a fixed size is there as its keccak hash (ABI specification,
 * "Events"). Null where a problem was reported.
 */
export function resolveWhere(where: Place, event: AbiEvent): TopicFilter | null {
  const wanted = where.children()
  if (!isMapping(where.value) || wanted.length === 0)
    return where.refuse('names no argument', 'Name an indexed argument with its value, or leave where out.')
  const indexed = indexedOf(event)
  const known = wanted.map((argument) => refuseOtherThan(indexed, argument, event))
  if (known.includes(null)) return null
  const filter = indexed.map(({ name, type }) => {
    const argument = wanted.find(({ key }) => key === name)
    return argument === undefined ? undefined : resolveValues(argument, type)
  })
  return filter.includes(null) ? null : filter.map((topics) => topics ?? null)
}

interface IndexedArgument {
  readonly name: string
  readonly type: string
}

function indexedOf(event: AbiEvent): IndexedArgument[] {
  const names = argumentNames(event.inputs)
  return event.inputs.flatMap(({ type, indexed }, index) =>
    indexed === true ? [{ name: names[index] as string, type }] : [],
  )
}

function refuseOtherThan(indexed: readonly IndexedArgument[], argument: Place, event: AbiEvent): true | null {
  const names = indexed.map(({ name }) => name)
  if (names.includes(argument.key)) return true
  const has = argumentNames(event.inputs).includes(argument.key)
  const sentence = has
    ? 'is not indexed, so no node can search by it'
    : `the event ${argument.quote(event.name)} has no argument ${argument.quote(argument.key)}`
  const hint =
    names.length === 0
      ? 'No argument of this event is indexed: leave where out.'
      : has
        ? `Indexed here: ${names.join(', ')}.`
        : argument.suggest(argument.key, names)
  return argument.refuse(sentence, argument.document.show(hint), 'key')
}

function resolveValues(argument: Place, type: string): Hex[] | null {
  const topics = argument.oneOrMore().map((value) => topicOf(value, type))
  return topics.every((topic) => topic !== null) ? [...new Set(topics)].sort() : null
}

function topicOf(value: Place, type: string): Hex | null {
  if (!['string', 'number', 'boolean'].includes(typeof value.value)) return null // reported with the shape
  const integer = /^(u?)int(\d*)$/.exec(type)
  if (integer !== null) return topicOfInteger(value, integer[1] === '', Number(integer[2] || 256), type)
  const fixed = /^bytes(\d+)$/.exec(type)
  if (fixed !== null) return topicOfBytes(value, Number(fixed[1]))
  switch (type) {
    case 'address':
      return topicOfAddress(value)
    case 'bool':
      return topicOfBool(value)
    case 'string':
      return typeof value.value === 'string' ? keccak256(stringToHex(value.value)) : refuseUnquoted(value)
    case 'bytes':
      return hashOfBytes(value)
    default:
      return value.refuse(
        `is of type ${type}, of which a log holds only one hash of the whole`,
        'Lists, tuples and functions cannot be searched for: choose another argument.',
      )
  }
}

/** The text in the file, since a number of YAML is exact to 2^53 only. */
const exactText = ({ document, path, value }: Place): string =>
  typeof value === 'number'
    ? (/^-?\w+$/.exec(document.sourceOf(path) ?? '')?.[0] ?? String(value))
    : String(value)

function topicOfInteger(value: Place, signed: boolean, bits: number, type: string): Hex | null {
  const text = exactText(value)
  if (!/^(-?[0-9]+|0x[0-9a-fA-F]+)$/.test(text) || typeof value.value === 'boolean')
    return value.refuse(`is not a whole number: ${value.quote(text)}`, `The argument is of type ${type}.`)
  const number = BigInt(text)
  const [least, most] = signed
    ? [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1) - 1n]
    : [0n, 2n ** BigInt(bits) - 1n]
  if (number < least || number > most)
    return value.refuse(`does not fit type ${type}: ${value.quote(text)}`, `It holds ${least} to ${most}.`)
  return numberToHex(number, { size: 32, signed })
}

function topicOfAddress(value: Place): Hex | null {
  if (typeof value.value !== 'string') return refuseUnquoted(value)
  const address = resolveAddress(value, value.value)
  return address && padHex(address)
}

function topicOfBool(value: Place): Hex | null {
  const { value: given } = value
  if (given !== true && given !== false && given !== 'true' && given !== 'false')
    return value.refuse(
      `is not true or false: ${value.quote(String(given))}`,
      'The argument is of type bool.',
    )
  return numberToHex(String(given) === 'true' ? 1 : 0, { size: 32 })
}

function topicOfBytes(value: Place, size: number): Hex | null {
  const bytes = readBytes(value)
  if (bytes === null) return null
  if (bytes.length === 2 + 2 * size) return padHex(bytes, { dir: 'right' })
  return value.refuse(
    `does not fit type bytes${size}: ${value.quote(bytes)}`,
    `It is 0x and exactly ${2 * size} hex digits.`,
  )
}

function hashOfBytes(value: Place): Hex | null {
  const bytes = readBytes(value)
  return bytes && keccak256(bytes)
}

function readBytes(value: Place): Hex | null {
  if (typeof value.value !== 'string') return refuseUnquoted(value)
  if (/^0x([0-9a-fA-F]{2})*$/.test(value.value)) return value.value.toLowerCase() as Hex
  return value.refuse(
    `is not bytes in hex: ${value.quote(value.value)}`,
    'Write 0x and two hex digits a byte.',
  )
}

const refuseUnquoted = (value: Place): null =>
  value.refuse('must be text, in quotes', `Put it in quotes: ${value.quote(exactText(value))}.`)
