import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { type AbiEvent, parseAbi, parseAbiItem, toEventSignature } from 'viem'
import { z } from 'zod'
import type { Place } from './place.js'

/** The events of the ABI that the place names or holds; null where a problem was reported. */
export function readAbiEvents(place: Place): AbiEvent[] | null {
  const events = typeof place.value === 'string' ? readFile(place, place.value) : readSignatures(place)
  if (events === null) return null
  if (events.length === 0)
    return place.refuse(
      'holds no event',
      'Nothing can be indexed with it: use the ABI of the contract itself.',
    )
  const tooMany = events.find(
    (event) => event.inputs.filter((input) => input.indexed).length > (event.anonymous ? 4 : 3),
  )
  if (tooMany) {
    const sentence = `the event ${place.quote(tooMany.name)} has more indexed parameters than a log has topics`
    return place.refuse(
      sentence,
      'At most 3 are indexed, of an anonymous event 4: use the ABI of the contract itself.',
    )
  }
  return withoutRepeats(place, events)
}

/**
 * A compiler's output can repeat an event (from a library and from the contract). Two that differ only in *which*
 * parameters are indexed cannot be told apart in a log; where they differ in how many, the topics tell.
 */
function withoutRepeats(place: Place, events: readonly AbiEvent[]): AbiEvent[] | null {
  const seen = new Map<string, string>()
  const kept: AbiEvent[] = []
  for (const event of events) {
    const indexed = event.inputs.map((input) => (input.indexed ? 'i' : '-')).join('')
    const look = `${toEventSignature(event)} ${event.anonymous === true} ${indexed.replaceAll('-', '').length}`
    const before = seen.get(look)
    if (before !== undefined && before !== indexed) {
      const sentence = `holds two events ${place.quote(toEventSignature(event))} whose logs cannot be told apart`
      return place.refuse(sentence, 'Keep the one whose indexed parameters are those of the contract.')
    }
    if (before === undefined) kept.push(event)
    seen.set(look, indexed)
  }
  return kept
}

// ---- a JSON file ------------------------------------------------------------------------------------------------

const WHAT_A_FILE_HOLDS =
  'The file holds the ABI as a JSON array, or a compiler\'s output with it under "abi".'

function readFile(place: Place, path: string): AbiEvent[] | null {
  const file = place.quote(path)
  if (/^\s*event\s/.test(path))
    return place.refuse('is a signature, not a file', 'Write it as an item of a list: ["event …"].')
  let text: string
  try {
    text = readFileSync(resolve(dirname(place.document.file), path), 'utf8')
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    const hint = 'The path counts from the folder of this file.'
    return place.refuse(`the file ${file} ${missing ? 'is not there' : 'cannot be read'}`, hint)
  }
  const json = parseJson(text)
  if (json === undefined) return place.refuse(`the file ${file} is not JSON`, WHAT_A_FILE_HOLDS)
  return eventsOfJson(place, json, file)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // V8's message quotes the file, which may be any file
  }
}

interface JsonParameter {
  readonly type: string
  readonly name?: string | undefined
  readonly indexed?: boolean | undefined
  readonly components?: readonly JsonParameter[] | undefined
}

const parameter: z.ZodType<JsonParameter> = z.lazy(() =>
  z
    .object({
      type: z.string(),
      name: z.string().optional(),
      indexed: z.boolean().optional(),
      components: z.array(parameter).optional(),
    })
    .refine(({ type, components }) => !type.startsWith('tuple') || components !== undefined),
)

const abiItem = z.object({ type: z.string(), name: z.string().optional() })
const abiEvent = z.object({
  type: z.literal('event'),
  name: z.string().min(1),
  anonymous: z.boolean().optional(),
  inputs: z.array(parameter),
})
const abiFile = z.union([
  z.array(abiItem.loose()),
  z.object({ abi: z.array(abiItem.loose()) }).transform(({ abi }) => abi),
])

function eventsOfJson(place: Place, json: unknown, file: string): AbiEvent[] | null {
  const abi = abiFile.safeParse(json)
  if (!abi.success) return place.refuse(`the file ${file} holds no ABI`, WHAT_A_FILE_HOLDS)
  const events: AbiEvent[] = []
  for (const item of abi.data.filter(({ type }) => type === 'event')) {
    const event = abiEvent.safeParse(item)
    const reason = event.success
      ? whyUnusable(event.data as AbiEvent)
      : 'its parameters have not the form of an ABI'
    if (!event.success || reason !== null) {
      const sentence = `the file ${file}: the event ${place.quote(item.name ?? '')} cannot be used: ${place.document.show(reason ?? '')}`
      return place.refuse(sentence, "Take the ABI from the compiler's output or a block explorer again.")
    }
    events.push(event.data as AbiEvent)
  }
  return events
}

/** Its signature, without the names (a Vyper contract may name a parameter as Solidity names a type), must parse. */
function whyUnusable(event: AbiEvent): string | null {
  try {
    parseAbiItem(`event ${toEventSignature(event)}`)
    return null
  } catch (error) {
    return reasonOf(error)
  }
}

// ---- a list of signatures ---------------------------------------------------------------------------------------

/** Each by itself, so that each mistake is found at its line; structs are known to all. Functions are passed over. */
function readSignatures(place: Place): AbiEvent[] | null {
  const items = place.children()
  const texts = items.map(({ value }) => String(value).trim().replace(/;$/, ''))
  const structs = texts.filter((text) => /^struct\s/.test(text))
  const parsed = items.map((item, index) => readSignature(item, texts[index] ?? '', structs))
  return parsed.every((events) => events !== null) ? parsed.flat() : null
}

const ANONYMOUS = /\)\s*anonymous$/

function readSignature(item: Place, text: string, structs: readonly string[]): AbiEvent[] | null {
  const anonymous = ANONYMOUS.test(text) // viem's grammar has no word for it
  const signature = text.replace(ANONYMOUS, ')')
  try {
    const abi = parseAbi([...structs.filter((struct) => struct !== signature), signature]) as readonly {
      type: string
    }[]
    const events = abi.filter((each): each is AbiEvent => each.type === 'event')
    return anonymous ? events.map((event) => ({ ...event, anonymous: true })) : events
  } catch (error) {
    const hint =
      'Write it as in Solidity: "event Transfer(address indexed from, address indexed to, uint256 value)".'
    return item.refuse(`is not a signature that can be read: ${item.document.show(reasonOf(error))}`, hint)
  }
}

/** viem's reason without its version and links: one sentence. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { shortMessage, metaMessages, details } = error as {
    shortMessage?: string
    metaMessages?: string[]
    details?: string
  }
  const reason = metaMessages?.[0] ?? [shortMessage?.replace(/\.$/, ''), details].filter(Boolean).join(': ')
  return (reason || error.message.split('\n')[0] || error.name).replace(/ More info: .*$/, '')
}
