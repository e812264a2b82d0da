import { performance } from 'node:perf_hooks'
import type { Hex, JsonObject } from '@lockstep/domain'
import { compileEvent, type LogContent } from '@lockstep/source-evm'
import {
  type AbiEvent,
  decodeEventLog,
  encodeAbiParameters,
  pad,
  parseAbi,
  toEventSelector,
  toHex,
} from 'viem'
import type { BenchRow } from './main.js'

/*
 * Decoding one log after the other, as a block is read: ours, with its ABI compiled once, beside viem's
 * `decodeEventLog`. Both have the log as a node gives it, and give all its arguments.
 */

const EVENTS = parseAbi([
  'event Transfer(address indexed from, address indexed to, uint256 value)',
  'event Swap(address indexed sender, address indexed recipient, int256 amount0, int256 amount1, uint160 sqrtPriceX96, uint128 liquidity, int24 tick)',
  'event Message(bytes32 indexed id, string text, bytes payload)',
  'struct Item { uint8 kind; address token; uint256 amount }',
  'event Fulfilled(bytes32 hash, address indexed offerer, Item[] offer, Item[] consideration)',
])

const address: Hex = `0x${'a1'.repeat(20)}`
const items = Array.from({ length: 4 }, (_, kind) => ({ kind, token: address, amount: 10n ** 20n }))
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  Transfer: [123_456_789n * 10n ** 18n],
  Swap: [-(10n ** 18n), 3n * 10n ** 9n, 2n ** 96n, 10n ** 20n, -200_000],
  Message: ['hello from the other chain, at some length', `0x${'5a'.repeat(100)}`],
  Fulfilled: [`0x${'77'.repeat(32)}`, items, items],
}

export async function benchDecode(): Promise<readonly BenchRow[]> {
  return EVENTS.map((event) => compare(event))
}

const ROUND_MS = 150
const ROUNDS = 7

function compare(event: AbiEvent): BenchRow {
  const log = logOf(event)
  const decode = compileEvent(event)
  const topics = log.topics as [Hex, ...Hex[]]
  const own = (): JsonObject => decode(log)
  const viem = (): unknown => decodeEventLog({ abi: [event], topics, data: log.data, strict: true })
  // In turns, so that what else the machine does falls on both.
  const rounds = Array.from({ length: ROUNDS }, () => [rateOf(own), rateOf(viem)] as const)
  const [ownRate, viemRate] = [median(rounds.map(([rate]) => rate)), median(rounds.map(([, rate]) => rate))]
  const ratio = ownRate / viemRate
  return {
    what: `Decoding ${event.name}`,
    measured: `${thousands(ownRate)} logs/s`,
    against: `${thousands(viemRate)} logs/s with viem: ${ratio.toFixed(1)} times as many`,
    goal: 'more than viem decodes',
    values: { ratio },
  }
}

function logOf(event: AbiEvent): LogContent {
  const indexed = event.inputs.filter((input) => input.indexed)
  const inData = event.inputs.filter((input) => !input.indexed)
  const topics = indexed.map(({ type }) => (type === 'address' ? pad(address) : toHex(1, { size: 32 })))
  return {
    topics: [toEventSelector(event), ...topics],
    data: encodeAbiParameters(inData, VALUES[event.name] ?? []),
  }
}

/** Calls a second. */
function rateOf(decode: () => unknown): number {
  const start = performance.now()
  let calls = 0
  while (performance.now() - start < ROUND_MS) {
    for (let each = 0; each < 100; each++) decode()
    calls += 100
  }
  return (1_000 * calls) / (performance.now() - start)
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

const thousands = (rate: number): string => `${Math.round(rate / 1_000)} thousand`
