/**
 * Goal: each event of a config is a view with columns of its own types, exact for every number; views hide what goes in
 * a rewind; and they follow the config without taking away anything that somebody else made.
 * Method: hand-written facts on a real PostgreSQL; views made from changing configs, read by a stranger's connection.
 */
import type { ChainOptions, EvmContractOptions } from '@lockstep/config'
import { type EventFact, type Hex, NO_BYTES } from '@lockstep/domain'
import { requestRewind } from '@lockstep/rewind'
import {
  Database,
  findStaleViews,
  makeTypedViews,
  migrate,
  registerChains,
  writeBatch,
} from '@lockstep/store'
import { cosmosChainOptions } from '@lockstep/testkit'
import { type AbiEvent, encodeEventTopics, parseAbi, toEventSelector } from 'viem'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { readRows } from './read-rows.js'
import {
  ALPHA,
  at,
  BETA,
  batchOf,
  block,
  chainOptions,
  event,
  GAMMA,
  takeChain,
  withEvents,
} from './written-chain.js'

let deployment: Deployment
let db: Database

const contract = (name: string, ...signatures: string[]): EvmContractOptions => ({
  contract: name,
  addresses: null,
  events: (parseAbi(signatures) as readonly AbiEvent[]).filter(({ type }) => type === 'event'),
})
const evm = (chain: typeof ALPHA, ...contracts: EvmContractOptions[]): ChainOptions =>
  chainOptions(chain, { contracts } as Partial<ChainOptions>)
const TRANSFER = 'event Transfer(address indexed from, address indexed to, uint256 value)'
const TOKEN = contract('token', TRANSFER)

/** A decoded log of the contract's event `index`. */
function log(of: EvmContractOptions, index: number, given: Partial<EventFact>): EventFact {
  const abi = of.events[index] as AbiEvent
  return event(0, {
    contract: of.contract,
    name: abi.name,
    raw: { topics: [toEventSelector(abi)], data: NO_BYTES },
    ...given,
  })
}

beforeEach(async () => {
  deployment = await createDeployment([chainOptions(ALPHA), chainOptions(BETA)])
  db = deployment.open()
})
afterEach(() => deployment.drop())

const make = (...chains: ChainOptions[]) => makeTypedViews(db, 'indexed', chains)
const rows = (sql: string) => readRows(deployment, sql)
const viewNames = async () =>
  (await rows(`select viewname from pg_views where schemaname = 'indexed' order by viewname`)).map(
    ({ viewname }) => viewname,
  )

async function store(chain: typeof ALPHA, ...events: readonly EventFact[]): Promise<void> {
  await writeBatch(db, await takeChain(db, chain), batchOf([withEvents(block(1, 1), ...events)]))
}

test('columns hold what the event says, in types of their own, and say what they are', async () => {
  const odd = contract(
    'odd',
    'struct P { uint8 a; string b; }',
    'event E(uint256 big, int256 small, address who, bool yes, bytes32 word, bytes any, string text, P pair, uint256[] list)',
  )
  await make(evm(ALPHA, odd))
  const big = (2n ** 256n - 1n).toString()
  const small = (-(2n ** 255n)).toString()
  const args = {
    big,
    small,
    who: `0x${'ab'.repeat(20)}`,
    yes: true,
    word: `0x${'01'.repeat(32)}`,
    any: '0x',
    text: 'a\u{10F7FF}b',
    pair: { a: '1', b: 'x' },
    list: [big],
  }
  await store(ALPHA, log(odd, 0, { args }))
  const [row] = await rows(`select *, block_time::text as time from indexed.odd_e`)
  expect(row).toMatchObject({
    chain: 'alpha',
    height: '1',
    time: '2023-11-14 22:13:21+00',
    big,
    small,
    who: args.who,
    yes: true,
    word: Buffer.alloc(32, 1),
    any: Buffer.alloc(0),
    text: args.text,
    pair: args.pair,
    list: [big],
  })
  // Arithmetic beyond 64 bits, by the database.
  expect(
    await rows(
      `select (big + 1)::text as a, (small - 1)::text as b from indexed.odd_e where big = 2::numeric ^ 256 - 1`,
    ),
  ).toEqual([{ a: (2n ** 256n).toString(), b: (-(2n ** 255n) - 1n).toString() }])
  const comments = await rows(
    `select attname as name, col_description(attrelid, attnum) as comment from pg_attribute
     where attrelid = 'indexed.odd_e'::regclass order by attnum`,
  )
  expect(comments.filter(({ comment }) => comment === null)).toEqual([])
  expect(comments.find(({ name }) => name === 'big')?.comment).toContain('uint256 big, exact')
  const [view] = await rows(`select obj_description('indexed.odd_e'::regclass) as comment`)
  expect(view?.comment).toContain('Event E(uint256 big, int256 small, address who,')
  expect(view?.comment).toContain('of contract "odd" on alpha')
})

