/**
 * Goal: an argument that the config lists under `index` is found by an index through its view; indexes are made while
 * workers write, and none can make a write fail.
 * Method: thousands of hand-written events, plans as PostgreSQL explains them, and a write that stays open meanwhile.
 */
import type { ChainOptions, ContractQuery } from '@lockstep/config'
import type { EventFact } from '@lockstep/domain'
import {
  type ChainWriter,
  type Database,
  makeIndexes,
  makeTypedViews,
  registerChains,
  writeBatch,
} from '@lockstep/store'
import { cosmosChainOptions, TRANSFER_EVENT, waitUntil } from '@lockstep/testkit'
import { parseAbi, toEventSelector } from 'viem'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { OpenTransaction } from '../protocol/sessions.js'
import { readRows } from './read-rows.js'
import { ALPHA, batchOf, block, chainOptions, event, GAMMA, takeChain, withEvents } from './written-chain.js'

let deployment: Deployment
let db: Database

beforeEach(async () => {
  deployment = await createDeployment([chainOptions(ALPHA)])
  db = deployment.open()
})
afterEach(() => deployment.drop())

const query = (...index: string[]): ContractQuery => ({ contract: 'token', attributes: [], index })
const token = (...index: string[]): ChainOptions =>
  chainOptions(ALPHA, { queries: index.length ? [query(...index)] : [] })
const account = (n: number) => `0x${n.toString(16).padStart(40, '0')}`
const transfer = (index: number, given: Partial<EventFact> = {}) =>
  event(index, {
    args: { from: account(index % 500), to: account(index % 7), value: String(index) },
    raw: { topics: [toEventSelector(TRANSFER_EVENT)], data: '0x' },
    ...given,
  })

async function storeTransfers(count: number): Promise<ChainWriter> {
  const facts = Array.from({ length: count / 100 }, (_, h) =>
    withEvents(block(h, h), ...Array.from({ length: 100 }, (_, index) => transfer(h * 100 + index))),
  )
  const writer = await writeBatch(db, await takeChain(db, ALPHA), batchOf(facts))
  await readRows(deployment, 'analyze')
  return writer
}

const plan = async (sql: string): Promise<string> =>
  (await readRows<Record<string, string>>(deployment, `explain ${sql}`))
    .map((row) => row['QUERY PLAN'])
    .join('\n')
const indexNames = async () =>
  (
    await readRows<{ name: string }>(
      deployment,
      `select indexname as name from pg_indexes where schemaname = 'lockstep' and indexname like 'args%' order by 1`,
    )
  ).map(({ name }) => name)

test('a view is searched by the index that the config asks for, however the address is written', async () => {
  await makeTypedViews(db, 'indexed', [token('from', 'value')])
  await storeTransfers(20_000)
  const sql = `select * from indexed.token_transfer where "from" = indexed.address('${account(171).toUpperCase().replace('X', 'x')}')`
  expect(await plan(sql)).toContain('Seq Scan on event_alpha')
  const { made } = await makeIndexes(db, [token('from', 'value')])
  await readRows(deployment, 'analyze')
  expect(made).toEqual([
    expect.stringMatching(/^args_alpha_token_transfer_from_[0-9a-f]{8}$/),
    expect.stringMatching(/^args_alpha_token_transfer_value_[0-9a-f]{8}$/),
  ])
  const byFrom = await plan(sql)
  expect(byFrom).toContain('args_alpha_token_transfer_from')
  expect(byFrom).not.toContain('Seq Scan on event_alpha')
  expect(await readRows(deployment, sql)).toHaveLength(40)
  const latest = await plan(`${sql} order by height desc limit 5`)
  expect(latest).toMatch(/Index Scan Backward using args_alpha_token_transfer_from/)
  const byValue = await plan('select * from indexed.token_transfer where value between 100 and 120')
  expect(byValue).toContain('args_alpha_token_transfer_value')
  expect(byValue).not.toContain('Seq Scan on event_alpha')
})

test('indexes follow the config; making them again does nothing', async () => {
  const first = await makeIndexes(db, [token('from')])
  expect(first).toMatchObject({ made: [expect.stringContaining('from')], dropped: [] })
  expect(await makeIndexes(db, [token('from')])).toEqual({ made: [], dropped: [] })
  const second = await makeIndexes(db, [token('to')])
  expect(second).toEqual({ made: [expect.stringContaining('to')], dropped: first.made })
  expect((await makeIndexes(db, [])).dropped).toEqual(second.made)
  expect(await indexNames()).toEqual([])
})

