/**
 * Goal: what fills a gap is a write like any other: refused during a rewind or pause, fenced by the checkpoint's row, all
 * of it or nothing; and it leaves the checkpoint where it is.
 * Method: a chain written by hand whose config was changed, and pieces of its gap as a source would give them.
 */
import type { ChainOptions, EvmContractOptions } from '@lockstep/config'
import { height } from '@lockstep/domain'
import { pause, requestRewind, resume } from '@lockstep/rewind'
import {
  adoptConfig,
  type ChainWriter,
  type Database,
  type GapFill,
  readGaps,
  writeGap,
} from '@lockstep/store'
import { addressOf, TRANSFER_EVENT } from '@lockstep/testkit'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { requestOf } from '../protocol/chain-rewind.js'
import { CHAIN_TABLES, readEverything, readRows } from './read-rows.js'
import {
  ALPHA,
  at,
  block,
  chainOptions,
  event,
  steady,
  takeChain,
  withEvents,
  writeBlocks,
} from './written-chain.js'

const other: EvmContractOptions = { contract: 'other', addresses: [addressOf(9)], events: [TRANSFER_EVENT] }
const token: EvmContractOptions = { contract: 'token', addresses: [addressOf(8)], events: [TRANSFER_EVENT] }
const options = (...contracts: EvmContractOptions[]) =>
  chainOptions(ALPHA, { contracts, filterDigest: String(contracts.length) } as Partial<ChainOptions>)

let deployment: Deployment
let db: Database
let writer: ChainWriter
let filters: string[]

beforeEach(async () => {
  deployment = await createDeployment([options(token)])
  db = deployment.open()
  writer = await writeBlocks(db, await takeChain(db, ALPHA), [[0, 0], [1, 1, 'header'], ...steady(2, 9)])
  await adoptConfig(db, writer, options(token, other))
  filters = (await db.transaction((tx) => readGaps(tx, ALPHA))).map(({ filter }) => filter)
})
afterEach(() => deployment.drop())

/** Heights 0 to 3; the event of block 1 is what was missing. */
const fill = (branch: string = ALPHA): GapFill => ({
  piece: { from: height(0), to: height(3), filters },
  first: block(0, 0, { branch }),
  last: block(3, 3, { branch }),
  facts: [withEvents(block(1, 1, { branch }), event(4, { contract: 'other' }))],
  children: [{ contract: 'other', address: '0xc1', height: height(1), txIndex: 0, eventIndex: 4 }],
})

test('a piece is stored once, its block is a fact from now on, and the checkpoint stays', async () => {
  const checkpoint = await readEverything(deployment, ['checkpoint'])
  const filled = await writeGap(db, writer, fill())
  expect(filled).toMatchObject({
    outcome: 'filled',
    gaps: [{ from: 4, to: 9 }],
    children: [{ address: '0xc1' }],
  })
  expect(await readEverything(deployment, ['checkpoint'])).toEqual(checkpoint)
  expect(await readRows(deployment, 'select height::int from header where height = 1')).toEqual([])
  const stored = await readEverything(deployment, ['event', 'block', 'contract_registry'])
  expect(await writeGap(db, writer, fill())).toMatchObject({
    outcome: 'filled',
    gaps: [{ from: 4, to: 9 }],
    children: [],
  })
  expect(await readEverything(deployment, ['event', 'block', 'contract_registry'])).toEqual(stored)
})

test('during a pause, during a rewind, for a stranger and for another checkpoint nothing is stored', async () => {
  const before = await readEverything(deployment, [...CHAIN_TABLES, 'contract_registry'])
  await pause(db, { who: 'test', reason: null })
  await expect(writeGap(db, writer, fill())).rejects.toMatchObject({
    code: 'write_refused',
    because: 'pause',
  })
  await resume(db)
  const stranger = { ...writer, lease: { ...writer.lease, token: writer.lease.token + 1 } }
  await expect(writeGap(db, stranger, fill())).rejects.toMatchObject({ code: 'lease_lost' })
  await expect(writeGap(db, { ...writer, checkpoint: null }, fill())).rejects.toMatchObject({
    code: 'checkpoint_moved',
  })
  await requestRewind(db, requestOf(at(0)))
  await expect(writeGap(db, writer, fill())).rejects.toMatchObject({
    code: 'write_refused',
    because: 'rewind',
  })
  expect(await readEverything(deployment, [...CHAIN_TABLES, 'contract_registry'])).toEqual(before)
})

test('blocks that are not those that are stored, or that do not link to them, are named, and nothing is stored', async () => {
  const before = await readEverything(deployment, [...CHAIN_TABLES, 'contract_registry'])
  expect(await writeGap(db, writer, fill('B'))).toMatchObject({ outcome: 'disagrees', height: 0 })
  const within = { ...fill(), first: block(0, 0, { branch: ALPHA }), last: block(3, 3, { branch: 'B' }) }
  expect(await writeGap(db, writer, within)).toMatchObject({ outcome: 'disagrees', height: 2 })
  expect(await readEverything(deployment, [...CHAIN_TABLES, 'contract_registry'])).toEqual(before)
})
