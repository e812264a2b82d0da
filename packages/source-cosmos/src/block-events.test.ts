// Which events of a block are taken, where they stand and what is in them: no node, answers as they are on the wire.
import type { CosmosContractOptions } from '@lockstep/config'
import {
  bytesOf,
  type EventFact,
  type Height,
  TX_INDEX_BEGIN_BLOCK,
  TX_INDEX_END_BLOCK,
} from '@lockstep/domain'
import { describe, expect, it } from 'vitest'
import { parseBlockResults, type WireEvent } from './answers.js'
import { selectEvents } from './block-events.js'
import { dialectOf, type NodeDialect } from './node-version.js'

const EVERYTHING: CosmosContractOptions = { contract: 'everything', address: null, events: null }

type Pair = readonly [string, string | null]
const event = (type: string, ...pairs: readonly Pair[]): WireEvent => ({
  type,
  attributes: pairs.map(([key, value]) => ({ key, value, index: true })),
})

function dialect(version: string): NodeDialect {
  const found = dialectOf(version)
  if (found === null) throw new Error(`no dialect for ${version}`)
  return found
}

const base64 = (text: string | Uint8Array) => Buffer.from(text).toString('base64')

/** The events of a block with one transaction that emitted these. */
function ofTx(events: readonly WireEvent[], contracts = [EVERYTHING], version = '0.38.1'): EventFact[] {
  const results = parseBlockResults({ height: '7', txs_results: [{ code: 0, events }] })
  return selectEvents(results, dialect(version), contracts)
}

const argsOf = (given: WireEvent, version?: string) => ofTx([given], [EVERYTHING], version)[0]?.args

describe('positions', () => {
  const lists = {
    begin_block_events: [event('b0'), event('b1')],
    end_block_events: [event('e0')],
    finalize_block_events: [
      event('f0', ['mode', 'BeginBlock']),
      event('f1', ['mode', 'EndBlock']),
      event('f2', ['mode', 'BeginBlock']),
      event('f3'),
    ],
    txs_results: [
      { code: 0, events: null },
      { code: 11, events: [event('failed')] },
      { events: [event('t0'), event('t1')] },
    ],
  }
  const positions = (version: string) =>
    selectEvents(parseBlockResults({ height: '7', ...lists }), dialect(version), [EVERYTHING]).map(
      ({ name, txIndex, eventIndex }) => [name, txIndex, eventIndex],
    )

  it('are begin block, transactions, end block up to 0.37', () => {
    expect(positions('0.37.2')).toEqual([
      ['b0', TX_INDEX_BEGIN_BLOCK, 0],
      ['b1', TX_INDEX_BEGIN_BLOCK, 1],
      ['t0', 2, 0],
      ['t1', 2, 1],
      ['e0', TX_INDEX_END_BLOCK, 0],
    ])
  })

  it('are told apart by the mode from 0.38 on, and count in the list that the phases share', () => {
    expect(positions('0.38.0')).toEqual([
      ['f0', TX_INDEX_BEGIN_BLOCK, 0],
      ['f2', TX_INDEX_BEGIN_BLOCK, 2],
      ['t0', 2, 0],
      ['t1', 2, 1],
      ['f1', TX_INDEX_END_BLOCK, 1],
      ['f3', TX_INDEX_END_BLOCK, 3],
    ])
  })

  it('trust only the last mode, which the SDK appends', () => {
    const forged = event('wasm', ['mode', 'BeginBlock'], ['mode', 'EndBlock'])
    const other = event('wasm', ['phase', 'BeginBlock'])
    const results = parseBlockResults({ height: '7', finalize_block_events: [forged, other] })
    const facts = selectEvents(results, dialect('1.0.0'), [EVERYTHING])
    expect(facts.map(({ txIndex }) => txIndex)).toEqual([TX_INDEX_END_BLOCK, TX_INDEX_END_BLOCK])
  })

  it('count the events that are not wanted too', () => {
    const wanted: CosmosContractOptions = {
      contract: 'x',
      address: null,
      events: [{ type: 'b', action: null }],
    }
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
    expect(ofTx([encoded], [contract({ address: 'osmo1pool' })], '0.34.2')).toHaveLength(1)
    expect(ofTx([encoded], [contract({ address: 'osmo1pool' })], '0.37.2')).toHaveLength(0)
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

  it('hold what PostgreSQL can store, and the raw form holds what came', () => {
    const [fact] = ofTx([event('x\u0000', ['k\u0000', 'v\u0000\ud800'], ['k\uFFFD', 'w'])])
    expect(fact?.name).toBe('x\uFFFD')
    expect(fact?.args).toEqual({ 'k\uFFFD': ['v\uFFFD\uFFFD', 'w'] })
    expect(JSON.parse(bytesOf(fact?.raw.data ?? '0x').toString('utf8'))[0]).toEqual({
      key: 'k\u0000',
      value: 'v\u0000\ud800',
      index: true,
    })
  })

  it('are base64 by the version of the node, never by their looks', () => {
    const given = event('x', ['a2V5', 'dGVzdA=='], ['bnVsbA==', null])
    expect(argsOf(given, '0.34.24')).toEqual({ key: 'test', null: null })
    expect(argsOf(given, 'v0.34.9')).toEqual({ key: 'test', null: null })
    for (const version of ['0.37.0', '0.38.0', '1.0.0'])
      expect(argsOf(given, version)).toEqual({ a2V5: 'dGVzdA==', 'bnVsbA==': null })
  })

  it('that are no UTF-8 become U+FFFD, and those that are no base64 are refused', () => {
    expect(argsOf(event('x', [base64('k'), base64(Uint8Array.of(0x66, 0xff, 0x00))]), '0.34.1')).toEqual({
      k: 'f\uFFFD\uFFFD',
    })
    expect(() => argsOf(event('x', [base64('k'), 'plain']), '0.34.1')).toThrow(/base64/)
  })

  it('keep their raw form as on the wire, fields in one order', () => {
    const results = parseBlockResults({
      height: '7',
      txs_results: [
        {
          code: 0,
          events: [
            { type: 'x', attributes: [{ index: false, value: 'dg==', key: 'aw==' }, { key: 'aw==' }] },
          ],
        },
      ],
    })
    const [fact] = selectEvents(results, dialect('0.34.0'), [EVERYTHING])
    expect(bytesOf(fact?.raw.data ?? '0x').toString()).toBe(
      '[{"key":"aw==","value":"dg==","index":false},{"key":"aw==","value":null,"index":false}]',
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
