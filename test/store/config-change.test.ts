/**
 * Goal: of a changed config just that is fetched again or removed which a fresh index would hold otherwise.
 * Method: configs of a few contracts, before and after.
 */
import type { ChainOptions, EvmContractOptions } from '@lockstep/config'
import { chainKey, height } from '@lockstep/domain'
import { describe, expect, test } from 'vitest'
import { type ConfigChange, changeOf, wantedFilters } from '../../packages/store/src/config-change.js'

/** `type name` or `type indexed name` for each input. */
const event = (name: string, ...inputs: string[]): AbiEvent => ({
  type: 'event',
  name,
  inputs: inputs.map((input) => {
    const [type = '', ...rest] = input.split(' ')
    return { type, name: rest.at(-1) ?? '', indexed: rest.length > 1 }
  }),
})
type AbiEvent = EvmContractOptions['events'][number]

const TRANSFER = event('Transfer', 'address indexed from', 'address indexed to', 'uint256 value')
const NFT = event('Transfer', 'address indexed from', 'address indexed to', 'uint256 indexed id')
const PING = event('Ping', 'uint256 n')
const PING_OF = event('Ping', 'address who')

const contract = (
  name: string,
  address: string | null,
  events: EvmContractOptions['events'] = [TRANSFER],
): EvmContractOptions => ({ contract: name, addresses: address === null ? null : [address], events })

const options = (contracts: EvmContractOptions[], more: Partial<ChainOptions> = {}): ChainOptions =>
  ({
    kind: 'evm',
    chain: chainKey('alpha'),
    chainId: '1',
    startHeight: height(0),
    blocks: 'events',
    transactions: false,
    filterDigest: 'digest',
    contracts,
    ...more,
  }) as ChainOptions

function change(was: ChainOptions, is: ChainOptions): ConfigChange | null {
  const { kind, chain, chainId, startHeight, filterDigest } = was
  const stored = { kind, chain, chainId, startHeight, filterDigest, timesFell: false }
  return changeOf(stored, wantedFilters(was), is)
}

const childrenOf = (factory: string): EvmContractOptions => ({
  ...contract('child', null, [PING]),
  factory: {
    of: contract('f', factory),
    event: 'Transfer(address,address,uint256)',
    argument: 'to',
  },
})

const inWords = (found: ConfigChange | null) =>
  found && {
    added: found.added.map(({ contract, event }) => `${contract} ${event}`.replace(/\(.*/, '')),
    refetched: found.refetched.map(({ contract }) => contract),
    removed: found.removed.map(({ contract }) => contract),
  }

const contracts = (...all: EvmContractOptions[]) => options(all)
const [a, b, any] = [contract('a', '0xa'), contract('b', '0xb'), contract('any', null)]

test('the same config is no change; another digest alone changes nothing that is stored', () => {
  expect(change(contracts(a, b), contracts(a, b))).toBeNull()
  expect(inWords(change(contracts(a, b), options([a, b], { filterDigest: 'other' })))).toEqual({
    added: [],
    refetched: [],
    removed: [],
  })
})

test('another chain under the same key is a change', () => {
  expect(change(contracts(a), options([a], { chainId: '2' }))).not.toBeNull()
})

describe('what is fetched again', () => {
  test.each<[string, ChainOptions, ChainOptions, ReturnType<typeof inWords>]>([
    ['a new contract', contracts(a), contracts(a, b), { added: ['b Transfer'], refetched: [], removed: [] }],
    [
      'one that went and met no other',
      contracts(a, b),
      contracts(b),
      { added: [], refetched: [], removed: ['a'] },
    ],
    [
      'one that went and met another',
      contracts(a, any),
      contracts(any),
      { added: [], refetched: ['any'], removed: ['a'] },
    ],
    [
      'one that went from behind another',
      contracts(any, a),
      contracts(any),
      { added: [], refetched: ['any'], removed: ['a'] },
    ],
    [
      'a new one before another: its own rows take over',
      contracts(any),
      contracts(a, any),
      { added: ['a Transfer'], refetched: [], removed: [] },
    ],
    [
      'order of two that never meet',
      contracts(a, b),
      contracts(b, a),
      { added: [], refetched: [], removed: [] },
    ],
    [
      'order of two that meet: the one in front now',
      contracts(any, a),
      contracts(a, any),
      { added: [], refetched: ['a'], removed: [] },
    ],
    [
      'another address',
      contracts(a),
      contracts(contract('a', '0xc')),
      { added: ['a Transfer'], refetched: [], removed: ['a'] },
    ],
    [
      'an overload: both are named by their signatures',
      contracts(contract('a', '0xa', [PING])),
      contracts(contract('a', '0xa', [PING, PING_OF])),
      { added: ['a Ping', 'a Ping'], refetched: [], removed: ['a'] },
    ],
    [
      'one of two events with one name and signature: their rows cannot be told apart',
      contracts(contract('a', '0xa', [TRANSFER, NFT])),
      contracts(contract('a', '0xa', [TRANSFER])),
      { added: [], refetched: ['a'], removed: ['a'] },
    ],
    [
      'every block',
      contracts(a),
      options([a], { blocks: 'all' }),
      { added: [' every block'], refetched: [], removed: [] },
    ],
    [
      'no longer every block',
      options([a], { blocks: 'all' }),
      contracts(a),
      { added: [], refetched: [], removed: [''] },
    ],
    [
      'the transactions of events',
      contracts(a, b),
      options([a, b], { transactions: true }),
      { added: [' transactions'], refetched: ['a', 'b'], removed: [] },
    ],
    [
      'children of a factory that is there already: it tells of them again',
      contracts(b, contract('f', '0xf')),
      contracts(b, contract('f', '0xf'), childrenOf('0xf')),
      { added: ['child Ping'], refetched: ['f'], removed: [] },
    ],
  ])('%s', (_, was, is, expected) => expect(inWords(change(was, is))).toEqual(expected))
})
