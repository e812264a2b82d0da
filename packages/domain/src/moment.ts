import { BadInputError } from './errors.js'
import { type ChainKey, type Height, type Hex, height, isChainKey, type TimeUs } from './scalars.js'
import { parseTime, timeFromSeconds, US_PER_SECOND } from './time.js'

/** What an operator means by `--to`, before anybody has asked a chain. */
export type Moment =
  | { readonly kind: 'time'; readonly time: TimeUs }
  /** So long before now, by the database's clock. */
  | { readonly kind: 'span'; readonly spanUs: bigint }
  | { readonly kind: 'block'; readonly chain: ChainKey; readonly height: Height }
  | { readonly kind: 'transaction'; readonly chain: ChainKey; readonly txHash: Hex }

const FORMS =
  'Use a time with its zone (2026-03-01T12:00:00Z), @<unix seconds>, a span (-2h, -30m, -45s, -1d), ' +
  '<chain>:<height>, or <chain>:<transaction hash>.'

const SPAN_UNITS: Readonly<Record<string, bigint>> = { s: 1n, m: 60n, h: 3600n, d: 86_400n, w: 604_800n }

/** @throws BadInputError with the forms that are understood */
export function parseMoment(input: string): Moment {
  const text = input.trim()
  return parseUnix(text) ?? parseSpan(text) ?? parseZonedTime(text) ?? parseOnChain(text) ?? refuse(text)
}

function parseUnix(text: string): Moment | null {
  const match = /^@(-?\d{1,12})(?:\.(\d{1,9}))?$/.exec(text)
  if (!match) return null
  const us = BigInt((match[2] ?? '').padEnd(6, '0').slice(0, 6))
  return { kind: 'time', time: (timeFromSeconds(BigInt(match[1] ?? '0')) + us) as TimeUs }
}

function parseSpan(text: string): Moment | null {
  const match = /^-((?:\d{1,9}[smhdw])+)$/.exec(text)
  if (!match) return null
  const parts = [...(match[1] ?? '').matchAll(/(\d+)([smhdw])/g)]
  const seconds = parts.reduce(
    (sum, [, n, unit]) => sum + BigInt(n ?? '0') * (SPAN_UNITS[unit ?? ''] ?? 0n),
    0n,
  )
  return { kind: 'span', spanUs: seconds * US_PER_SECOND }
}

function parseZonedTime(text: string): Moment | null {
  const time = parseTime(text)
  return time === null ? null : { kind: 'time', time }
}

function parseOnChain(text: string): Moment | null {
  const split = text.indexOf(':')
  const chain = text.slice(0, split)
  const rest = text.slice(split + 1)
  if (split < 0 || !isChainKey(chain)) return null
  if (/^\d{1,16}$/.test(rest) && Number.isSafeInteger(Number(rest)))
    return { kind: 'block', chain, height: height(rest) }
  const hash = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(rest)?.[1]
  return hash === undefined ? null : { kind: 'transaction', chain, txHash: `0x${hash.toLowerCase()}` }
}

function refuse(text: string): never {
  if (/^\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$/.test(text)) {
    throw new BadInputError(
      `"${text}" names no time zone, so it means another moment on every machine.`,
      `Add the zone: ${text.length === 10 ? `${text}T00:00:00Z` : `${text.replace(' ', 'T')}Z`} for UTC, or +02:00 and the like. ${FORMS}`,
    )
  }
  throw new BadInputError(`"${text}" is not a moment that can be rewound to.`, FORMS)
}
