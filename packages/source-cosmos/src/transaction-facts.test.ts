// What a transaction's bytes tell: bytes as cosmjs writes them, and bytes that are no transaction of the Cosmos SDK.
import { makeAuthInfoBytes, Registry } from '@cosmjs/proto-signing'
import { bytesOfText } from '@lockstep/domain'
import { describe, expect, it } from 'vitest'
import { transactionFact } from './transaction-facts.js'

const RESULT = { code: 0, gasWanted: '9223372036854775807', gasUsed: '61000', events: [] }
const COINS = [{ denom: 'uatom', amount: '340282366920938463463374607431768211455' }]

/** A field of protobuf that holds bytes. */
const field = (number: number, bytes: Uint8Array): Buffer => {
  const length = bytes.length < 128 ? [bytes.length] : [(bytes.length & 0x7f) | 0x80, bytes.length >> 7]
  return Buffer.concat([Buffer.of((number << 3) | 2, ...length), bytes])
}

const authInfo = () => Buffer.from(makeAuthInfoBytes([], COINS, 200_000, undefined, undefined))

const txOf = (body: Uint8Array, auth: Uint8Array = authInfo()) =>
  Buffer.concat([field(1, body), field(2, auth), field(3, Buffer.alloc(64))])

const withMemo = (memo: string) => txOf(new Registry().encodeTxBody({ messages: [], memo }))

const factOf = (bytes: Buffer, result = RESULT) => transactionFact(3, '0xab', bytes, result)

it('tells fee and memo, and of its result all numbers as they came', () => {
  expect(factOf(withMemo('hello'))).toEqual({
    txIndex: 3,
    txHash: '0xab',
    success: true,
    code: 0,
    from: null,
    to: null,
    value: null,
    gasWanted: '9223372036854775807',
    gasUsed: '61000',
    fee: COINS,
    memo: 'hello',
  })
  expect(factOf(withMemo(''), { ...RESULT, code: 11 })).toMatchObject({ success: false, code: 11, memo: '' })
})

describe('a memo', () => {
  it('with a zero byte can be stored, and gives its bytes back', () => {
    const memo = factOf(withMemo('a\u0000b')).memo
    expect(memo).toBe('a\u{10F700}b')
    expect(bytesOfText(memo ?? '')).toEqual(Buffer.from('a\u0000b'))
  })

  it('that is no UTF-8 gives its bytes back', () => {
    const bytes = Buffer.of(0xff, 0x41, 0xe2, 0x82)
    expect(bytesOfText(factOf(txOf(field(2, bytes))).memo ?? '')).toEqual(bytes)
  })
})

describe('bytes that are no transaction of the Cosmos SDK', () => {
  it.each<[string, Buffer]>([
    ['key=value', Buffer.from('colour=blue')],
    ['nothing', Buffer.alloc(0)],
    ['zeros', Buffer.alloc(40)],
    ['a transaction that was cut off', withMemo('hello').subarray(0, -1)],
    ['a transaction with more behind it', Buffer.concat([withMemo('hello'), Buffer.of(1)])],
    ['a transaction without a signature', Buffer.concat([field(1, Buffer.alloc(3)), field(2, authInfo())])],
    [
      'a transaction with a field that there is none of',
      Buffer.concat([withMemo('a'), field(15, Buffer.of(1))]),
    ],
    [
      'a transaction in another order',
      Buffer.concat([field(2, authInfo()), field(1, Buffer.alloc(0)), field(3, Buffer.alloc(64))]),
    ],
    ['a body that is no message', txOf(Buffer.of(0x0a, 0xff, 0xff, 0xff))],
    ['an AuthInfo without a fee', txOf(Buffer.alloc(0), Buffer.alloc(0))],
    ['an Ethereum transaction', Buffer.from('f86c808504a817c800825208943535353535353535353535', 'hex')],
  ])('%s: nulls, and a reason', (_, bytes) => {
    const { memo, fee, gasUsed } = factOf(bytes)
    expect([memo, gasUsed]).toEqual([null, '61000'])
    expect(fee).toEqual({ undecoded: expect.stringMatching(/.{10}/) })
  })

  it('are never a crash: random bytes, and transactions with random bytes changed', () => {
    let seed = 7
    const random = (below: number) => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
      return Math.floor((seed / 2 ** 32) * below)
    }
    const whole = withMemo('hello')
    for (let round = 0; round < 3000; round += 1) {
      const bytes = round % 2 === 0 ? Buffer.from(whole) : Buffer.alloc(random(80))
      for (let change = 0; change <= random(bytes.length); change += 1)
        bytes[random(bytes.length)] = random(256)
      const { fee, memo } = factOf(bytes)
      expect(Array.isArray(fee)).toBe(memo !== null)
    }
  })
})
