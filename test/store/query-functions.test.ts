/**
 * Goal: the functions of the read schema give what columns hold, refuse what is no address, and may be called by a reader
 * who is not let into the tables.
 * Method: calls on a real PostgreSQL, beside the rule's own code.
 */
import { bytesOfText, storableTextOf } from '@lockstep/domain'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { readRows } from './read-rows.js'
import { ALPHA, chainOptions } from './written-chain.js'

let deployment: Deployment
beforeAll(async () => {
  deployment = await createDeployment([chainOptions(ALPHA)])
})
afterAll(() => deployment.drop())

const call = async (expression: string, values: readonly unknown[] = []) =>
  (await readRows(deployment, `select ${expression} as result`, values))[0]?.result

test('an address in any case is given in lower case, and null as null', async () => {
  expect(await call(`indexed.address('0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48')`)).toBe(
    '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48',
  )
  expect(await call('indexed.address($1)', [`0x${'AB'.repeat(20)}`])).toBe(`0x${'ab'.repeat(20)}`)
  expect(await call('indexed.address(null)')).toBeNull()
})

test.each([
  '',
  '0x',
  '0x12',
  'ab'.repeat(20),
  `0X${'ab'.repeat(20)}`,
  `0x${'ab'.repeat(19)}ag`,
  `0x${'ab'.repeat(20)}\n`,
  ` 0x${'ab'.repeat(20)}`,
  'osmo1sq7r25u96mqf2np604570kezat6argnls8625d',
])('what is no address is refused: %j', async (text) => {
  await expect(call('indexed.address($1)', [text])).rejects.toMatchObject({
    code: '22023',
    message: `"${text}" is no address.`,
    hint: 'An address is 0x and 40 hex digits, in any case.',
  })
})

test('it is inlined where it is called with a column', async () => {
  const rows = await readRows<Record<string, string>>(
    deployment,
    `explain verbose select from lockstep.event where indexed.address(address) = 'x'`,
  )
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
  expect(plan).toContain('lower(')
  expect(plan).not.toContain('indexed.address(')
})

test.each([
  ['an ordinary text', Buffer.from('grüße €😀')],
  ['nothing', Buffer.alloc(0)],
  ['a zero byte', Buffer.from('a\0b')],
  ['bytes that are no UTF-8', Buffer.from([0xff, 0x41, 0xc3, 0x28, 0xf0, 0x9f])],
  ['a character of the plane that the rule uses', Buffer.from('\u{10F7FF}\u{10F700}')],
  ['every byte', Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))],
])('text_bytes gives the bytes back: %s', async (_, bytes) => {
  const text = storableTextOf(bytes)
  expect(Buffer.from(bytesOfText(text))).toEqual(bytes)
  expect(await call('indexed.text_bytes($1)', [text])).toEqual(bytes)
})

test('a reader with rights on the read schema alone may call them', async () => {
  await readRows(
    deployment,
    `create role plain_reader login password 'pw'; grant usage on schema indexed to plain_reader`,
  )
  const { host, pathname } = new URL(deployment.url)
  const reader = { url: `postgres://plain_reader:pw@${host}${pathname}`, schema: 'indexed' }
  try {
    const [row] = await readRows(reader, `select address($1) as a, text_bytes('x') as b`, [
      `0x${'AB'.repeat(20)}`,
    ])
    expect(row).toEqual({ a: `0x${'ab'.repeat(20)}`, b: Buffer.from('x') })
    await expect(readRows(reader, `select address('x')`)).rejects.toThrow('"x" is no address.')
  } finally {
    await readRows(deployment, 'drop owned by plain_reader; drop role plain_reader')
  }
})
