// How an answer writes its attributes: answers as they are on the wire, against every version that a node may have.
import { describe, expect, it } from 'vitest'
import { parseBlockResults } from './answers.js'
import { type AttributeEncoding, decodeAttribute, encodingOf } from './attribute-encoding.js'

const base64 = (text: string | Uint8Array) => Buffer.from(text).toString('base64')

type Pair = readonly [string, string | null]

const answer = (...events: readonly (readonly Pair[])[]) =>
  parseBlockResults({
    height: '7',
    txs_results: [
      {
        events: events.map((pairs) => ({
          type: 'x',
          attributes: pairs.map(([key, value]) => ({ key, value, index: true })),
        })),
      },
    ],
  })

const encoded = (...pairs: readonly Pair[]): Pair[] =>
  pairs.map(([key, value]) => [base64(key), value === null ? null : base64(value)])

const VERSIONS: readonly AttributeEncoding[] = ['base64', 'plain']

describe.each(VERSIONS)('a node whose version says %s', (byVersion) => {
  const judged = (...events: readonly (readonly Pair[])[]) => encodingOf(answer(...events), byVersion)

  it.each<[string, Pair[]]>([
    ['amount = 5utok', [['amount', '5utok']]],
    ['a value that is base64', [['amount', 'dGVzdA==']]],
    ['a key and a value that are base64 by chance', [['memo', 'dGVzdA==']]],
    [
      'keys of four letters alone',
      [
        ['data', null],
        ['mode', 'null'],
        ['code', ''],
      ],
    ],
  ])('gives plain answers: %s', (_, pairs) => expect(judged(pairs)).toBe('plain'))

  it.each<[string, Pair[]]>([
    ['amount = 5utok', [['amount', '5utok']]],
    [
      'null values',
      [
        ['fee', null],
        ['_contract_address', 'osmo1pool'],
      ],
    ],
    ['a value that is base64 inside', [['memo', 'dGVzdA==']]],
    [
      'keys beyond ASCII among others',
      [
        ['montant', '1'],
        ['größe', '2'],
        ['amount', '3'],
      ],
    ],
    [
      'an empty key among others',
      [
        ['', 'x'],
        ['amount', ''],
      ],
    ],
  ])('gives base64 answers: %s', (_, pairs) => expect(judged(encoded(...pairs))).toBe('base64'))

  it('is believed where an answer shows nothing', () => {
    expect(judged()).toBe(byVersion)
    expect(
      judged(
        [],
        [
          ['', ''],
          ['', null],
        ],
      ),
    ).toBe(byVersion)
  })

  it('writes plain texts where a single one is no base64, whatever the others are', () => {
    expect(judged(encoded(['amount', '5'], ['sender', 'a']), [['x', '']])).toBe('plain')
    expect(judged(encoded(['amount', '5']), [['dGVzdA==', 'dGVzdB==']])).toBe('plain')
  })
})

it('one strange key turns no answer of a node that encodes', () => {
  const strange: Pair[] = [[base64(Uint8Array.of(0xff, 0x00)), base64('x')]]
  expect(encodingOf(answer(strange, encoded(['amount', '5'])), 'base64')).toBe('base64')
})

it('keys that decode to anything but names turn no answer of a node that writes plain', () => {
  expect(encodingOf(answer([['city', 'Rome']]), 'plain')).toBe('plain') // decodes to "r+r"
})

it('decodes to what PostgreSQL can hold', () => {
  const wire = { key: base64('k\u0000'), value: base64(Uint8Array.of(0x61, 0xff)), index: true }
  expect(decodeAttribute(wire, 'base64')).toEqual({ key: 'k\u{10F700}', value: 'a\u{10F7FF}' })
  expect(decodeAttribute({ key: 'dGVzdA==', value: null, index: false }, 'plain')).toEqual({
    key: 'dGVzdA==',
    value: null,
  })
})
