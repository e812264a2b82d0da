/**
 * Goal: who has lost a chain, or believes another checkpoint than is true, changes nothing at all.
 * Method: holders that sleep past their lease while another one writes or rewinds, also where nothing is to be removed
 * and where a second rewind to the same time has begun meanwhile; every table is compared before and after.
 */
import { type ChainKey, CheckpointMovedError, LeaseLostError } from '@lockstep/domain'
import { requestRewind } from '@lockstep/rewind'
import { type ChainWriter, type Database, rollBack, stepDownTo, writeBatch } from '@lockstep/store'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { globalKeys, readEverything, readRows } from '../store/read-rows.js'
import {
  ALPHA,
  at,
  BETA,
  batchOf,
  block,
  chainOptions,
  event,
  steady,
  takeChain,
  withEvents,
  writeBlocks,
} from '../store/written-chain.js'
import { ownRow, requestOf, rewindChain } from './chain-rewind.js'
import { Gate } from './gate.js'

let deployment: Deployment
let sleeper: Database
let successor: Database
let asleep: ChainWriter

beforeEach(async () => {
  deployment = await createDeployment([chainOptions(ALPHA), chainOptions(BETA)])
  sleeper = deployment.open()
  successor = deployment.open()
  asleep = await writeBlocks(sleeper, await takeChain(sleeper, ALPHA), steady(0, 10))
})
afterEach(() => deployment.drop())

/** Its lease ends, as it does for one that sleeps. */
const endLease = (chain: ChainKey) =>
  readRows(deployment, `update lease set expires_at = clock_timestamp() where name = 'chain:' || $1`, [chain])

const takeOver = async (): Promise<ChainWriter> => {
  await endLease(ALPHA)
  return takeChain(successor, ALPHA)
}

/** Does it, sees it refused with that error, and every table as it was. */
async function changesNothing(what: () => Promise<unknown>, error: abstract new (...args: never) => Error) {
  const before = await readEverything(deployment)
  await expect(what()).rejects.toBeInstanceOf(error)
  expect(await readEverything(deployment)).toEqual(before)
}

const aboveTheCut = [
  ['rows go', 5],
  ['nothing goes', 100],
] as const

test.each(aboveTheCut)(
  'a chain rewind whose lease was taken over changes nothing, where %s',
  async (_, seconds) => {
    await takeOver()
    await requestRewind(successor, requestOf(at(seconds)))
    await changesNothing(() => rewindChain(sleeper, asleep), LeaseLostError)
  },
)

test.each(aboveTheCut)(
  'a chain rewind that believes another checkpoint changes nothing, where %s',
  async (_, seconds) => {
    const ahead = await writeBlocks(sleeper, asleep, [[11, 11]])
    await requestRewind(successor, requestOf(at(seconds)))
    await changesNothing(() => rewindChain(sleeper, asleep), CheckpointMovedError)
    await changesNothing(() => rewindChain(sleeper, { ...ahead, checkpoint: null }), CheckpointMovedError)
  },
)

test('the same height with another hash is another checkpoint', async () => {
  await requestRewind(successor, requestOf(at(5)))
  const { checkpoint } = asleep
  const forked = { ...asleep, checkpoint: checkpoint && { ...checkpoint, hash: '0xbadb10c0' as const } }
  await changesNothing(() => rewindChain(sleeper, forked), CheckpointMovedError)
})

test('another holder with the same token, or the same holder with an older one, is refused', async () => {
  await requestRewind(successor, requestOf(at(5)))
  const { lease } = asleep
  await changesNothing(
    () => rewindChain(sleeper, { ...asleep, lease: { ...lease, holder: 'another' } }),
    LeaseLostError,
  )
  await changesNothing(
    () => rewindChain(sleeper, { ...asleep, lease: { ...lease, token: lease.token - 1 } }),
    LeaseLostError,
  )
})

test.each(aboveTheCut)(
  'a sleeper that wakes after another has carried out its rewind changes nothing, where %s',
  async (_, seconds) => {
    await requestRewind(successor, requestOf(at(seconds)))
    const gate = new Gate()
    const part = rewindChain(sleeper, asleep, {
      onStep: (now) => (now === 'chain.cut_found' ? gate.pass() : undefined),
    })
    part.catch(() => {}) // looked at below
    await gate.reached
    await rewindChain(successor, await takeOver())
    await changesNothing(() => {
      gate.open()
      return part
    }, LeaseLostError)
  },
)

test.each(aboveTheCut)(
  'nor does it after a second rewind to the same time has begun meanwhile, where %s',
  async (_, seconds) => {
    await requestRewind(successor, requestOf(at(seconds)))
    const row = await ownRow(sleeper, ALPHA)
    const writer = (await rewindChain(successor, await takeOver())).writer
    await rewindChain(successor, await takeChain(successor, BETA))
    expect(await globalKeys(deployment)).toEqual(['epoch'])
    const again = await writeBlocks(successor, writer, seconds === 5 ? [[6, 6]] : [[11, 11]])
    await requestRewind(successor, requestOf(at(seconds)))
    await changesNothing(() => rewindChain(sleeper, asleep, { row }), LeaseLostError)
    // Not even with the lease of now: the row that it has read is of the first rewind.
    const before = await readEverything(deployment)
    expect(await rewindChain(successor, again, { row })).toMatchObject({ outcome: 'superseded' })
    expect(await readEverything(deployment)).toEqual(before)
  },
)

test('write, rollback and step down of a sleeper change nothing', async () => {
  const next = batchOf([withEvents(block(11, 11, { branch: 'alpha' }), event(0))])
  const { checkpoint } = asleep
  if (checkpoint === null) throw new Error('ten blocks were written')
  await takeOver()
  await changesNothing(() => writeBatch(sleeper, asleep, next), LeaseLostError)
  await changesNothing(() => rollBack(sleeper, { ...asleep, checkpoint }, null), LeaseLostError)
  await changesNothing(() => stepDownTo(sleeper, asleep, null), LeaseLostError)
})

test('a holder whose lease has ended but was taken by nobody may still finish: no other can have written', async () => {
  await requestRewind(successor, requestOf(at(5)))
  await endLease(ALPHA)
  expect(await rewindChain(sleeper, asleep)).toMatchObject({ outcome: 'done' })
})
