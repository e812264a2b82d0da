/*
 * Goal: a config's events become views whose names and columns a person can foresee, and that never meet.
 * Method: contracts as the config resolves them, planned without a database.
 */
import type { ChainOptions, ContractQuery, CosmosContractOptions, EvmContractOptions } from '@lockstep/config'
import { chainKey } from '@lockstep/domain'
import { cosmosChainOptions, evmChainOptions } from '@lockstep/testkit'
import { type AbiEvent, parseAbi } from 'viem'
import { expect, test } from 'vitest'
import { planViews } from './plan-views.js'

const RPC = ['http://127.0.0.1:9']

const contract = (name: string, ...signatures: string[]): EvmContractOptions => ({
  contract: name,
  addresses: null,
  events: (parseAbi(signatures) as readonly AbiEvent[]).filter(({ type }) => type === 'event'),
})
const evm = (chain: string, contracts: EvmContractOptions[], queries: ContractQuery[] = []): ChainOptions =>
  evmChainOptions({ rpc: RPC, chain: chainKey(chain), contracts, queries })
const cosmos = (
  chain: string,
  contracts: CosmosContractOptions[],
  queries: ContractQuery[] = [],
): ChainOptions => cosmosChainOptions({ rpc: RPC, chain: chainKey(chain), contracts, queries })

const names = (...chains: ChainOptions[]) => planViews(chains).map(({ name }) => name)
/** The columns after those that every view has. */
const argumentsOf = (...signatures: string[]) =>
  planViews([evm('a', [contract('c', ...signatures)])]).map(({ columns }) =>
    columns.slice(8).map(({ name, type }) => `${name} ${type}`),
  )

test('one view per event, named after contract and event', () => {
  expect(
    names(evm('a', [contract('usdc', 'event Transfer(address a)', 'event Approval(address a)')])),
  ).toEqual(['usdc_transfer', 'usdc_approval'])
})

test('columns have the types of what they hold, integers of any width one and the same', () => {
  expect(
    argumentsOf(
      'struct P { uint8 a; bytes b; }',
      'event E(uint256 big, int8 small, address who, bool yes, bytes32 word, bytes any, string text, P pair, uint8[2] list)',
    ),
  ).toEqual([
    [
      'big numeric',
      'small numeric',
      'who text',
      'yes boolean',
      'word bytea',
      'any bytea',
      'text text',
      'pair jsonb',
      'list jsonb',
    ],
  ])
})

test('of an indexed argument without a fixed size there is the hash', () => {
  expect(argumentsOf('event E(string indexed s, uint256[] indexed l, bytes indexed b)')).toEqual([
    ['s bytea', 'l bytea', 'b bytea'],
  ])
})

test('arguments named as a position column, without a name, or alike but for case have columns of their own', () => {
  expect(argumentsOf('event E(uint8 height, address, uint8 Chain, address from)')).toEqual([
    ['arg_height numeric', 'arg_1 text', 'arg_chain numeric', 'from text'],
  ])
  expect(argumentsOf('event E(uint8 value, address Value)')).toEqual([
    [expect.stringMatching(/^value_[0-9a-f]{8} numeric$/), expect.stringMatching(/^value_[0-9a-f]{8} text$/)],
  ])
  expect(argumentsOf('event E(uint8 arg_height, uint8 height)')[0]).toHaveLength(2)
  expect(new Set(argumentsOf('event E(uint8 arg_height, uint8 height)')[0]).size).toBe(2)
})