test('an index of a person stays', async () => {
  await readRows(deployment, 'create index mine on event_alpha ((args ->> $$from$$))')
  await makeIndexes(db, [token('from')])
  await makeIndexes(db, [])
  const mine = await readRows(deployment, `select from pg_indexes where indexname = 'mine'`)
  expect(mine).toHaveLength(1)
})

test('writers go on while an index is made, also where it has to wait for one', async () => {
  const writer = await storeTransfers(100)
  const slow = await OpenTransaction.begin(deployment, 'lockstep:slow')
  await slow.query(`update event set contract = contract where chain = 'alpha' and height = 0`)
  const making = makeIndexes(db, [token('from')])
  await waitUntil('the index waits for the open write', async () => {
    const waiting = await readRows(
      deployment,
      `select from pg_stat_activity where query like 'create index concurrently%' and wait_event_type = 'Lock'`,
    )
    return waiting.length > 0
  })
  await writeBatch(deployment.open(), writer, batchOf([withEvents(block(1, 1), transfer(0))]))
  await slow.rollback()
  expect((await making).made).toHaveLength(1)
})

test('an index that was left half-made is made anew', async () => {
  const { made } = await makeIndexes(db, [token('from')])
  await readRows(
    deployment,
    `update pg_index set indisvalid = false where indexrelid = '${made[0]}'::regclass`,
  )
  expect(await makeIndexes(db, [token('from')])).toEqual({ made, dropped: [] })
})

test('two that make indexes at once wait for each other', async () => {
  const both = await Promise.all([
    makeIndexes(db, [token('from')]),
    makeIndexes(deployment.open(), [token('from')]),
  ])
  expect(both.map(({ made }) => made.length).sort()).toEqual([0, 1])
})

test('no value can make a write fail: texts of any length, and an argument of that name in another event', async () => {
  const events = parseAbi(['event Note(string from, bytes memo)', 'event Other(uint256 from)'])
  const options = chainOptions(ALPHA, {
    contracts: [{ contract: 'notes', addresses: null, events }],
    queries: [{ contract: 'notes', attributes: [], index: ['from', 'memo'] }],
  } as Partial<ChainOptions>)
  await makeTypedViews(db, 'indexed', [options])
  await makeIndexes(db, [options])
  const long = Array.from({ length: 20_000 }, (_, index) => String((index * 7919) % 10_007)).join('')
  const note = (index: number, name: number, args: EventFact['args']) =>
    event(index, {
      contract: 'notes',
      name: name === 0 ? 'Note' : 'Other',
      args,
      raw: { topics: [toEventSelector(events[name === 0 ? 0 : 1])], data: '0x' },
    })
  await writeBatch(
    db,
    await takeChain(db, ALPHA),
    batchOf([
      withEvents(
        block(0, 0),
        note(0, 0, { from: long, memo: `0x${'ab'.repeat(9000)}` }),
        note(1, 1, { from: '5' }),
        event(2, { contract: 'elsewhere', name: 'Other', args: { from: 'no number' } }),
      ),
    ]),
  )
  const found = await readRows(
    deployment,
    'select length("from") as length from indexed.notes_note where "from" = $1',
    [long],
  )
  expect(found).toEqual([{ length: long.length }])
})

test('Cosmos attributes that are listed are found by an index', async () => {
  const options = cosmosChainOptions({
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
    queries: [{ contract: 'registry', attributes: ['sender'], index: ['sender'] }],
  })
  await registerChains(db, [options])
  await makeTypedViews(db, 'indexed', [options])
  await makeIndexes(db, [options])
  const facts = Array.from({ length: 5000 }, (_, index) =>
    event(index, { contract: 'registry', name: 'wasm', args: { action: 'go', sender: `osmo${index}` } }),
  )
  await writeBatch(db, await takeChain(db, GAMMA), batchOf([withEvents(block(1, 1), ...facts)]))
  await readRows(deployment, 'analyze')
  const found = await plan(`select * from indexed.registry_wasm_go where sender = 'osmo4711'`)
  expect(found).toContain('args_gamma_registry_wasm_go_sender')
  expect(found).not.toContain('Seq Scan on event_gamma')
})
