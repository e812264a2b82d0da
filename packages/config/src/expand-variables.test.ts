// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables in the file are written so
import { describe, expect, test } from 'vitest'
import { expandVariables, soleVariable } from './expand-variables.js'

const env = { A: 'one', B: 'two', EMPTY: '', NESTED: '${A}', DOLLARS: "$& $1 $'" }

describe('expandVariables', () => {
  test.each([
    ['none', 'none'],
    ['${A}', 'one'],
    ['x${A}y${B}z', 'xoneytwoz'],
    ['${NOPE:-default}', 'default'],
    ['${EMPTY:-default}', 'default'],
    ['${A:-default}', 'one'],
    ['${NOPE:-}', ''],
    ['${NOPE:-a:-b c}', 'a:-b c'],
    ['$${A}', '${A}'],
    ['$A $ $$ {A}', '$A $ $$ {A}'],
    ['${NESTED}', '${A}'],
    ['${DOLLARS}', "$& $1 $'"],
  ])('%s', (text, expected) =>
    expect(expandVariables(text, env)).toMatchObject({ text: expected, problems: [] }),
  )

  test.each([
    '${NOPE}',
    '${EMPTY}',
    '${constructor}',
    '${}',
    '${A',
    '${1A}',
    '${A-b}',
    '${ A }',
    '${A:-${B}}',
  ])('%s is refused', (text) => expect(expandVariables(text, env).problems).toHaveLength(1))

  test('tells which values came from the environment', () => {
    expect(expandVariables('${A}${NOPE:-x}', env).used).toEqual([{ name: 'A', value: 'one' }])
  })
})

test.each([
  ['${A}', 'A'],
  [' ${A} ', 'A'],
  ['${A:-x}', null],
  ['x${A}', null],
  ['$${A}', null],
])('soleVariable of "%s"', (text, name) => expect(soleVariable(text)).toBe(name))
