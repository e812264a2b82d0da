/**
 * Goal: filters that may fit the same log are told from those that cannot.
 * Method: pairs of what contracts ask for, both ways round.
 */
import { expect, test } from 'vitest'
import { type FilterSelection, selectionsMeet } from './filter-selection.js'

const any: FilterSelection = { event: null, action: null, addresses: null }

test.each<[string, Partial<FilterSelection>, Partial<FilterSelection>, boolean]>([
  ['anything and anything', {}, {}, true],
  ['one event of any address and of one', { event: 'T' }, { event: 'T', addresses: ['a'] }, true],
  ['two events of one address', { event: 'T', addresses: ['a'] }, { event: 'U', addresses: ['a'] }, false],
  ['an anonymous event of that address', { event: 'T', addresses: ['a'] }, { addresses: ['a'] }, true],
  ['one event of two addresses', { event: 'T', addresses: ['a'] }, { event: 'T', addresses: ['b'] }, false],
  ['lists that share one', { addresses: ['a', 'b'] }, { addresses: ['b', 'c'] }, true],
  ['two actions of a type', { event: 'w', action: 'x' }, { event: 'w', action: 'y' }, false],
  ['one action, and any', { event: 'w', action: 'x' }, { event: 'w' }, true],
  ['no address at all', { addresses: [] }, {}, false],
])('%s', (_, a, b, meet) => {
  expect(selectionsMeet({ ...any, ...a }, { ...any, ...b })).toBe(meet)
  expect(selectionsMeet({ ...any, ...b }, { ...any, ...a })).toBe(meet)
})