test('a reserved word is a column in quotes, and an address is compared in any case', async () => {
  await make(evm(ALPHA, TOKEN))
  await store(
    ALPHA,
    log(TOKEN, 0, { args: { from: `0x${'ab'.repeat(20)}`, to: `0x${'0b'.repeat(20)}`, value: '7' } }),
  )
  expect(
    await rows(
      `select "from", value from indexed.token_transfer where "from" = indexed.address('0x${'aB'.repeat(20)}')`,
    ),
  ).toEqual([{ from: `0x${'ab'.repeat(20)}`, value: '7' }])
})

test('events that do not fit are left out of the typed view and are in events with their reason', async () => {
  await make(evm(ALPHA, TOKEN))
  await store(ALPHA, log(TOKEN, 0, { args: null, undecoded: 'the data do not fit' }))
  expect(await rows('select from indexed.token_transfer')).toEqual([])
  expect(await rows('select undecoded from indexed.events')).toEqual([{ undecoded: 'the data do not fit' }])
})

test('a view holds its own event alone: not of another contract, chain, overload or topic count', async () => {
  const twins = contract(
    'token',
    TRANSFER,
    'event Transfer(address indexed from, address indexed to, uint256 indexed value)',
    'event Ping(uint256 a)',
    'event Ping(string a)',
  )
  await make(evm(ALPHA, twins))
  const topic = (index: number) => toEventSelector(twins.events[index] as AbiEvent)
  const account = `0x${'0a'.repeat(20)}` as const
  const coin = encodeEventTopics({ abi: parseAbi([TRANSFER]), args: { from: account, to: account } }) as Hex[]
  const args = { from: account, to: account, value: '1' }
  await store(
    ALPHA,
    log(twins, 0, { eventIndex: 0, args, raw: { topics: coin, data: NO_BYTES } }),
    log(twins, 1, {
      eventIndex: 1,
      args: { ...args, value: '2' },
      raw: { topics: [...coin, topic(0)], data: NO_BYTES },
    }),
    log(twins, 2, { eventIndex: 2, name: 'Ping(uint256)', args: { a: '3' } }),
    log(twins, 3, { eventIndex: 3, name: 'Ping(string)', args: { a: 'no number' } }),
    log(twins, 0, { eventIndex: 4, contract: 'other', args, raw: { topics: coin, data: NO_BYTES } }),
  )
  await store(BETA, log(twins, 0, { args, raw: { topics: coin, data: NO_BYTES } }))
  expect(await rows('select value from indexed.token_transfer_indexed_2')).toEqual([{ value: '1' }])
  expect(await rows('select value from indexed.token_transfer_indexed_3')).toEqual([{ value: '2' }])
  expect(await rows('select a from indexed.token_ping_uint256')).toEqual([{ a: '3' }])
  expect(await rows('select a from indexed.token_ping_string')).toEqual([{ a: 'no number' }])
})

test('one view over the chains that have the contract alike', async () => {
  await make(evm(ALPHA, TOKEN), evm(BETA, TOKEN))
  const args = { from: `0x${'0a'.repeat(20)}`, to: `0x${'0a'.repeat(20)}`, value: '1' }
  await store(ALPHA, log(TOKEN, 0, { args }))
  await store(BETA, log(TOKEN, 0, { args }))
  expect(await rows('select chain from indexed.token_transfer order by chain')).toEqual([
    { chain: 'alpha' },
    { chain: 'beta' },
  ])
})

test('Cosmos: attributes that the config lists are columns, and an action is found in a list too', async () => {
  const cosmos = cosmosChainOptions({
    rpc: ['http://127.0.0.1:9'],
    chain: GAMMA,
    contracts: [
      {
        contract: 'registry',
        address: null,
        failedTransactions: false,
        events: [{ type: 'wasm', action: 'go' }],
      },
    ],
    queries: [{ contract: 'registry', attributes: ["o'clock", 'amount'], index: [] }],
  })
  await registerChains(db, [cosmos])
  await make(cosmos)
  const wasm = (eventIndex: number, args: EventFact['args']) =>
    event(eventIndex, { contract: 'registry', name: 'wasm', args, raw: { topics: [], data: NO_BYTES } })
  await store(
    GAMMA,
    wasm(0, { action: 'go', "o'clock": '5', amount: ['1', '2'] }),
    wasm(1, { action: ['stop', 'go'] }),
    wasm(2, { action: 'stop' }),
    wasm(3, { action: 'go', _failed: { code: 5 } }),
  )
  expect(
    await rows(`select event_index, "o_clock", amount, failed from indexed.registry_wasm_go order by 1`),
  ).toEqual([
    { event_index: 0, o_clock: '5', amount: '["1", "2"]', failed: false },
    { event_index: 1, o_clock: null, amount: null, failed: false },
    { event_index: 3, o_clock: null, amount: null, failed: true },
  ])
})

