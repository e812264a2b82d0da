import { randomUUID } from 'node:crypto'
import {
  ConflictingObservationError,
  height,
  parseTime,
  storableJson,
  storableText,
  type TimeUs,
  TX_INDEX_BEGIN_BLOCK,
  TX_INDEX_END_BLOCK,
} from '@lockstep/domain'
import { requestRewind } from '@lockstep/rewind'
import {
  checkpointOf,
  Database,
  migrate,
  readBlockOfTransaction,
  readChain,
  readCheckpoint,
  readStoredBlock,
  registerChains,
  rollBack,
  writeBatch,
} from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { createTestDatabase, type TestDatabase } from '@lockstep/testkit'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { requestOf, rewindChain } from '../protocol/chain-rewind.js'
import { CHAIN_TABLES, globalKeys, readEverything, readRows, storedHeights } from './read-rows.js'
import {
  ALPHA,
  at,
  BETA,
  batchOf,
  block,
  chainOptions,
  event,
  hashOf,
  heightOf,
  steady,
  takeChain,
  withEvents,
  writeBlocks,
} from './written-chain.js'

/** What the store promises of facts, on the server that `adminUrl` gives; left out: the run's own. */
export function coreSuite(adminUrl?: () => string): void {
  let database: TestDatabase
  let place: { url: string; schema: string }
  let db: Database

  beforeEach(async () => {
    database = await createTestDatabase({
      template: fill,
      name: 'core',
      ...(adminUrl && { adminUrl: adminUrl(), templateKey: `core ${adminUrl()}` }),
    })
    place = { url: database.url, schema: 'lockstep' }
    db = open(database.url)
    await registerChains(db, [chainOptions(ALPHA), chainOptions(BETA)])
  })
  afterEach(async () => {
    await db.close()
    await database.drop()
  })

  const factsOnly = () => readEverything(place, CHAIN_TABLES)

  test('a write stores facts, headers, range and checkpoint, or nothing of them', async () => {
    const alpha = await takeChain(db, ALPHA)
    const range = { filter: 'f', from: height(0), to: height(3), planTo: height(9) }
    const written = await writeBatch(
      db,
      alpha,
      batchOf([withEvents(block(1, 1), event(0), event(1)), withEvents(block(2, 2))], {
        headers: [block(3, 3)],
        range,
      }),
    )
    expect(written.checkpoint).toEqual(checkpointOf(block(3, 3)))
    expect(await readRows(place, `select height, hash from checkpoint where chain = 'alpha'`)).toEqual([
      { height: '3', hash: Buffer.from(hashOf('A3').slice(2), 'hex') },
    ])
    expect(await readRows(place, 'select height from block order by 1')).toEqual([
      { height: '1' },
      { height: '2' },
    ])
    expect(await readRows(place, 'select height from header')).toEqual([{ height: '3' }])
    expect(await readRows(place, 'select height, event_index from event order by 2')).toEqual([
      { height: '1', event_index: 0 },
      { height: '1', event_index: 1 },
    ])
    expect(
      await readRows(place, 'select from_height, to_height, status from backfill_ranges order by 1'),
    ).toEqual([
      { from_height: '0', to_height: '3', status: 'done' },
      { from_height: '4', to_height: '9', status: 'pending' },
    ])
    const before = await readEverything(place)
    await expect(writeBatch(db, alpha, batchOf([withEvents(block(4, 4))]))).rejects.toMatchObject({
      code: 'checkpoint_moved',
    })
    expect(await readEverything(place)).toEqual(before)
  })

  test.each([
    [
      'pause',
      `insert into _global values ('pause', '{"who": "w", "since": "2026-01-01T00:00:00Z"}', now(), now())`,
    ],
    ['rewind', `insert into _global values ('rewind_lock', '{}', now(), now())`],
  ])('during a %s nothing is written or rolled back', async (because, sql) => {
    const alpha = await writeBlocks(db, await takeChain(db, ALPHA), steady(0, 2))
    const { checkpoint } = alpha
    if (checkpoint === null) throw new Error('three blocks were written')
    await readRows(place, sql)
    const before = await readEverything(place)
    await expect(writeBatch(db, alpha, batchOf([withEvents(block(3, 3))]))).rejects.toMatchObject({ because })
    await expect(rollBack(db, { ...alpha, checkpoint }, null)).rejects.toMatchObject({ because })
    expect(await readEverything(place)).toEqual(before)
  })

  test('the same observation twice is one row', async () => {
    const twice = withEvents(block(0, 0), event(0), event(0), event(1))
    const alpha = await writeBatch(db, await takeChain(db, ALPHA), batchOf([twice]))
    expect(await readRows(place, 'select event_index from event order by 1')).toHaveLength(2)
    // And once more, as after a checkpoint that went back without its facts.
    await readRows(
      place,
      `update checkpoint set height = null, hash = null, block_time = null where chain = 'alpha'`,
    )
    const before = await readEverything(place, ['block', 'event', 'header'])
    await writeBatch(db, { ...alpha, checkpoint: null }, batchOf([twice]))
    expect(await readEverything(place, ['block', 'event', 'header'])).toEqual(before)
  })

  test('the same identity with another content is refused; both are kept, and nothing is overwritten', async () => {
    const alpha = await writeBatch(
      db,
      await takeChain(db, ALPHA),
      batchOf([withEvents(block(0, 0), event(0, { args: { value: '1' } }))]),
    )
    await readRows(
      place,
      `update checkpoint set height = null, hash = null, block_time = null where chain = 'alpha'`,
    )
    const before = await factsOnly()
    const other = batchOf([
      withEvents(block(0, 0), event(0, { args: { value: '2' } })),
      withEvents(block(1, 1)),
    ])
    const conflict = writeBatch(db, { ...alpha, checkpoint: null }, other)
    await expect(conflict).rejects.toBeInstanceOf(ConflictingObservationError)
    expect(await factsOnly()).toEqual(before)
    expect(
      await readRows(
        place,
        `select chain, height, tx_hash, stored -> 'args' as stored, observed -> 'args' as observed from event_conflict`,
      ),
    ).toEqual([
      {
        chain: 'alpha',
        height: '0',
        tx_hash: Buffer.from(event(0).txHash.slice(2), 'hex'),
        stored: { value: '1' },
        observed: { value: '2' },
      },
    ])
  })

  test('two contents for one identity within one answer are a conflict as well', async () => {
    const both = withEvents(block(0, 0), event(0), event(0, { name: 'Approval' }))
    const writing = writeBatch(db, await takeChain(db, ALPHA), batchOf([both]))
    await expect(writing).rejects.toMatchObject({ code: 'conflicting_observation' })
    expect(await readRows(place, 'select from event')).toEqual([])
    expect(
      await readRows(place, `select stored ->> 'name' as a, observed ->> 'name' as b from event_conflict`),
    ).toEqual([{ a: 'Transfer', b: 'Approval' }])
  })

  test('event 0 of the begin block, of the end block and of a transaction are three events', async () => {
    const outside = { txHash: '0x', address: null } as const
    const all = withEvents(
      block(0, 0),
      event(0, { ...outside, txIndex: TX_INDEX_BEGIN_BLOCK, name: 'begin' }),
      event(0, { name: 'in a transaction' }),
      event(0, { ...outside, txIndex: TX_INDEX_END_BLOCK, name: 'end' }),
    )
    await writeBatch(db, await takeChain(db, ALPHA), batchOf([all]))
    const order = await readRows<{ name: string }>(
      place,
      'select name from event order by height, tx_index, event_index',
    )
    expect(order.map(({ name }) => name)).toEqual(['begin', 'in a transaction', 'end'])
  })

  test('the same transaction bytes twice in one block are two events', async () => {
    const txHash = hashOf('the same bytes')
    const all = withEvents(block(0, 0), event(0, { txIndex: 0, txHash }), event(0, { txIndex: 1, txHash }))
    await writeBatch(db, await takeChain(db, ALPHA), batchOf([all]))
    expect(await readRows(place, 'select tx_index from event order by 1')).toEqual([
      { tx_index: 0 },
      { tx_index: 1 },
    ])
    expect(
      await db.transaction((tx) => readBlockOfTransaction(tx, ALPHA, Buffer.from(txHash.slice(2), 'hex'))),
    ).toEqual(block(0, 0))
  })

  test('text, numbers and bytes come back as they were: quotes, braces, huge integers, what was no text', async () => {
    const strange = {
      amount: (2n ** 256n - 1n).toString(),
      quotes: `'"\\ {} , null \n\t\u{1f600} é`,
      nul: 'a\u0000b',
      lone: '\ud800',
      deep: [{ x: [null, true, 1.5, ''] }],
      '': 'empty key',
    }
    const data = '0x00ff7b22' as const
    const undecoded = event(1, { args: null, undecoded: `it doesn't fit`, raw: { topics: [], data } })
    const stored = storableJson(strange)
    const name = storableText('na\u0000me')
    await writeBatch(
      db,
      await takeChain(db, ALPHA),
      batchOf([withEvents(block(0, 0), event(0, { args: stored, name }), undecoded)]),
    )
    const rows = await readRows(
      place,
      'select name, args, data, undecoded, topic0 from event order by event_index',
    )
    expect(rows).toEqual([
      expect.objectContaining({ name, args: stored, undecoded: null }),
      {
        name: 'Transfer',
        args: null,
        undecoded: `it doesn't fit`,
        data: Buffer.from([0, 255, 0x7b, 0x22]),
        topic0: null,
      },
    ])
  })

  test('more events than fit into one statement are all stored', async () => {
    const events = Array.from({ length: 4500 }, (_, index) => event(index))
    await writeBatch(db, await takeChain(db, ALPHA), batchOf([withEvents(block(0, 0), ...events)]))
    expect(await readRows(place, 'select count(*)::int as n from event')).toEqual([{ n: 4500 }])
  })

  test('a time keeps its microseconds, from long ago to far ahead', async () => {
    const texts = [
      '1969-12-31T23:59:59.999999Z',
      '1970-01-01T00:00:00Z',
      '2023-11-14T22:13:20.000001Z',
      '2999-01-01T00:00:00.123456Z',
    ]
    let alpha = await takeChain(db, ALPHA)
    for (const [h, text] of texts.entries()) {
      const ref = { ...block(h, 0), time: parseTime(text) as TimeUs }
      alpha = await writeBatch(db, alpha, batchOf([withEvents(ref, event(0))]))
      expect(await db.transaction((tx) => readStoredBlock(tx, ALPHA, height(h)))).toEqual(ref)
    }
    expect((await takeBack(db, alpha)).time).toBe(parseTime(texts[3] ?? ''))
  })

  test('falling times are marked in the write that stores them: inside a batch, and against what is stored', async () => {
    const fell = async (chain: typeof ALPHA) =>
      (await db.transaction((tx) => readChain(tx, chain)))?.timesFell
    const alpha = await writeBlocks(db, await takeChain(db, ALPHA), [
      [0, 0],
      [1, 5],
      [2, 5],
    ])
    expect(await fell(ALPHA)).toBe(false) // equal is not below
    await writeBatch(db, alpha, batchOf([withEvents(block(3, 6)), withEvents(block(4, 5))]))
    expect(await fell(ALPHA)).toBe(true)
    await writeBlocks(db, await takeChain(db, BETA), [
      [0, 9, 'header'],
      [1, 8],
    ])
    expect(await fell(BETA)).toBe(true)
  })

  test('headers below finalized go, and those that a fork may need stay', async () => {
    let alpha = await takeChain(db, ALPHA)
    for (let h = 0; h <= 20; h++) {
      const finalized = h < 5 ? null : height(h - 5)
      alpha = await writeBatch(db, alpha, batchOf([], { headers: [block(h, h)], finalized }))
    }
    expect(await storedHeights(place, 'alpha')).toEqual([15, 16, 17, 18, 19, 20])
    await writeBatch(db, alpha, batchOf([], { headers: [block(21, 21)], finalized: height(900) }))
    expect(await storedHeights(place, 'alpha')).toEqual([21]) // the checkpoint's, whatever is finalized
  })

  test('forward and backward again gives exactly what was there before', async () => {
    const alpha = await writeBlocks(db, await takeChain(db, ALPHA), [
      [0, 0],
      [1, 1, 'header'],
      [2, 2],
    ])
    const before = await factsOnly()
    const ahead = await writeBlocks(db, alpha, [
      [3, 3],
      [4, 4, 'header'],
      [5, 5],
    ])
    const range = { filter: 'f', from: height(6), to: height(6), planTo: height(8) }
    const further = await writeBatch(
      db,
      ahead,
      batchOf([withEvents(block(6, 6, { branch: 'alpha' }), event(0))], { range }),
    )
    const back = await rollBack(
      db,
      further as Parameters<typeof rollBack>[1],
      block(2, 2, { branch: 'alpha' }),
    )
    expect(back.removed).toEqual({ blocks: 3, events: 3 })
    expect(back.writer).toEqual(alpha)
    expect(await factsOnly()).toEqual(before)
    const all = await rollBack(db, back.writer as Parameters<typeof rollBack>[1], null)
    expect(heightOf(all.writer)).toBeNull()
    expect(await readEverything(place, ['block', 'event', 'header', 'backfill_ranges'])).toEqual({
      block: [],
      event: [],
      header: [],
      backfill_ranges: [],
    })
  })

  test('a rollback touches no row of another chain', async () => {
    const alpha = await writeBlocks(db, await takeChain(db, ALPHA), steady(100, 110))
    await writeBlocks(db, await takeChain(db, BETA), steady(100, 110))
    const ofBeta = async () =>
      Object.entries(await readEverything(place)).map(([table, rows]) => [
        table,
        rows.filter((row) => row.includes('beta')),
      ])
    const before = await ofBeta()
    await rollBack(db, alpha as Parameters<typeof rollBack>[1], block(104, 104, { branch: 'alpha' }))
    expect(await ofBeta()).toEqual(before)
    expect(await storedHeights(place, 'alpha')).toEqual([100, 101, 102, 103, 104])
    expect(await storedHeights(place, 'beta')).toHaveLength(11)
  })

  test('a rewind of two chains, from request to release', async () => {
    const alpha = await writeBlocks(db, await takeChain(db, ALPHA), steady(0, 10))
    const beta = await writeBlocks(db, await takeChain(db, BETA), steady(0, 20, 0, 2))
    await requestRewind(db, requestOf(at(7)))
    expect((await rewindChain(db, alpha)).released).toBe(false)
    expect((await rewindChain(db, beta)).released).toBe(true)
    expect([await storedHeights(place, 'alpha'), await storedHeights(place, 'beta')]).toEqual([
      [0, 1, 2, 3, 4, 5, 6, 7],
      [0, 1, 2, 3],
    ])
    expect(await globalKeys(place)).toEqual(['epoch'])
  })
}

const open = (url: string): Database =>
  new Database({
    url,
    schema: 'lockstep',
    holder: randomUUID(),
    writeTimeoutMs: 5000,
    logger: silentLogger(),
  })

async function fill(url: string): Promise<void> {
  const db = open(url)
  await migrate(db, 'indexed')
  await db.close()
}

/** The checkpoint as the writer that comes next reads it. */
async function takeBack(db: Database, { chain, checkpoint }: Awaited<ReturnType<typeof takeChain>>) {
  const read = await db.transaction((tx) => readCheckpoint(tx, chain))
  expect(read).toEqual(checkpoint)
  if (read === null) throw new Error('blocks were written')
  return read
}
