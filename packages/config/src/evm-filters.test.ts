/*
 * Goal: what the file says of an event's arguments becomes the topics that logs have, and a factory is found by name.
 * Method: real files; the topics are those that viem encodes for the same values.
 */
import { encodeEventTopics } from 'viem'
import { describe, expect, test } from 'vitest'
import { evmChain, load } from './config-file.fixture.js'
import { describeConfig } from './describe-config.js'
import type { EvmChainOptions, EvmEventOptions } from './options.js'

const USDC = '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48'
const contractsOf = (yaml: string) => (load(yaml).chains[0] as EvmChainOptions).contracts
const eventsOf = (contract: string): readonly EvmEventOptions[] =>
  contractsOf(evmChain({ contract }))[0]?.events ?? []

describe('a value of an indexed argument is the topic that a log has', () => {
  test.each<[string, string, unknown]>([
    ['address', `"${USDC}"`, USDC],
    ['address', `"${USDC.toLowerCase()}"`, USDC],
    ['uint256', '7', 7n],
    ['uint8', '0xff', 255],
    [
      'uint256',
      '115792089237316195423570985008687907853269984665640564039457584007913129639935',
      2n ** 256n - 1n,
    ],
    ['uint256', `"${2n ** 200n}"`, 2n ** 200n],
    ['int16', '-32768', -32768],
    ['bool', 'true', true],
    ['bool', '"false"', false],
    ['bytes4', '"0x12aBcDef"', '0x12abcdef'],
    ['bytes32', `"0x${'11'.repeat(32)}"`, `0x${'11'.repeat(32)}`],
    ['string', '"naïve ☃"', 'naïve ☃'],
    ['bytes', '"0x0102"', '0x0102'],
  ])('%s: %s', (type, text, value) => {
    const [event] = eventsOf(
      `abi: ["event E(${type} indexed a)"]\nevents: [{ name: E, where: { a: ${text} } }]`,
    )
    const topics = encodeEventTopics({ abi: [event], args: { a: value } } as never)
    expect(event?.where).toEqual([[[topics[1]]]])
  })
})

describe('where', () => {
  const transfer =
    'abi: ["event T(address indexed from, address indexed to, uint256 n)", "event A(bool indexed)"]'
  const topic = `0x${'0'.repeat(24)}${USDC.slice(2).toLowerCase()}`

  test('keeps the places of arguments, and one that is not named may be anything', () => {
    const [event] = eventsOf(`${transfer}\nevents: [{ name: T, where: { to: "${USDC}" } }]`)
    expect(event?.where).toEqual([[null, [topic]]])
  })

  test('is one way for each time that the event is named, and none where it is named without', () => {
    const both = `[{ name: T, where: { to: "${USDC}" } }, { name: T, where: { from: "${USDC}" } }]`
    expect(eventsOf(`${transfer}\nevents: ${both}`).map(({ where }) => where)).toEqual([
      [
        [null, [topic]],
        [[topic], null],
      ],
    ])
    const all = eventsOf(`${transfer}\nevents: [{ name: T, where: { to: "${USDC}" } }, T, A]`)
    expect(all.map(({ name, where }) => [name, where])).toEqual([
      ['T', undefined],
      ['A', undefined],
    ])
  })

  test('names an argument without a name by its place', () => {
    const [event] = eventsOf(`${transfer}\nevents: [{ name: A, where: { "0": true } }]`)
    expect(event?.where).toEqual([[[`0x${'0'.repeat(63)}1`]]])
  })

  test('applies to every overload of the name', () => {
    const abi = 'abi: ["event E(bool indexed a)", "event E(uint8 b, bool indexed a)"]'
    expect(
      eventsOf(`${abi}\nevents: [{ name: E, where: { a: true } }]`).map(({ where }) => where),
    ).toHaveLength(2)
  })
})

test('a factory is another contract of the chain, and its children may be factories', () => {
  const event = '"event New(address indexed child)"'
  const yaml = `${evmChain({ contract: `address: "${USDC}"\nabi: [${event}]` })}      leaves:
        abi: ["event Leaf()"]
        factory: { contract: branches, event: "New(address)", argument: child }
      branches:
        abi: [${event}, "event Note() anonymous"]
        factory: { contract: pings, event: New, argument: child }
`
  const [pings, leaves, branches] = contractsOf(yaml)
  expect(branches?.factory).toEqual({ of: pings, event: 'New(address)', argument: 'child' })
  expect(leaves?.factory).toEqual({ of: branches, event: 'New(address)', argument: 'child' })
  expect(describeConfig(load(yaml))).toContain('leaves: children of branches, 1 event (Leaf)')
})
