import { expect, it } from 'vitest'
import { BadInputError, describeError, formatTime, parseMoment, parseTime, timeUs } from './index.js'

const refusal = (text: string): string => {
  try {
    parseMoment(text)
  } catch (error) {
    expect(error).toBeInstanceOf(BadInputError)
    return describeError(error)
  }
  throw new Error(`"${text}" was accepted`)
}

it('reads every form of a moment', () => {
  expect(parseMoment('2023-11-14T22:13:20Z')).toEqual({ kind: 'time', time: 1_700_000_000_000_000n })
  expect(parseMoment('2023-11-15 03:43:20.5+05:30')).toEqual({ kind: 'time', time: 1_700_000_000_500_000n })
  expect(parseMoment('@1700000000')).toEqual({ kind: 'time', time: 1_700_000_000_000_000n })
  expect(parseMoment('-2h')).toEqual({ kind: 'span', spanUs: 7_200_000_000n })
  expect(parseMoment('-1h30m')).toEqual({ kind: 'span', spanUs: 5_400_000_000n })
  expect(parseMoment('ethereum:19000000')).toEqual({ kind: 'block', chain: 'ethereum', height: 19_000_000 })
  const hash = 'AB'.repeat(32)
  expect(parseMoment(`osmosis:${hash}`)).toEqual({
    kind: 'transaction',
    chain: 'osmosis',
    txHash: `0x${hash.toLowerCase()}`,
  })
})

it('S14: refuses a time without a zone, and says how to write it', () => {
  expect(refusal('2023-11-14T22:13:20')).toMatchInlineSnapshot(`
    ""2023-11-14T22:13:20" names no time zone, so it means another moment on every machine.
    Hint: Add the zone: 2023-11-14T22:13:20Z for UTC, or +02:00 and the like. Use a time with its zone (2026-03-01T12:00:00Z), @<unix seconds>, a span (-2h, -30m, -45s, -1d), <chain>:<height>, or <chain>:<transaction hash>."
  `)
})

it('refuses what is no moment', () => {
  for (const text of [
    '',
    'yesterday',
    '2h',
    '1700000000',
    'ethereum:',
    'ethereum:0x12',
    '2023-02-30T00:00:00Z',
    '@1e9',
  ]) {
    expect(refusal(text)).toContain('Hint: Use a time with its zone')
  }
})

it('floors finer digits once, and prints what it reads', () => {
  expect(parseTime('2023-11-14T22:13:20.123456789Z')).toBe(1_700_000_000_123_456n)
  expect(formatTime(timeUs(1_700_000_000_123_456n))).toBe('2023-11-14T22:13:20.123456Z')
  expect(formatTime(timeUs(-1n))).toBe('1969-12-31T23:59:59.999999Z')
  expect(parseTime('0001-01-01T00:00:00Z')).toBe(-62_135_596_800_000_000n)
  expect(formatTime(timeUs(-62_135_596_800_000_000n))).toBe('0001-01-01T00:00:00.000000Z')
})
