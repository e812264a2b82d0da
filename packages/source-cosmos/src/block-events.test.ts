// Which events of a block are taken, where they stand and what is in them: no node, answers as they are on the wire.
import { type CosmosContractOptions, cosmosFilter } from '@lockstep/config'
import {
  bytesOf,
  bytesOfText,
  type EventFact,
  type Height,
  TX_INDEX_BEGIN_BLOCK,
  TX_INDEX_END_BLOCK,
} from '@lockstep/domain'
import { describe, expect, it } from 'vitest'
import { parseBlockResults, type WireEvent } from './answers.js'
import type { AttributeEncoding } from './attribute-encoding.js'
import { selectEvents } from './block-events.js'
import { EventFilters } from './event-filters.js'

const EVERYTHING: CosmosContractOptions = {
  contract: 'everything',
  address: null,
  events: null,
  failedTransactions: false,
}

type Pair = readonly [string, string | null]
const event = (type: string, ...pairs: readonly Pair[]): WireEvent => ({
  type,
  attributes: pairs.map(([key, value]) => ({ key, value, index: true })),
})

const base64 = (text: string | Uint8Array) => Buffer.from(text).toString('base64')

const selected = (
  answer: object,
  contracts: readonly CosmosContractOptions[] = [EVERYTHING],
  byVersion: AttributeEncoding = 'plain',
): EventFact[] =>
  selectEvents(parseBlockResults({ height: '7', ...answer }), byVersion, new EventFilters(contracts))

/** The events of a block with one transaction that emitted these. */
const ofTx = (
  events: readonly WireEvent[],
  contracts: readonly CosmosContractOptions[] = [EVERYTHING],
  byVersion: AttributeEncoding = 'plain',
): EventFact[] => selected({ txs_results: [{ code: 0, events }] }, contracts, byVersion)

const argsOf = (given: WireEvent, byVersion?: AttributeEncoding) =>
  ofTx([given], [EVERYTHING], byVersion)[0]?.args

describe('positions', () => {
  const phases = {
    begin_block_events: [event('b0'), event('b1')],
    end_block_events: [event('e0')],
  }
  const shared = {
    finalize_block_events: [
      event('f0', ['mode', 'BeginBlock']),
      event('f1', ['mode', 'EndBlock']),
      event('f2', ['mode', 'BeginBlock']),
      event('f3'),
    ],
  }
  const txs = {
    txs_results: [
      { code: 0, events: null },
      { code: 11, events: [event('failed')] },
      { events: [event('t0'), event('t1')] },
    ],
  }
  const positions = (answer: object) =>
    selected(answer).map(({ name, txIndex, eventIndex }) => [name, txIndex, eventIndex])

  it('are begin block, transactions, end block where the phases have lists of their own', () => {
    expect(positions({ ...phases, ...txs })).toEqual([
      ['b0', TX_INDEX_BEGIN_BLOCK, 0],
      ['b1', TX_INDEX_BEGIN_BLOCK, 1],
      ['t0', 2, 0],
      ['t1', 2, 1],
      ['e0', TX_INDEX_END_BLOCK, 0],
    ])
  })

  it('are told apart by the mode where the phases share a list, and count in it', () => {
    expect(positions({ ...shared, ...txs })).toEqual([
      ['f0', TX_INDEX_BEGIN_BLOCK, 0],
      ['f2', TX_INDEX_BEGIN_BLOCK, 2],
      ['t0', 2, 0],
      ['t1', 2, 1],
      ['f1', TX_INDEX_END_BLOCK, 1],
      ['f3', TX_INDEX_END_BLOCK, 3],
    ])
  })

  it('are all different, and in order, where an answer has the lists of both layouts', () => {
    const all = positions({ ...phases, ...shared, ...txs })
    expect(all.map(([name]) => name)).toEqual(['b0', 'b1', 'f0', 'f2', 't0', 't1', 'e0', 'f1', 'f3'])
    expect(new Set(all.map(([, tx, index]) => `${tx}/${index}`)).size).toBe(all.length)
    expect(all).toEqual([...all].sort((a, b) => Number(a[1]) - Number(b[1]) || Number(a[2]) - Number(b[2])))
  })

  it('trust only the last mode, which the SDK appends', () => {
    const forged = event('wasm', ['mode', 'BeginBlock'], ['mode', 'EndBlock'])
    const other = event('wasm', ['phase', 'BeginBlock'])
    const facts = selected({ finalize_block_events: [forged, other] })
    expect(facts.map(({ txIndex }) => txIndex)).toEqual([TX_INDEX_END_BLOCK, TX_INDEX_END_BLOCK])
  })

  it('count the events that are not wanted too', () => {
    const wanted: CosmosContractOptions = { ...EVERYTHING, events: [{ type: 'b', action: null }] }
    expect(ofTx([event('a'), event('b'), event('b')], [wanted]).map(({ eventIndex }) => eventIndex)).toEqual([
      1, 2,
    ])
  })
})

