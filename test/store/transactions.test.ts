/**
 * Goal: transactions are facts as events are: stored with their block, the same one twice is one row, another content
 * stops the chain with both kept, also after a restart; and they go with their blocks.
 * Method: hand-written blocks with transactions, on a real PostgreSQL.
 */
import { type ChainKey, ConflictingObservationError, height, type TransactionFact } from '@lockstep/domain'
import { requestRewind } from '@lockstep/rewind'
import {
  type ChainWriter,
  compareStored,
  type Database,
  digestChain,
  rollBack,
  writeBatch,
} from '@lockstep/store'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { rewindChain } from '../protocol/chain-rewind.js'
import { readRows } from './read-rows.js'
import {
  ALPHA,
  at,
  BETA,
  batchOf,
  block,
  chainOptions,
  event,
  hashOf,
  takeChain,
  withEvents,
} from './written-chain.js'

let deployment: Deployment
let db: Database
beforeEach(async () => {
  deployment = await createDeployment([chainOptions(ALPHA), chainOptions(BETA)])
  db = deployment.open()
})
afterEach(() => deployment.drop())

const transaction = (given: Partial<TransactionFact> = {}): TransactionFact => ({
  txIndex: 0,
  txHash: hashOf('transaction 0'),
  success: true,
  code: null,
  from: `0x${'0a'.repeat(20)}`,
  to: null,
  value: '0',
  gasWanted: '21000',
  gasUsed: '21000',
  fee: null,
  memo: null,
  ...given,
})
const blockWith = (h: number, ...transactions: TransactionFact[]) => ({
  ...withEvents(block(h, h), event(0)),
  transactions,
})
const rows = (sql: string) => readRows(deployment, sql)
const store = (writer: ChainWriter, ...transactions: TransactionFact[]) =>
  writeBatch(db, writer, batchOf([blockWith(1, ...transactions)]))
/** The same chain, and a checkpoint as if the write had never been. */
async function asBefore(chain: ChainKey): Promise<ChainWriter> {
  await rows(`update checkpoint set height = null, hash = null, block_time = null where chain = '${chain}'`)
  const restarted = deployment.open()
  await rows(`update lease set expires_at = clock_timestamp() where name = 'chain:${chain}'`)
  return takeChain(restarted, chain)
}

test('numbers beyond 64 bits are exact, and each column holds what the chain said', async () => {
  const value = (2n ** 256n - 1n).toString()
  const fee = [{ denom: 'uosmo', amount: '2500' }]
  await store(
    await takeChain(db, ALPHA),
    transaction({ value, gasWanted: '18446744073709551616' }),
    transaction({
      txIndex: 1,
      txHash: hashOf('b'),
      success: false,
      code: 4_294_967_295,
      from: null,
      value: null,
      fee,
      memo: 'hi',
    }),
  )
  expect(await rows('select * from indexed.transactions order by tx_index')).toMatchObject([
    {
      chain: 'alpha',
      height: '1',
      success: true,
      code: null,
      value,
      gas_wanted: '18446744073709551616',
      memo: null,
    },
    { success: false, code: '4294967295', from_address: null, value: null, fee, memo: 'hi' },
  ])
  expect(await rows(`select (value + 1)::text as next from indexed.transactions where tx_index = 0`)).toEqual(
    [{ next: (2n ** 256n).toString() }],
  )
})

test('the same transaction twice is one row, also by another process', async () => {
  await store(await takeChain(db, ALPHA), transaction())
  await store(await asBefore(ALPHA), transaction())
  expect(await rows('select from transaction')).toHaveLength(1)
})

test('another content after a restart is refused, both are kept, and nothing is overwritten', async () => {
  await store(await takeChain(db, ALPHA), transaction())
  const refused = store(await asBefore(ALPHA), transaction({ gasUsed: '20999' }))
  await expect(refused).rejects.toBeInstanceOf(ConflictingObservationError)
  await expect(refused).rejects.toThrow(
    'Chain alpha: transaction 0 in block 1 was stored with another content than the node now gives for the same block hash.',
  )
  expect(await rows('select gas_used::text from transaction')).toEqual([{ gas_used: '21000' }])
  expect(
    await rows(`select tx_index, event_index, stored ->> 'gas_used' as stored, observed ->> 'gas_used' as observed,
      tx_hash from event_conflict`),
  ).toEqual([
    {
      tx_index: 0,
      event_index: null,
      stored: '21000',
      observed: '20999',
      tx_hash: Buffer.from(hashOf('transaction 0').slice(2), 'hex'),
    },
  ])
  expect(await rows('select height from checkpoint where chain = $$alpha$$')).toEqual([{ height: null }])
})

test('a value that is written in another way is the same', async () => {
  await store(await takeChain(db, ALPHA), transaction({ value: '7', fee: [{ denom: 'a', amount: '1' }] }))
  await store(await asBefore(ALPHA), transaction({ value: '7', fee: [{ amount: '1', denom: 'a' }] }))
  expect(await rows('select from event_conflict')).toEqual([])
})

test('a rollback takes them with their blocks', async () => {
  let writer = await store(await takeChain(db, ALPHA), transaction())
  writer = await writeBatch(db, writer, batchOf([blockWith(2, transaction({ txHash: hashOf('2') }))]))
  if (writer.checkpoint === null) throw new Error('a write leaves a checkpoint')
  await rollBack(db, { ...writer, checkpoint: writer.checkpoint }, block(1, 1))
  expect(await rows('select height from transaction')).toEqual([{ height: '1' }])
})

test('a rewind hides them at its request, and takes them', async () => {
  const alpha = await store(await takeChain(db, ALPHA), transaction())
  const beta = await takeChain(db, BETA)
  await requestRewind(db, { request: { timestamp: at(0), reason: null, who: 'me' } })
  expect(await rows('select from indexed.transactions')).toEqual([])
  expect(await rows('select from transaction')).toHaveLength(1)
  await rewindChain(db, alpha)
  await rewindChain(db, beta)
  expect(await rows('select from transaction')).toEqual([])
})

test('digests and comparisons see them', async () => {
  await store(await takeChain(db, ALPHA), transaction())
  const [, , digest] = await digestChain(db, ALPHA, height(1))
  expect(digest).toMatchObject({ table: 'transaction', rows: 1 })
  const compare = (...transactions: TransactionFact[]) =>
    db.transaction((tx) =>
      compareStored(tx, ALPHA, { from: height(1), to: height(1) }, [blockWith(1, ...transactions)]),
    )
  expect((await compare(transaction())).differences).toEqual([])
  expect((await compare()).differences).toMatchObject([{ table: 'transaction', side: 'surplus', height: 1 }])
  expect((await compare(transaction({ success: null }))).differences).toMatchObject([
    { table: 'transaction', side: 'missing' },
    { table: 'transaction', side: 'surplus' },
  ])
  await rows('update transaction set memo = $$x$$')
  expect((await digestChain(db, ALPHA, height(1)))[2]?.digest).not.toBe(digest?.digest)
})

test('an event of another content is refused after a restart as well', async () => {
  await store(await takeChain(db, ALPHA), transaction())
  const writer = await asBefore(ALPHA)
  const other = {
    ...withEvents(block(1, 1), event(0, { args: null, undecoded: 'x' })),
    transactions: [transaction()],
  }
  await expect(writeBatch(db, writer, batchOf([other]))).rejects.toMatchObject({
    code: 'conflicting_observation',
  })
  expect(await rows(`select event_index, observed ->> 'undecoded' as observed from event_conflict`)).toEqual([
    { event_index: 0, observed: 'x' },
  ])
})
