/**
 * Goal: a rewind is cancelled wholly or not at all, whatever a chain is doing at that moment; pauses come and go only
 * with who set them. Method: chains held inside their transaction by step hooks while the cancel runs into them.
 */
import type { ChainKey, TimeUs } from '@lockstep/domain'
import { cancelRewind, requestRewind } from '@lockstep/rewind'
import { type ChainWriter, type Database, putPause, readRewind } from '@lockstep/store'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { CHAIN_TABLES, globalKeys, readEverything } from '../store/read-rows.js'
import { ALPHA, at, BETA, chainOptions, steady, takeChain, writeBlocks } from '../store/written-chain.js'
import { requestOf, rewindChain } from './chain-rewind.js'
import { Gate } from './gate.js'
import { waitsForLock } from './sessions.js'

let deployment: Deployment
let worker: Database
let operator: Database
let writers: Map<ChainKey, ChainWriter>

beforeEach(async () => {
  deployment = await createDeployment([chainOptions(ALPHA), chainOptions(BETA)])
  worker = deployment.open()
  operator = deployment.open()
  writers = new Map()
  for (const chain of [ALPHA, BETA])
    writers.set(chain, await writeBlocks(worker, await takeChain(worker, chain), steady(0, 10)))
})
afterEach(() => deployment.drop())

const writerOf = (chain: ChainKey) => writers.get(chain) as ChainWriter
const facts = () => readEverything(deployment, CHAIN_TABLES)

test('cancelled while a chain has removed its rows and not come to the lock: the chain undoes, nothing is lost', async () => {
  const before = await facts()
  const { rewindId } = await requestRewind(operator, requestOf(at(5)))
  const gate = new Gate()
  const part = rewindChain(worker, writerOf(ALPHA), {
    onStep: (step) => (step === 'chain.removed' ? gate.pass() : undefined),
  })
  await gate.reached
  expect(await cancelRewind(operator)).toMatchObject({ rewindId })
  gate.open()
  expect(await part).toMatchObject({ outcome: 'superseded', released: false })
  expect(await facts()).toEqual(before)
  expect(await globalKeys(deployment)).toEqual(['epoch'])
  const audit = await operator.transaction((tx) => readRewind(tx, rewindId))
  expect(audit).toMatchObject({ finishedAt: null, cancelledAt: expect.any(BigInt) })
})

test('a cancel that meets a chain at the lock waits for it, and is refused since that chain has gone back', async () => {
  await requestRewind(operator, requestOf(at(5)))
  const gate = new Gate()
  const part = rewindChain(worker, writerOf(ALPHA), {
    onStep: (step) => (step === 'chain.own_row_deleted' ? gate.pass() : undefined),
  })
  await gate.reached
  const cancelling = cancelRewind(operator)
  const refused = expect(cancelling).rejects.toMatchObject({
    code: 'request_refused',
    message: expect.stringContaining('cannot be cancelled: a chain has gone back already'),
  })
  await waitsForLock(deployment, operator.holder)
  gate.open()
  await part
  await refused
  expect((await rewindChain(worker, writerOf(BETA))).released).toBe(true)
})

test('a chain that is done without having moved does not stand in the way', async () => {
  await requestRewind(operator, requestOf(at(100)))
  await rewindChain(worker, writerOf(ALPHA))
  await cancelRewind(operator)
  expect(await globalKeys(deployment)).toEqual(['epoch'])
  await expect(cancelRewind(operator)).rejects.toThrow('No rewind is running.')
})

test.each([
  ['before it takes part again', false],
  ['when the deepening has taken nothing more from it', true],
])('a chain that went back before a deepening stands in the way of a cancel %s', async (_, again) => {
  await requestRewind(operator, requestOf((at(5) + 2n) as TimeUs))
  const { writer } = await rewindChain(worker, writerOf(ALPHA))
  const { rewindId, outcome } = await requestRewind(operator, requestOf((at(5) + 1n) as TimeUs)) // no block lies between
  expect(outcome).toBe('deepened')
  if (again) await rewindChain(worker, writer)
  const left = await facts()
  await expect(cancelRewind(operator)).rejects.toThrow('cannot be cancelled: a chain has gone back already')
  expect(await facts()).toEqual(left)
  expect((await operator.transaction((tx) => readRewind(tx, rewindId)))?.cancelledAt).toBeNull()
})

test('a cancel takes the pause of its own rewind with it, and leaves one that was there', async () => {
  const holding = { request: { ...requestOf(at(100)).request, hold: true } }
  await requestRewind(operator, holding)
  expect(await globalKeys(deployment)).toContain('pause')
  await cancelRewind(operator)
  expect(await globalKeys(deployment)).toEqual(['epoch'])
  await operator.transaction((tx) => putPause(tx, { who: 'before', reason: null, rewindId: null }))
  await requestRewind(operator, holding)
  await cancelRewind(operator)
  expect(await globalKeys(deployment)).toEqual(['epoch', 'pause'])
})