test('from a rewind’s request on, a typed view hides what goes', async () => {
  await make(evm(ALPHA, TOKEN))
  await store(ALPHA, log(TOKEN, 0, { args: { from: null, to: null, value: '1' } }))
  expect(await rows('select from indexed.token_transfer')).toHaveLength(1)
  await requestRewind(db, { request: { timestamp: at(0), reason: null, who: 'me' } })
  expect(await rows('select from indexed.token_transfer')).toEqual([])
  expect(await rows('select from lockstep.event')).toHaveLength(1)
})

test('views follow the config: made, replaced and dropped, and nothing is done twice', async () => {
  expect(await make(evm(ALPHA, TOKEN))).toEqual({
    made: ['token_transfer'],
    replaced: [],
    dropped: [],
    left: [],
  })
  expect(await make(evm(ALPHA, TOKEN))).toEqual({ made: [], replaced: [], dropped: [], left: [] })
  await rows('create role reader_of_views; grant select on indexed.token_transfer to reader_of_views')
  try {
    const renamed = contract('token', TRANSFER.replace('value', 'amount'))
    expect((await make(evm(ALPHA, renamed))).replaced).toEqual(['token_transfer'])
    expect(
      await rows(`select has_table_privilege('reader_of_views', 'indexed.token_transfer', 'select') as may`),
    ).toEqual([{ may: true }])
    const other = contract('other', 'event Other()')
    expect(await make(evm(ALPHA, other))).toMatchObject({
      made: ['other_other'],
      dropped: ['token_transfer'],
    })
    expect(await viewNames()).toEqual([
      'blocks',
      'contracts',
      'events',
      'other_other',
      'status',
      'transactions',
    ])
  } finally {
    await rows('drop owned by reader_of_views; drop role reader_of_views')
  }
})

test('a view of ours that a person dropped is made again', async () => {
  await make(evm(ALPHA, TOKEN))
  await rows('drop view indexed.token_transfer')
  expect((await make(evm(ALPHA, TOKEN))).made).toEqual(['token_transfer'])
})

test('what a person built on a view is not taken away: the view stays as it was, and that is said', async () => {
  await make(evm(ALPHA, TOKEN))
  await rows('create view public.report as select value from indexed.token_transfer')
  const renamed = contract('token', TRANSFER.replace('value', 'amount'))
  expect(await make(evm(ALPHA, renamed))).toMatchObject({
    replaced: [],
    left: [{ view: 'token_transfer', because: expect.stringContaining('depends on view') }],
  })
  expect((await make(evm(ALPHA))).left).toEqual([
    { view: 'token_transfer', because: expect.stringMatching(/report depends on view/) },
  ])
  expect(await rows('select from public.report')).toEqual([])
  await rows('drop view public.report')
  expect(await make(evm(ALPHA, renamed))).toMatchObject({ replaced: ['token_transfer'], left: [] })
  expect(await rows('select amount from indexed.token_transfer')).toEqual([])
})

test('a relation of that name that somebody else made is left alone', async () => {
  await rows('create table indexed.token_transfer (mine int)')
  expect(await make(evm(ALPHA, TOKEN))).toMatchObject({
    made: [],
    left: [{ view: 'token_transfer', because: expect.stringContaining('was not made from the config') }],
  })
  expect(await rows('select mine from indexed.token_transfer')).toEqual([])
  await make()
  expect(await rows('select mine from indexed.token_transfer')).toEqual([])
})

test('which views are not as the config asks is told without a right to make them', async () => {
  expect(await findStaleViews(db, 'indexed', [evm(ALPHA, TOKEN)])).toEqual(['token_transfer'])
  expect(await findStaleViews(db, 'elsewhere', [evm(ALPHA, TOKEN)])).toEqual([
    'blocks',
    'events',
    'status',
    'transactions',
    'token_transfer',
  ])
  await make(evm(ALPHA, TOKEN))
  expect(await findStaleViews(db, 'indexed', [evm(ALPHA, TOKEN)])).toEqual([])
})

test('a read schema that another role owns is enough, where views may be made in it', async () => {
  const { pathname, host } = new URL(deployment.url)
  await rows(`
    create role views_owner login password 'pw';
    create schema tables_of_it authorization views_owner;
    create schema views_of_another;
    grant usage, create on schema views_of_another to views_owner`)
  const url = `postgres://views_owner:pw@${host}${pathname}`
  const settings = { url, schema: 'tables_of_it', holder: 'it', writeTimeoutMs: 5000, logger: db.logger }
  const other = new Database(settings)
  try {
    await migrate(other, 'views_of_another')
    await registerChains(other, [evm(ALPHA, TOKEN)])
    expect((await makeTypedViews(other, 'views_of_another', [evm(ALPHA, TOKEN)])).made).toEqual([
      'token_transfer',
    ])
    expect(await rows('select from views_of_another.token_transfer')).toEqual([])
  } finally {
    await other.close()
    await rows('drop owned by views_owner cascade; drop role views_owner')
  }
})
