/*
 * Goal: every name fits PostgreSQL, is found as people write it, and no two are equal.
 * Method: words as configs and ABIs hold them, and hostile ones.
 */
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { distinctNames, nameWithDigest } from './identifiers.js'

const names = (...words: string[]) => distinctNames(words.map((each) => ({ words: each, stands: each })))
const digits = (text: string, length = 8) => createHash('sha256').update(text).digest('hex').slice(0, length)

describe('a name is its words, as PostgreSQL takes them without quotes', () => {
  test.each([
    ['usdc_Transfer', 'usdc_transfer'],
    ['tokenId', 'tokenid'],
    ['_contract_address', '_contract_address'],
    ['my-pool_Swap', 'my_pool_swap'],
    ['a_Ping(address,uint256[])', 'a_ping_address_uint256'],
    ['wasm-swap/in.out', 'wasm_swap_in_out'],
    ['1inch', '_1inch'],
    ['$value', '_$value'],
    ['', '_'],
    ['größe', 'gr_e'],
  ])('%s', (words, name) => expect(names(words)).toEqual([name]))
})

test('63 bytes are kept, and a longer name says by a digest which one it is', () => {
  expect(names('x'.repeat(63))).toEqual(['x'.repeat(63)])
  const [a, b] = ['y'.repeat(64), `${'y'.repeat(64)}z`]
  expect(names(a as string, b as string)).toEqual(
    [a, b].map((each) => `${'y'.repeat(54)}_${digits(each as string)}`),
  )
})

test('names that would be equal all get a digest, so that the order says nothing', () => {
  expect(names('Value', 'other', 'value')).toEqual([
    `value_${digits('Value')}`,
    'other',
    `value_${digits('value')}`,
  ])
  expect(names('value', 'other', 'Value')).toEqual([
    `value_${digits('value')}`,
    'other',
    `value_${digits('Value')}`,
  ])
})

test('a name that another already has as its own words is made different too', () => {
  const made = names('Value', 'value', `value_${digits('Value')}`)
  expect(new Set(made).size).toBe(3)
  expect(made.every((name) => name.length <= 63)).toBe(true)
})

test('a name with a digest leaves room for it', () => {
  expect(nameWithDigest({ words: 'z'.repeat(80), stands: 'a' })).toBe(`${'z'.repeat(54)}_${digits('a')}`)
})