describe('the filter', () => {
  const swap = event('wasm', ['_contract_address', 'osmo1pool'], ['action', 'swap'])
  const contract = (changes: Partial<CosmosContractOptions>): CosmosContractOptions => ({
    ...EVERYTHING,
    ...changes,
  })
  const named = (given: WireEvent, contracts: readonly CosmosContractOptions[]) =>
    ofTx([given], [...contracts]).map((fact) => fact.contract)

  it('takes an event once, for the first contract that wants it', () => {
    const contracts = [
      contract({ contract: 'other address', address: 'osmo1other' }),
      contract({
        contract: 'other action',
        address: 'osmo1pool',
        events: [{ type: 'wasm', action: 'join' }],
      }),
      contract({
        contract: 'first',
        address: 'osmo1pool',
        events: [
          { type: 'x', action: null },
          { type: 'wasm', action: 'swap' },
        ],
      }),
      contract({ contract: 'second', events: [{ type: 'wasm', action: null }] }),
    ]
    expect(named(swap, contracts)).toEqual(['first'])
    expect(named(event('wasm', ['_contract_address', 'osmo1else']), contracts)).toEqual(['second'])
    expect(named(event('transfer'), contracts)).toEqual([])
  })

  it('finds the action wherever it stands', () => {
    const claim = event('message', ['action', 'a'], ['module', 'm'], ['action', 'claim'])
    expect(named(claim, [contract({ events: [{ type: 'message', action: 'claim' }] })])).toHaveLength(1)
    expect(named(claim, [contract({ events: [{ type: 'message', action: 'm' }] })])).toHaveLength(0)
  })

  it('names the contract of an event, of an older wasmd too, but believes no contract that names another', () => {
    const address = (given: WireEvent) => ofTx([given])[0]?.address
    expect(address(swap)).toBe('osmo1pool')
    expect(address(event('wasm', ['contract_address', 'osmo1old'], ['x', 'y']))).toBe('osmo1old')
    expect(address(event('wasm', ['x', 'y'], ['contract_address', 'osmo1victim']))).toBeNull()
    expect(
      address(event('wasm', ['_contract_address', 'osmo1me'], ['contract_address', 'osmo1victim'])),
    ).toBe('osmo1me')
    expect(address(event('ethereum_tx', ['contract_address', '0x01']))).toBeNull()
    expect(address(event('transfer', ['amount', '1']))).toBeNull()
  })

  it('looks at the address after taking base64 off', () => {
    const encoded = event('wasm', [base64('_contract_address'), base64('osmo1pool')])
    expect(ofTx([encoded], [contract({ address: 'osmo1pool' })], 'base64')).toHaveLength(1)
  })
})

describe('what failed transactions emitted', () => {
  const failed = {
    txs_results: [{ code: 5, events: [event('x', ['a', '1']), event('x', ['_failed', 'no'])] }],
  }
  const marked: CosmosContractOptions = { ...EVERYTHING, contract: 'marked', failedTransactions: true }

  it('is left out, and marked where it is asked for: an object, which no attribute is', () => {
    expect(selected(failed)).toEqual([])
    expect(selected(failed, [marked]).map(({ args }) => args)).toEqual([
      { a: '1', _failed: { code: 5 } },
      { _failed: ['no', { code: 5 }] },
    ])
    expect(selected({ txs_results: [{ events: [event('x', ['a', '1'])] }] }, [marked])[0]?.args).toEqual({
      a: '1',
    })
  })

  it('goes to a later contract where an earlier one does not take it', () => {
    expect(selected(failed, [EVERYTHING, marked]).map(({ contract }) => contract)).toEqual([
      'marked',
      'marked',
    ])
  })
})

