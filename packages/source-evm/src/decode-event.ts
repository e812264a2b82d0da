import { argumentNames } from '@lockstep/config'
import type { Hex, JsonObject, JsonValue } from '@lockstep/domain'
import type { AbiEvent, AbiParameter } from 'viem'
import { decoderOf, layOut, namedBy, readPlace, wordReaderOf } from './decode-value.js'
import { LogData, UnfitLogError } from './log-data.js'

/** What of a log an ABI speaks of. */
export interface LogContent {
  readonly topics: readonly Hex[]
  readonly data: Hex
}

/** The arguments by name, see `argumentNames`. @throws UnfitLogError */
export type EventDecoder = (log: LogContent) => JsonObject

/**
 * A decoder for one event, built once from its ABI.
 *
 * Not viem's `decodeEventLog`: it walks the ABI anew for each log, lets a surplus topic pass, so that an ERC-721
 * Transfer would be read as one of ERC-20, does not read anonymous events, and replaces bytes that are no UTF-8.
 */
export function compileEvent(event: AbiEvent): EventDecoder {
  const put = namedBy(argumentNames(event.inputs))
  const signatureTopics = event.anonymous === true ? 0 : 1
  const indexedCount = event.inputs.filter(({ indexed }) => indexed === true).length
  const readers = argumentReaders(event.inputs, signatureTopics)
  return (log) => {
    const count = log.topics.length - signatureTopics
    if (count !== indexedCount)
      throw new UnfitLogError(`the ABI has ${indexedCount} indexed arguments, and the log has ${count}`)
    const data = new LogData(log.data)
    return put(readers.map((read) => read(log, data)))
  }
}

type ArgumentReader = (log: LogContent, data: LogData) => JsonValue

function argumentReaders(inputs: AbiEvent['inputs'], signatureTopics: number): ArgumentReader[] {
  const { fields } = layOut(inputs.filter(({ indexed }) => indexed !== true).map(decoderOf))
  let topicAt = signatureTopics
  let fieldAt = 0
  return inputs.map((input): ArgumentReader => {
    if (input.indexed === true) return topicReader(input, topicAt++)
    const { decoder, offset } = fields[fieldAt++] as (typeof fields)[number]
    return (_, data) => explained('the data do', () => readPlace(decoder, data, offset, 0))
  })
}

/** What has no fixed size of 32 bytes is there as its keccak hash alone. */
function topicReader(input: AbiParameter, at: number): ArgumentReader {
  if (/^(string|bytes|tuple)$|\]$/.test(input.type)) return ({ topics }) => topics[at] as Hex
  const read = wordReaderOf(input.type)
  const subject = `the topic of ${input.name || 'an unnamed argument'} does`
  return ({ topics }) => explained(subject, () => read((topics[at] as Hex).slice(2)))
}

function explained(subject: string, read: () => JsonValue): JsonValue {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof UnfitLogError)) throw error
    throw new UnfitLogError(`${subject} not fit the ABI: ${error.message}`)
  }
}
