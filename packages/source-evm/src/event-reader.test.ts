/*
 * Goal: each log becomes one event of the right contract and name, or an explained undecoded one.
 * Method: logs of the fewest fields, read against hand-made configs.
 */
import { type EventFact, type Hex, height } from '@lockstep/domain'
import { type AbiEvent, encodeAbiParameters, pad, parseAbiItem, toEventSelector } from 'viem'
import { describe, expect, test } from 'vitest'
import { addressOf, evmChainOptions } from '../../testkit/src/evm/index.js'
import { endpointOf } from '../../testkit/src/rpc/index.js'
import { Endpoint } from './endpoint.js'
import { readerOf } from './event-reader.fixture.js'
import type { EvmHeader } from './parse-header.js'
import type { EvmLog } from './parse-log.js'

const event = (text: string): AbiEvent => parseAbiItem(text as 'event X()') as unknown as AbiEvent

const ERC20 = event('event Transfer(address indexed from, address indexed to, uint256 value)')
const ERC721 = event('event Transfer(address indexed from, address indexed to, uint256 indexed tokenId)')
const TRANSFER = toEventSelector(ERC20)
const A = addressOf(0xa)
const B = addressOf(0xb)
const WORD = pad('0x7', { size: 32 })
const HASH: Hex = `0x${'aa'.repeat(32)}`
const HEADER: EvmHeader = {
  ref: { height: height(9), hash: HASH, parentHash: HASH, time: 0n as never },
  logsBloom: null,
  transactions: null,
}

const log = (given: Partial<EvmLog>): EvmLog => ({
  address: A,
  topics: [TRANSFER, WORD, WORD],
  data: WORD,
  blockHash: HASH,
  blockNumber: 9,
  txHash: HASH,
  txIndex: 0,
  logIndex: 0,
  ...given,
})

interface Entry {
  readonly contract: string
  readonly addresses: readonly string[] | null
  readonly events: readonly AbiEvent[]
}

function read(contracts: readonly Entry[], ...logs: EvmLog[]): EventFact[] {
  const options = evmChainOptions({ rpc: ['http://127.0.0.1:1'], contracts })
  const node = new Endpoint(options.chain, endpointOf('http://127.0.0.1:1'), 1)
  const reader = readerOf(options)
  return [...reader.read(node, HEADER, logs, reader.children).events]
}

const summary = ({ contract, name, args, undecoded }: EventFact) => [contract, name, args, undecoded]
const NFT_LOG = log({ topics: [TRANSFER, WORD, WORD, WORD], data: '0x' })

describe('a Transfer', () => {
  test('of ERC-20 and of ERC-721 have one signature and are told apart by their topics (S28)', () => {
    const entries = [
      { contract: 'coin', addresses: null, events: [ERC20] },
      { contract: 'nft', addresses: null, events: [ERC721] },
    ]
    const facts = read(entries, log({}), { ...NFT_LOG, logIndex: 1 })
    expect(facts.map(({ contract, undecoded }) => [contract, undecoded])).toEqual([
      ['coin', null],
      ['nft', null],
    ])
    expect(facts[1]?.args).toEqual({ from: addressOf(7), to: addressOf(7), tokenId: '7' })
  })

  test('that does not fit is kept with the reason (S28)', () => {
    const [fact] = read([{ contract: 'coin', addresses: [A], events: [ERC20] }], NFT_LOG)
    expect(fact && summary(fact)).toEqual([
      'coin',
      'Transfer',
      null,
      'the ABI has 2 indexed arguments, and the log has 3',
    ])
    expect(fact?.raw).toEqual({ topics: NFT_LOG.topics, data: '0x' })
  })

  test('belongs to the entry that names its address, then to the first in the file', () => {
    const entries = [
      { contract: 'any', addresses: null, events: [ERC20] },
      { contract: 'named', addresses: [A], events: [ERC20] },
      { contract: 'named later', addresses: [A, B], events: [ERC20] },
    ]
    const facts = read(
      entries,
      log({}),
      log({ address: B, logIndex: 1 }),
      log({ address: addressOf(0xc), logIndex: 2 }),
    )
    expect(facts.map(({ contract }) => contract)).toEqual(['named', 'named later', 'any'])
  })

  test('of an address that nobody asks for is left out', () => {
    expect(read([{ contract: 'named', addresses: [B], events: [ERC20] }], log({}))).toEqual([])
  })
})

test('overloaded events go by their signatures, others by their names', () => {
  const events = [event('event Set(uint256 a)'), event('event Set(address a, (uint8 x, bool y) t)'), ERC20]
  const names = events.map((abi) => {
    const data = encodeAbiParameters(
      abi.inputs,
      abi.inputs.map((input) =>
        input.type === 'tuple' ? { x: 1, y: true } : input.type === 'address' ? A : 1n,
      ),
    )
    const topics = abi === ERC20 ? [TRANSFER, WORD, WORD] : [toEventSelector(abi)]
    const [fact] = read(
      [{ contract: 'c', addresses: null, events }],
      log({ topics, data: abi === ERC20 ? WORD : data }),
    )
    return fact?.name
  })
  expect(names).toEqual(['Set(uint256)', 'Set(address,(uint8,bool))', 'Transfer'])
})

