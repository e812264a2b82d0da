/*
 * Goal: logs of real contracts are read as viem reads them, and none that it reads is left undecoded.
 * Method: every recorded log against every event of the recorded ABIs with its signature and number of topics.
 * Skipped without LOCKSTEP_REAL_DATA.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Hex, JsonValue } from '@lockstep/domain'
import fc from 'fast-check'
import { type AbiEvent, decodeEventLog, toEventSelector } from 'viem'
import { describe, expect, test } from 'vitest'
import { compileEvent } from './decode-event.js'
import { plain as asFact, asViem, isHashed, logOf, valuesOf } from './random-abi.fixture.js'

const data = process.env.LOCKSTEP_REAL_DATA
if (data === undefined) console.log('LOCKSTEP_REAL_DATA is not set: recorded logs are not decoded')

interface RecordedLog {
  readonly address: string
  readonly topics: readonly Hex[]
  readonly data: Hex
}

/** Every log in any of the files, however deep. */
function logsIn(value: unknown): RecordedLog[] {
  if (typeof value !== 'object' || value === null) return []
  if ('topics' in value && Array.isArray(value.topics) && 'data' in value && typeof value.data === 'string')
    return [value as RecordedLog]
  return Object.values(value).flatMap(logsIn)
}

const jsonFiles = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.json'))
    .map((file) => join(folder, file))

const readJson = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'))

function eventsOf(file: string): AbiEvent[] {
  const json = readJson(file) as { abi?: AbiEvent[] } | AbiEvent[]
  return (Array.isArray(json) ? json : (json.abi ?? [])).filter(({ type }) => type === 'event')
}

/** What viem gives, in the words of facts. */
function plain(value: unknown): JsonValue {
  if (typeof value === 'bigint' || typeof value === 'number') return String(value)
  if (typeof value === 'boolean') return value
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]))
  return /^0x[0-9a-f]*$/i.test(String(value)) ? String(value).toLowerCase() : String(value)
}

const indexedOf = (event: AbiEvent): number => event.inputs.filter(({ indexed }) => indexed).length

function byViem(event: AbiEvent, { topics, data }: RecordedLog): JsonValue | null {
  try {
    const { args } = decodeEventLog({ abi: [event], topics: topics as [Hex, ...Hex[]], data, strict: true })
    return plain(args ?? {})
  } catch {
    return null
  }
}

describe.skipIf(data === undefined)('recorded logs (LOCKSTEP_REAL_DATA)', () => {
  const events = data === undefined ? [] : jsonFiles(join(data, 'abis')).flatMap(eventsOf)
  const logs =
    data === undefined ? [] : jsonFiles(join(data, 'evm')).flatMap((file) => logsIn(readJson(file)))

  test('are read as viem reads them', () => {
    let read = 0
    for (const event of events) {
      const selector = toEventSelector(event)
      const decode = compileEvent(event)
      const fitting = logs.filter(
        ({ topics }) => topics[0] === selector && topics.length === 1 + indexedOf(event),
      )
      for (const log of fitting) {
        const expected = byViem(event, log)
        if (expected === null) continue
        expect(decode(log), `${event.name} of ${log.address}`).toEqual(expected)
        read += 1
      }
    }
    expect(read).toBeGreaterThan(100)
  })

  test('that the ABIs allow are read as they were written', () => {
    const made = fc
      .constantFrom(...events)
      .chain((event) => fc.tuple(...event.inputs.map(valuesOf)).map((values) => ({ event, values })))
    fc.assert(
      fc.property(made, (given) => {
        const own = Object.values(compileEvent(given.event)(logOf(given)))
        const { inputs } = given.event
        const written = inputs.map((input, at) =>
          input.indexed && isHashed(input) ? own[at] : asFact(given.values[at], input),
        )
        expect(
          inputs.map((input, at) =>
            input.indexed && isHashed(input) ? own[at] : asViem(own[at] as JsonValue, input),
          ),
        ).toEqual(written)
      }),
    )
    expect(events.length).toBeGreaterThan(50)
  })
})
