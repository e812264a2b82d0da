/**
 * Goal: requests that meet agree on one rewind to the earliest of their times, or are refused; none is lost, whenever
 * it comes. Method: requests at once by seed, and requests that meet a chain between finding its cut, deleting its own
 * row and committing, held there by step hooks.
 */
import { type ChainKey, RequestRefusedError } from '@lockstep/domain'
import { type RequestAnswer, type RewindStep, requestRewind } from '@lockstep/rewind'
import {
  type ChainWriter,
  type Database,
  putChainRewind,
  putCutHint,
  readRewind,
  readRewindState,
} from '@lockstep/store'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { globalKeys, readRows, storedHeights } from '../store/read-rows.js'
import {
  ALPHA,
  at,
  BETA,
  chainOptions,
  heightOf,
  steady,
  takeChain,
  writeBlocks,
} from '../store/written-chain.js'
import { ownRow, requestOf, rewindChain } from './chain-rewind.js'
import { randomFrom, seedOfRun } from './disorder.js'
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
    writers.set(chain, await writeBlocks(worker, await takeChain(worker, chain), steady(0, 20)))
})
afterEach(() => deployment.drop())

const writerOf = (chain: ChainKey): ChainWriter => writers.get(chain) as ChainWriter
const ask = (seconds: number, db = operator) => requestRewind(db, requestOf(at(seconds)))
const state = () => operator.transaction(readRewindState)

/** Carries out whatever is asked of a chain, again and again until nothing is. */
async function finish(chain: ChainKey): Promise<void> {
  while ((await state()).waitingFor.some((row) => row.chain === chain)) {
    writers.set(chain, (await rewindChain(worker, writerOf(chain))).writer)
  }
}

test('a request whose answer was lost is the same request when it is made again, also after its rewind has ended', async () => {
  const request = { ...requestOf(at(5)).request, id: '00000000-0000-4000-8000-000000000001' }
  const first = await requestRewind(operator, { request })
  expect(await requestRewind(operator, { request })).toEqual(first)
  for (const chain of [ALPHA, BETA]) await rewindChain(worker, writerOf(chain))
  expect(await requestRewind(operator, { request })).toEqual(first)
  expect((await worker.transaction(readRewindState)).lock).toBeNull()
  expect(await readRows(deployment, 'select id from rewind')).toEqual([{ id: request.id }])
})

test('many requests at once: one starts, equal ones join, earlier ones deepen, later ones are refused', async () => {
  const seed = seedOfRun()
  const random = randomFrom(seed)
  const operators = Array.from({ length: 4 }, () => deployment.open())
  for (let round = 0; round < 6; round++) {
    const times = Array.from({ length: 10 }, () => Math.floor(random() * 8) + 10)
    const settled = await Promise.allSettled(times.map((t, index) => ask(t, operators[index % 4])))
    const answers = settled.filter((each) => each.status === 'fulfilled').map((each) => each.value)
    const refused = settled.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
    const earliest = at(Math.min(...times))
    const { lock, waitingFor } = await state()
    expect({ seed, round, timestamp: lock?.timestamp }).toEqual({ seed, round, timestamp: earliest })
    expect(new Set(answers.map((answer) => answer.rewindId))).toEqual(new Set([lock?.rewindId]))
    expect(answers.filter((answer) => answer.outcome === 'started')).toHaveLength(1)
    expect(refused.every((error) => error instanceof RequestRefusedError)).toBe(true)
    for (const error of refused) expect(error.facts).toMatchObject({ rewindId: lock?.rewindId })
    expect(waitingFor.map((row) => row.timestamp)).toEqual([earliest, earliest])
    const deepened = answers.filter((answer: RequestAnswer) => answer.outcome === 'deepened').length
    expect(await operator.transaction((tx) => readRewind(tx, lock?.rewindId ?? ''))).toMatchObject({
      deepened,
      timestamp: earliest,
      finishedAt: null,
    })
    for (const chain of [ALPHA, BETA]) await finish(chain)
    expect(await globalKeys(deployment)).toEqual(['epoch'])
  }
})

test('the same time joins, an earlier one deepens the same rewind, a later one is refused by name', async () => {
  const started = await ask(15)
  const epoch = (await state()).epoch
  expect(await ask(15)).toEqual({ ...started, outcome: 'joined' })
  expect((await state()).epoch).toBe(epoch)
  expect(await ask(12)).toEqual({ rewindId: started.rewindId, timestamp: at(12), outcome: 'deepened' })
  expect((await state()).epoch).toBe(epoch + 1)
  await expect(ask(14)).rejects.toMatchObject({
    code: 'request_refused',
    message: `Rewind ${started.rewindId} to 2023-11-14T22:13:32Z is running; 2023-11-14T22:13:34Z is later.`,
  })
  expect((await state()).lock).toEqual({ rewindId: started.rewindId, timestamp: at(12) })
})

test('equal to the microsecond joins; one microsecond earlier deepens', async () => {
  await ask(15)
  expect(await requestRewind(operator, requestOf((at(15) - 1n) as never))).toMatchObject({
    outcome: 'deepened',
  })
})

