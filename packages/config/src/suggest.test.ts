import { expect, test } from 'vitest'
import { closest, editDistance } from './suggest.js'

test.each([
  ['', '', 0],
  ['abc', 'abc', 0],
  ['', 'abc', 3],
  ['abc', '', 3],
  ['kitten', 'sitting', 3],
  ['heihgt', 'height', 1],
  ['ab', 'ba', 1],
])('from "%s" to "%s": %d', (a, b, distance) => expect(editDistance(a, b)).toBe(distance))

const keys = ['startHeight', 'endHeight', 'rpc', 'kind', 'pollInterval']
test.each([
  ['startHieght', 'startHeight'],
  ['start_height', 'startHeight'],
  ['STARTHEIGHT', 'startHeight'],
  ['end_block', 'endHeight'],
  ['rpcs', 'rpc'],
  ['rpcUrl', 'rpc'],
  ['kidn', 'kind'],
  ['polInterval', 'pollInterval'],
  ['zzz', null],
  ['constructor', null],
])('closest to %s', (word, expected) => expect(closest(word, keys)).toBe(expected))