describe('asked for some filters', () => {
  const first: CosmosContractOptions = {
    ...EVERYTHING,
    contract: 'first',
    events: [{ type: 'x', action: 'a' }],
  }
  const second: CosmosContractOptions = {
    ...EVERYTHING,
    contract: 'second',
    events: [
      { type: 'x', action: null },
      { type: 'y', action: null },
    ],
  }
  const events = [event('x', ['action', 'a']), event('x', ['action', 'b']), event('y')]
  const given = (...only: string[]) =>
    selectEvents(
      parseBlockResults({ height: '7', txs_results: [{ events }] }),
      'plain',
      new EventFilters([first, second], new Set(only)),
    ).map(({ contract, eventIndex }) => [contract, eventIndex])
  const digest = (contract: CosmosContractOptions, index: number) =>
    cosmosFilter(contract, contract.events?.[index] ?? null)

  it('gives theirs alone, and never what is an earlier filter\u2019s', () => {
    expect(given(digest(second, 0))).toEqual([['second', 1]])
    expect(given(digest(second, 1))).toEqual([['second', 2]])
    expect(given(digest(first, 0), digest(second, 1))).toEqual([
      ['first', 0],
      ['second', 2],
    ])
    expect(given()).toEqual([])
  })
})

describe('arguments', () => {
  it('are texts, null for a null value, and a list where a key comes again', () => {
    const given = event('x', ['a', '1'], ['b', null], ['a', '2'], ['c', ''], ['a', null])
    expect(argsOf(given)).toEqual({ a: ['1', '2', null], b: null, c: '' })
  })

  it('may have an empty key, or one that JavaScript objects have a meaning for', () => {
    const args = argsOf(event('x', ['', 'empty'], ['__proto__', 'p'], ['constructor', 'c']))
    expect(Object.entries(args ?? {})).toEqual([
      ['', 'empty'],
      ['__proto__', 'p'],
      ['constructor', 'c'],
    ])
  })

  it('hold what PostgreSQL can store, from which the bytes come back; the raw form holds what came', () => {
    const [fact] = ofTx([event('x\u0000', ['k\u0000', 'v\u0000'], ['k\uFFFD', '\ud800'])])
    expect(fact?.name).toBe('x\u{10F700}')
    expect(fact?.args).toEqual({ 'k\u{10F700}': 'v\u{10F700}', 'k\uFFFD': '\u{10F7ED}\u{10F7A0}\u{10F780}' })
    expect(JSON.parse(bytesOf(fact?.raw.data ?? '0x').toString('utf8'))).toEqual([
      { key: 'k\u0000', value: 'v\u0000', index: true },
      { key: 'k\uFFFD', value: '\ud800', index: true },
    ])
  })

  it('whose value is raw bytes give them back', () => {
    const bytes = Uint8Array.of(0x66, 0xff, 0x00, 0xc3)
    const args = argsOf(event('x', [base64('key'), base64(bytes)]), 'base64')
    expect(bytesOfText(String(args?.key))).toEqual(Buffer.from(bytes))
  })

  it('keep their raw form as on the wire, fields in one order', () => {
    const attributes = [{ index: false, value: 'dg==', key: 'a2V5' }, { key: 'a2V5' }]
    const [fact] = selected(
      { txs_results: [{ events: [{ type: 'x', attributes }] }] },
      [EVERYTHING],
      'base64',
    )
    expect(fact?.args).toEqual({ key: ['v', null] })
    expect(bytesOf(fact?.raw.data ?? '0x').toString()).toBe(
      '[{"key":"a2V5","value":"dg==","index":false},{"key":"a2V5","value":null,"index":false}]',
    )
    expect(fact?.raw.topics).toEqual([])
  })
})

it('refuses results that are not of the documented shape', () => {
  const wrong: readonly [unknown, RegExp][] = [
    [null, /result is null/],
    [{ height: 'seven' }, /height is "seven"/],
    [{ height: '7', txs_results: {} }, /txs_results is \{\}, but should be a list/],
    [{ height: '7', txs_results: [{ code: 'x' }] }, /txs_results\[0\].code/],
    [{ height: '7', end_block_events: [{ type: 1 }] }, /end_block_events\[0\].type is 1/],
    [{ height: '7', end_block_events: [{ type: 'x', attributes: [{ key: 5 }] }] }, /key is 5/],
    [
      { height: '7', end_block_events: [{ type: 'x', attributes: [{ key: 'k', value: {} }] }] },
      /value is \{\}/,
    ],
    [{ height: '7', end_block_events: [{ type: 'x', attributes: [{ key: 'k', index: 1 }] }] }, /index is 1/],
  ]
  for (const [answer, words] of wrong) expect(() => parseBlockResults(answer)).toThrow(words)
  expect(parseBlockResults({ height: '7' })).toEqual({
    height: 7 as Height,
    txs: [],
    beginBlock: [],
    endBlock: [],
    finalizeBlock: [],
  })
})