test('overloads are told apart by their types, and twins by what of them is indexed', () => {
  expect(names(evm('a', [contract('c', 'event P(uint256 a)', 'event P(address a, bool b)')]))).toEqual([
    'c_p_uint256',
    'c_p_address_bool',
  ])
  const twins = planViews([
    evm('a', [
      contract(
        'c',
        'event Transfer(address indexed a, address indexed b, uint256 c)',
        'event Transfer(address indexed a, address indexed b, uint256 indexed c)',
      ),
    ]),
  ])
  expect(twins.map(({ name }) => name)).toEqual(['c_transfer_indexed_2', 'c_transfer_indexed_3'])
  expect(twins.map(({ predicate }) => predicate.match(/num_nonnulls.* = \d/)?.[0])).toEqual([
    'num_nonnulls(topic0, topic1, topic2, topic3) = 3',
    'num_nonnulls(topic0, topic1, topic2, topic3) = 4',
  ])
})

test('contracts whose views would have one name get digests', () => {
  const [a, b] = names(evm('a', [contract('c_p', 'event Q()'), contract('c', 'event P_Q()')]))
  expect(a).toMatch(/^c_p_q_[0-9a-f]{8}$/)
  expect(b).toMatch(/^c_p_q_[0-9a-f]{8}$/)
  expect(a).not.toBe(b)
})

test('a contract on two chains has one view where it is the same, and one per chain where not', () => {
  const same = contract('c', 'event P(uint256 a)')
  expect(planViews([evm('a', [same]), evm('b', [same])]).map(({ name, chains }) => [name, chains])).toEqual([
    ['c_p', ['a', 'b']],
  ])
  const other = contract('c', 'event P(address a)')
  expect(planViews([evm('a', [same]), evm('b', [other])]).map(({ name, chains }) => [name, chains])).toEqual([
    ['c_p_a', ['a']],
    ['c_p_b', ['b']],
  ])
  const renamed = contract('c', 'event P(uint256 z)')
  expect(names(evm('a', [same]), evm('b', [renamed]))).toEqual(['c_p_a', 'c_p_b'])
})

test('Cosmos: a view per type and action, args as a whole, and a column per listed attribute', () => {
  const registry: CosmosContractOptions = {
    contract: 'registry',
    address: null,
    failedTransactions: false,
    events: [
      { type: 'wasm', action: 'register_agent' },
      { type: 'wasm-swap', action: null },
    ],
  }
  const views = planViews([
    cosmos(
      'osmosis',
      [registry],
      [{ contract: 'registry', attributes: ['sender', 'height'], index: ['sender'] }],
    ),
  ])
  expect(views.map(({ name }) => name)).toEqual(['registry_wasm_register_agent', 'registry_wasm_swap'])
  expect(views[0]?.columns.slice(8).map(({ name, type }) => `${name} ${type}`)).toEqual([
    'failed boolean',
    'args jsonb',
    'sender text',
    'arg_height text',
  ])
  expect(views[0]?.indexes.map(({ chain, column }) => [chain, column.name, column.index])).toEqual([
    ['osmosis', 'sender', 'hash'],
  ])
})

test('Cosmos: a contract with events of every type has one view with their names, and one listed twice is one', () => {
  const every: CosmosContractOptions = {
    contract: 'bank',
    address: null,
    events: null,
    failedTransactions: false,
  }
  const [view] = planViews([cosmos('osmosis', [every])])
  expect(view?.name).toBe('bank_events')
  expect(view?.columns.map(({ name }) => name)).toContain('name')
  const twice = {
    ...every,
    events: [
      { type: 'a', action: null },
      { type: 'a', action: null },
    ],
  }
  expect(planViews([cosmos('osmosis', [twice])]).map(({ chains }) => chains)).toEqual([['osmosis']])
})

test('an index is on the chains that ask for it, and for events that have the argument', () => {
  const both = contract('c', 'event P(uint256 a)', 'event Q(address b)')
  const views = planViews([
    evm('a', [both], [{ contract: 'c', attributes: [], index: ['a'] }]),
    evm('b', [both]),
  ])
  expect(
    views.map(({ name, indexes }) => [name, indexes.map(({ chain, column }) => `${chain} ${column.name}`)]),
  ).toEqual([
    ['c_p', ['a a']],
    ['c_q', []],
  ])
})