test('an earlier request asks also chains that were done to go further', async () => {
  const { rewindId } = await ask(15)
  await finish(ALPHA)
  expect(await globalKeys(deployment)).toEqual(['epoch', 'rewind_lock', 'rewind_timestamp_beta'])
  expect(await ask(10)).toMatchObject({ outcome: 'deepened', rewindId })
  expect((await state()).waitingFor.map((row) => [row.chain, row.from])).toEqual([
    ['alpha', 11],
    ['beta', 11],
  ])
  for (const chain of [ALPHA, BETA]) await finish(chain)
  expect(await globalKeys(deployment)).toEqual(['epoch'])
  expect(await storedHeights(deployment, 'alpha')).toEqual(await storedHeights(deployment, 'beta'))
  const audit = await readRows(
    deployment,
    'select chain, checkpoint_before, from_height, cut, blocks_removed from rewind_chain order by 1',
  )
  expect(audit).toMatchObject([
    { chain: 'alpha', checkpoint_before: '20', from_height: '11', cut: '10', blocks_removed: '10' },
    { chain: 'beta', checkpoint_before: '20', from_height: '11', cut: '10', blocks_removed: '10' },
  ])
})

test.each<RewindStep>(['chain.noticed', 'chain.cut_found', 'chain.checkpoint_set', 'chain.removed'])(
  'deepened while a chain stands at %s: it begins again, and nothing of its first try stays',
  async (step) => {
    await ask(15)
    const gate = new Gate()
    const part = rewindChain(worker, writerOf(ALPHA), {
      onStep: (now) => (now === step ? gate.pass() : undefined),
    })
    await gate.reached
    const deepened = ask(10)
    await deepened
    gate.open()
    expect(await part).toMatchObject({ outcome: 'superseded', released: false, writer: writerOf(ALPHA) })
    expect(await storedHeights(deployment, 'alpha')).toHaveLength(21)
    expect(await readRows(deployment, 'select from rewind_chain')).toEqual([])
    for (const chain of [ALPHA, BETA]) await finish(chain)
    expect([heightOf(writerOf(ALPHA)), heightOf(writerOf(BETA))]).toEqual([10, 10])
    expect(await globalKeys(deployment)).toEqual(['epoch'])
  },
)

test.each<RewindStep>(['chain.lock_row_locked', 'chain.own_row_deleted'])(
  'an earlier request that meets a chain at %s waits for it, and gives its row back',
  async (step) => {
    const { rewindId } = await ask(15)
    const gate = new Gate()
    const part = rewindChain(worker, writerOf(ALPHA), {
      onStep: (now) => (now === step ? gate.pass() : undefined),
    })
    await gate.reached
    const deeper = ask(10)
    await waitsForLock(deployment, operator.holder)
    gate.open()
    writers.set(ALPHA, (await part).writer)
    expect(await deeper).toMatchObject({ outcome: 'deepened', rewindId })
    expect((await ownRow(operator, ALPHA)).from).toBe(11)
    for (const chain of [ALPHA, BETA]) await finish(chain)
    expect(await globalKeys(deployment)).toEqual(['epoch'])
  },
)

test.each([
  ['earlier', 10],
  ['equal', 15],
  ['later', 18],
])(
  'a request to an %s time that waits while the last chain takes the lock away starts as a new one',
  async (_, seconds) => {
    const { rewindId } = await ask(15)
    await finish(BETA)
    const gate = new Gate()
    const part = rewindChain(worker, writerOf(ALPHA), {
      onStep: (now) => (now === 'chain.released' ? gate.pass() : undefined),
    })
    await gate.reached
    const next = ask(seconds)
    await waitsForLock(deployment, operator.holder)
    gate.open()
    const last = await part
    writers.set(ALPHA, last.writer)
    expect(last.released).toBe(true)
    const answer = await next
    expect(answer.outcome).toBe('started')
    expect(answer.rewindId).not.toBe(rewindId)
    expect((await state()).waitingFor).toHaveLength(2)
    for (const chain of [ALPHA, BETA]) await finish(chain)
    expect(await globalKeys(deployment)).toEqual(['epoch'])
  },
)

test('the generation rises with each request, also where the row was gone, and not with a hint', async () => {
  await ask(15)
  const first = await ownRow(operator, ALPHA)
  const hint = { height: writerOf(ALPHA).checkpoint?.height as never, hash: '0xab' as const, time: at(14) }
  expect(await operator.transaction((tx) => putCutHint(tx, first, hint))).toBe(true)
  expect(await ownRow(operator, ALPHA)).toEqual({ ...first, cutHint: hint })
  await finish(ALPHA)
  await ask(10)
  const second = await ownRow(operator, ALPHA)
  expect(second.generation).toBeGreaterThan(first.generation)
  expect(second.cutHint).toBeNull()
  expect(await operator.transaction((tx) => putCutHint(tx, first, hint))).toBe(false)
  for (const chain of [ALPHA, BETA]) await finish(chain)
  await ask(10)
  expect((await ownRow(operator, ALPHA)).generation).toBeGreaterThan(second.generation)
})

test('a row keeps the lowest height of all that joined', async () => {
  await ask(15)
  const row = await ownRow(operator, ALPHA)
  await operator.transaction((tx) => putChainRewind(tx, { ...row, from: 5 as never }))
  await ask(14)
  expect((await ownRow(operator, ALPHA)).from).toBe(5)
})
