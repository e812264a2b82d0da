/**
 * Goal: of chains that finish a rewind at the same moment, exactly one releases everybody, whatever the order.
 * Method: two processes' views on one PostgreSQL; both transactions are held open by step hooks and let go together,
 * or one of them is held where it has deleted its own row while the other runs into its lock. Order by seed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type RewindStep, requestRewind } from '@lockstep/rewind'
import type { ChainWriter, Database } from '@lockstep/store'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { globalKeys, readRows, storedHeights } from '../store/read-rows.js'
import { ALPHA, at, BETA, chainOptions, steady, takeChain, writeBlocks } from '../store/written-chain.js'
import { requestOf, rewindChain } from './chain-rewind.js'
import { randomFrom, seedOfRun } from './disorder.js'
import { Gate } from './gate.js'
import { waitsForLock } from './sessions.js'

const seed = seedOfRun()
const random = randomFrom(seed)
let deployment: Deployment
let first: Database
let second: Database
let alpha: ChainWriter
let beta: ChainWriter

beforeAll(async () => {
  deployment = await createDeployment([chainOptions(ALPHA), chainOptions(BETA)])
  first = deployment.open()
  second = deployment.open()
  alpha = await writeBlocks(first, await takeChain(first, ALPHA), steady(0, 60))
  beta = await writeBlocks(second, await takeChain(second, BETA), steady(0, 60))
})
afterAll(() => deployment?.drop())

/** Takes part, and stands at `step` inside its transaction until `gate` opens. */
const heldAt = (db: Database, writer: ChainWriter, step: RewindStep, gate: Gate) =>
  rewindChain(db, writer, { onStep: (now) => (now === step ? gate.pass() : undefined) })

const expectReleased = async (round: number, released: readonly boolean[]) => {
  expect({ seed, round, released: released.filter(Boolean).length }).toEqual({ seed, round, released: 1 })
  expect(await globalKeys(deployment)).toEqual(['epoch'])
  const open = await readRows(deployment, 'select from rewind where finished_at is null')
  expect(open).toEqual([])
}

test('two chains that have removed their rows and go on together: one of them releases, in 50 rounds', async () => {
  for (let round = 1; round <= 50; round++) {
    await requestRewind(first, requestOf(at(60 - round)))
    const gates = [new Gate(), new Gate()] as const
    const parts = [
      heldAt(first, alpha, 'chain.removed', gates[0]),
      heldAt(second, beta, 'chain.removed', gates[1]),
    ] as const
    await Promise.all(gates.map((gate) => gate.reached))
    const order = random() < 0.5 ? gates : [gates[1], gates[0]]
    order[0]?.open()
    if (random() < 0.5) await sleep(random() * 4)
    order[1]?.open()
    const [a, b] = await Promise.all(parts)
    alpha = a.writer
    beta = b.writer
    await expectReleased(round, [a.released, b.released])
  }
  expect(await storedHeights(deployment, 'alpha')).toEqual(steady(0, 10).map(([h]) => h))
  expect(await storedHeights(deployment, 'beta')).toEqual(steady(0, 10).map(([h]) => h))
})

test('one has deleted its row and not committed while the other comes to the lock: the other releases', async () => {
  for (let round = 1; round <= 10; round++) {
    const { rewindId } = await requestRewind(first, requestOf(at(10 - round)))
    const [early, late] = random() < 0.5 ? (['alpha', 'beta'] as const) : (['beta', 'alpha'] as const)
    const side = { alpha: { db: first, writer: alpha }, beta: { db: second, writer: beta } }
    const gate = new Gate()
    const earlyPart = heldAt(side[early].db, side[early].writer, 'chain.own_row_deleted', gate)
    await gate.reached
    const latePart = rewindChain(side[late].db, side[late].writer)
    await waitsForLock(deployment, side[late].db.holder)
    expect(await globalKeys(deployment)).toContain('rewind_lock') // nothing is committed yet
    gate.open()
    const parts = { [early]: await earlyPart, [late]: await latePart }
    expect({ seed, round, late: parts[late]?.released }).toEqual({ seed, round, late: true })
    await expectReleased(
      round,
      Object.values(parts).map((part) => part.released),
    )
    alpha = parts.alpha?.writer ?? alpha
    beta = parts.beta?.writer ?? beta
    const done = await readRows(deployment, 'select chain from rewind_chain where rewind_id = $1', [rewindId])
    expect(done).toHaveLength(2)
  }
})
