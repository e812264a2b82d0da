/** Goal: what a node sent can be told of, also what JSON.stringify throws on. */
import { expect, test } from 'vitest'
import { jsonText } from './index.js'

test('as JSON.stringify, and words where that goes too deep', () => {
  expect(jsonText({ a: [1, 'b', null] })).toBe('{"a":[1,"b",null]}')
  expect(jsonText(undefined)).toBe('undefined')
  expect(jsonText(JSON.parse('['.repeat(200_000) + ']'.repeat(200_000)))).toMatch(/nested too deeply/)
})
