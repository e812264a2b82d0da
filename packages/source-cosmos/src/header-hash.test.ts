// The hash of a header against that of a real one: the first block of a chain, where most is left out or empty. The
// recorded chains and the real node check hundreds more.
import { describe, expect, it } from 'vitest'
import { headerHash } from './header-hash.js'

const EMPTY = 'E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855'
const VALIDATORS = '6B95A63B261D3DDC1DFF6FA53F4C591AB8DA58BBA545700BFD45E6A54AAA2A84'

/** Block 1 of a key-value chain of CometBFT 0.34. */
const FIRST = {
  version: { block: '11', app: '1' },
  chain_id: 'dockerchain',
  height: '1',
  time: '2022-09-22T18:57:22.193215438Z',
  last_block_id: { hash: '', parts: { total: 0, hash: '' } },
  last_commit_hash: EMPTY,
  data_hash: EMPTY,
  validators_hash: VALIDATORS,
  next_validators_hash: VALIDATORS,
  consensus_hash: '048091BC7DDC283F77BFBF91D73C44DA58C3DF8A9CBC867405D8B7F3DAADA22F',
  app_hash: '',
  last_results_hash: EMPTY,
  evidence_hash: EMPTY,
  proposer_address: '675F52E8FDA5F4047B8EAF498F946F551ED53DC2',
}
const HASH = '0x56527562e5142c279254641ce18db0d845767f2933aafb784d752905abf410e8'

const hashOf = (changes: object) => headerHash({ ...FIRST, ...changes }, 'header')

it('is that of a real block', () => expect(hashOf({})).toBe(HASH))

it('is the same however a node writes what is empty', () => {
  expect(hashOf({ last_block_id: null, app_hash: null })).toBe(HASH)
  expect(hashOf({ last_block_id: { hash: '', parts: { total: '0', hash: '' } } })).toBe(HASH)
  expect(
    hashOf({ height: 1, version: { block: 11, app: 1 }, consensus_hash: FIRST.consensus_hash.toLowerCase() }),
  ).toBe(HASH)
})

describe('is another one', () => {
  const hash = 'AB'.repeat(32)
  it.each<[string, object]>([
    ['where the application has another version', { version: { block: '11' } }],
    ['on another chain', { chain_id: 'dockerchain2' }],
    ['at another height', { height: '2' }],
    ['a nanosecond later', { time: '2022-09-22T18:57:22.193215439Z' }],
    ['without a fraction of a second', { time: '2022-09-22T18:57:22Z' }],
    ['before 1970', { time: '0001-01-01T00:00:00Z' }],
    ['with a parent', { last_block_id: { hash, parts: { total: 1, hash } } }],
    ...Object.entries(FIRST)
      .filter(([, value]) => typeof value === 'string' && value.length === 64)
      .map(([field]): [string, object] => [`with another ${field}`, { [field]: hash }]),
    ['with another app_hash', { app_hash: hash }],
    ['with another proposer', { proposer_address: hash.slice(0, 40) }],
  ])('%s', (_, changes) => expect(hashOf(changes)).not.toBe(HASH))
})

it.each<[string, object, RegExp]>([
  ['a height that is no number', { height: 'one' }, /header.height is "one"/],
  ['a hash that is no hex', { data_hash: 'XY' }, /header.data_hash is "XY", but should be hex digits/],
  ['a time in another zone', { time: '2022-09-22T18:57:22+02:00' }, /header.time .* in UTC/],
  ['no version', { version: null }, /header.version is null/],
  ['a parent that is no object', { last_block_id: 'x' }, /header.last_block_id is "x"/],
])('refuses %s', (_, changes, words) => expect(() => hashOf(changes)).toThrow(words))
