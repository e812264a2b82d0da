import { argumentNames } from '@lockstep/config'
import { invariant, type JsonObject, type JsonValue, storableTextOf } from '@lockstep/domain'
import type { AbiParameter } from 'viem'
import { type LogData, UnfitLogError } from './log-data.js'

/*
 * Values as the Contract ABI Specification encodes them ("Formal Specification of the Encoding"): a static value
 * stands in its place; of a dynamic one there stands an offset, counted from where its tuple or list begins.
 *
 * What an encoder has no choice in must be as it writes it: the padding of numbers, addresses, bytesN and truth
 * values. What encoders were seen to do differently is let through: what fills up the last word of text and bytes, and
 * bytes that nothing points to.
 */

/** Reads values of one type. Made once from its ABI. */
export interface ValueDecoder {
  readonly dynamic: boolean
  /** What it takes in its place: of a dynamic one the offset's 32. */
  readonly headBytes: number
  /** The value whose encoding begins there. @throws UnfitLogError */
  read(data: LogData, at: number): JsonValue
}

const WORD = 32
const ZEROS = '0'.repeat(64)
const ONES = 'f'.repeat(64)

export function decoderOf(parameter: AbiParameter): ValueDecoder {
  const { type } = parameter
  const list = /^(.*)\[(\d*)\]$/.exec(type)
  if (list !== null) {
    const element = decoderOf({ ...parameter, type: list[1] as string })
    return list[2] === '' ? anyLengthList(element) : fixedList(element, Number(list[2]))
  }
  if (type === 'tuple' && 'components' in parameter) return tuple(parameter.components)
  if (type === 'string') return { dynamic: true, headBytes: WORD, read: readText }
  if (type === 'bytes')
    return { dynamic: true, headBytes: WORD, read: (data, at) => `0x${readBytes(data, at)}` }
  const word = wordReaderOf(type)
  return { dynamic: false, headBytes: WORD, read: (data, at) => word(data.word(at)) }
}

/** The value in its place, or where the offset there leads to. @param base what offsets count from */
export const readPlace = (decoder: ValueDecoder, data: LogData, at: number, base: number): JsonValue =>
  decoder.read(data, decoder.dynamic ? base + data.span(at, 'an offset') : at)

// ---- what is made of others -------------------------------------------------------------------------------------

function tuple(components: readonly AbiParameter[]): ValueDecoder {
  const { fields, headBytes } = layOut(components.map(decoderOf))
  const put = namedBy(argumentNames(components))
  const dynamic = fields.some(({ decoder }) => decoder.dynamic)
  return {
    dynamic,
    headBytes: dynamic ? WORD : headBytes,
    read: (data, at) => put(fields.map(({ decoder, offset }) => readPlace(decoder, data, at + offset, at))),
  }
}

interface Field {
  readonly decoder: ValueDecoder
  /** Of its place, from the first one's. */
  readonly offset: number
}

/** The places of values that stand one after the other. */
export function layOut(decoders: readonly ValueDecoder[]): {
  readonly fields: Field[]
  readonly headBytes: number
} {
  let headBytes = 0
  const fields = decoders.map((decoder) => {
    const offset = headBytes
    headBytes += decoder.headBytes
    return { decoder, offset }
  })
  return { fields, headBytes }
}

/** Makes objects with these keys, of which one may be `__proto__`. */
export function namedBy(names: readonly string[]): (values: readonly JsonValue[]) => JsonObject {
  if (names.includes('__proto__'))
    return (values) => Object.fromEntries(names.map((name, index) => [name, values[index] as JsonValue]))
  return (values) => {
    const object: Record<string, JsonValue> = {}
    for (let index = 0; index < names.length; index++)
      object[names[index] as string] = values[index] as JsonValue
    return object
  }
}

const anyLengthList = (element: ValueDecoder): ValueDecoder => ({
  dynamic: true,
  headBytes: WORD,
  read: (data, at) => readElements(element, data, at + WORD, data.span(at, 'a length')),
})

const fixedList = (element: ValueDecoder, length: number): ValueDecoder => ({
  dynamic: element.dynamic,
  headBytes: element.dynamic ? WORD : element.headBytes * length,
  read: (data, at) => readElements(element, data, at, length),
})

function readElements(element: ValueDecoder, data: LogData, at: number, length: number): JsonValue[] {
  const values: JsonValue[] = []
  for (let index = 0; index < length; index++) {
    if (element.headBytes === 0) data.charge(WORD) // elements of nothing cost no bytes, only memory
    values.push(readPlace(element, data, at + index * element.headBytes, at))
  }
  return values
}

// ---- text and bytes ---------------------------------------------------------------------------------------------

const readText = (data: LogData, at: number): string =>
  storableTextOf(Buffer.from(readBytes(data, at), 'hex'))

const readBytes = (data: LogData, at: number): string => data.digits(at + WORD, data.span(at, 'a length'))

// ---- one word ---------------------------------------------------------------------------------------------------

type WordReader = (word: string) => JsonValue

/** For a type that takes one word, also as a topic. */
export function wordReaderOf(type: string): WordReader {
  if (type === 'address') return (word) => `0x${padded(type, word, ZEROS.slice(0, 24))}`
  if (type === 'bool') return (word) => padded(type, word, ZEROS.slice(0, 63)) === '1' || isFalse(word)
  const integer = /^(u?)int(\d*)$/.exec(type)
  if (integer !== null) return integerReader(type, integer[1] === 'u', Number(integer[2] || 256))
  const bytes = type === 'function' ? 24 : Number(/^bytes(\d+)$/.exec(type)?.[1])
  invariant(bytes >= 1 && bytes <= WORD, `the config lets only types of the ABI pass, not ${type}`)
  return bytesReader(type, bytes)
}

/** What comes after the padding, which must be there. */
function padded(type: string, word: string, padding: string): string {
  if (word.startsWith(padding)) return word.slice(padding.length)
  throw new UnfitLogError(`0x${word} is no ${type}`)
}

function isFalse(word: string): false {
  if (word === ZEROS) return false
  throw new UnfitLogError(`0x${word} is no bool`)
}

function bytesReader(type: string, bytes: number): WordReader {
  const padding = ZEROS.slice(2 * bytes)
  return (word) => {
    if (word.endsWith(padding)) return `0x${word.slice(0, 2 * bytes)}`
    throw new UnfitLogError(`0x${word} is no ${type}`)
  }
}

function integerReader(type: string, unsigned: boolean, bits: number): WordReader {
  const positive = ZEROS.slice(bits / 4)
  const negative = ONES.slice(bits / 4)
  return (word) => {
    const below = unsigned || word.charCodeAt(positive.length) < EIGHT // the sign bit is the highest of the type's own
    if (!word.startsWith(below ? positive : negative)) throw new UnfitLogError(`0x${word} is no ${type}`)
    return below ? decimal(word) : BigInt.asIntN(256, BigInt(`0x${word}`)).toString()
  }
}

const EIGHT = '8'.charCodeAt(0) // in ASCII 0 to 7 stand before it, 8, 9 and a to f from it on

const SMALL = '0'.repeat(52) // what is left are 48 bits, which a number holds exactly

const decimal = (word: string): string =>
  word.startsWith(SMALL)
    ? String(Number.parseInt(word.slice(SMALL.length), 16))
    : BigInt(`0x${word}`).toString()