test('two forms of one signature in one ABI keep the plain name', () => {
  const [fact] = read([{ contract: 'c', addresses: null, events: [ERC20, ERC721] }], NFT_LOG)
  expect(fact && [fact.name, fact.undecoded]).toEqual(['Transfer', null])
})

describe('an anonymous event', () => {
  const anonymous: AbiEvent = { ...event('event Note(address indexed who, uint256 value)'), anonymous: true }
  const entries = [{ contract: 'c', addresses: [A], events: [ERC20, anonymous] }]

  test('is matched by its address and the number of topics', () => {
    const [fact] = read(entries, log({ topics: [pad(B)], data: WORD }))
    expect(fact && summary(fact)).toEqual(['c', 'Note', { who: B, value: '7' }, null])
  })

  test('does not take a log with a known signature, nor claims one that it does not fit', () => {
    expect(read(entries, log({})).map(({ name }) => name)).toEqual(['Transfer'])
    expect(read(entries, log({ topics: [WORD, WORD, WORD, WORD] }))).toEqual([])
  })
})

test('events come in order of position, where a chain counts logs anew in each transaction too', () => {
  const entries = [{ contract: 'coin', addresses: null, events: [ERC20] }]
  const places = [
    [3, 1],
    [1, 2],
    [3, 0],
    [1, 10],
  ].map(([txIndex, logIndex]) => log({ txIndex, logIndex, txHash: `0x${String(txIndex).repeat(64)}` }))
  const facts = read(entries, ...places)
  expect(facts.map(({ txIndex, eventIndex }) => [txIndex, eventIndex])).toEqual([
    [1, 2],
    [1, 10],
    [3, 0],
    [3, 1],
  ])
})

test('equal log indices of different transactions are both kept, the same log twice is one', () => {
  const entries = [{ contract: 'coin', addresses: null, events: [ERC20] }]
  const [one, two] = ['11', '22'].map((byte, txIndex) =>
    log({ txIndex, txHash: `0x${byte.repeat(32)}` }),
  ) as [EvmLog, EvmLog]
  expect(
    read(entries, two, one, { ...two }, { ...one }).map(({ txIndex, eventIndex }) => [txIndex, eventIndex]),
  ).toEqual([
    [0, 0],
    [1, 0],
  ])
  expect(() => read(entries, one, { ...one, data: '0x' })).toThrow(/two different logs 0/)
})

test('tuples, lists and indexed dynamic values come with their names', () => {
  const deal = event(
    'event Deal(string indexed title, (address who, uint256[2] range)[] sides, (bool, bytes note) end)',
  )
  const data = encodeAbiParameters(deal.inputs.slice(1), [
    [{ who: A, range: [1n, 2n] }],
    [true, '0x0102'],
  ] as never)
  const [fact] = read(
    [{ contract: 'c', addresses: null, events: [deal] }],
    log({ topics: [toEventSelector(deal), WORD], data }),
  )
  expect(fact?.args).toEqual({
    title: WORD,
    sides: [{ who: A, range: ['1', '2'] }],
    end: { 0: true, note: '0x0102' },
  })
})

test.each([{ blockHash: `0x${'bb'.repeat(32)}` as const }, { blockNumber: 8 }])(
  'a log of another block is refused: %j',
  (stray) => {
    const entries = [{ contract: 'coin', addresses: null, events: [ERC20] }]
    expect(() => read(entries, log(stray))).toThrow(/a log says block/)
  },
)

describe('the filter', () => {
  const filterOf = (contracts: readonly Entry[]) =>
    readerOf(evmChainOptions({ rpc: [], contracts })).filters()

  test('is the union of addresses and of signatures', () => {
    const other = event('event Other()')
    expect(
      filterOf([
        { contract: 'a', addresses: [A], events: [ERC20] },
        { contract: 'b', addresses: [A, B], events: [ERC721, other] },
      ]),
    ).toEqual([{ address: [A, B], topics: [[TRANSFER, toEventSelector(other)]] }])
  })

  test('leaves out addresses for an entry of any, and topics for an anonymous event', () => {
    expect(
      filterOf([
        { contract: 'a', addresses: [A], events: [ERC20] },
        { contract: 'b', addresses: null, events: [ERC20] },
      ]),
    ).toEqual([{ topics: [[TRANSFER]] }])
    expect(
      filterOf([{ contract: 'a', addresses: [A], events: [ERC20, { ...ERC20, anonymous: true }] }]),
    ).toEqual([{ address: [A] }])
    expect(filterOf([{ contract: 'a', addresses: [A], events: [] }])).toEqual([])
    expect(filterOf([{ contract: 'a', addresses: [], events: [ERC20] }])).toEqual([])
  })
})
