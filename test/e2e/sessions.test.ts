/**
 * Goal: a session that the server ends in the middle of a transaction leaves nothing of it, and the worker goes on by
 * itself. Method: real workers on simulated nodes; a write is held up by a table lock and a removal by a frozen worker,
 * and `pg_terminate_backend` ends their sessions there.
 */
import { waitUntil } from '@lockstep/testkit'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { keepAwake } from './kit/processes.js'
import { Project } from './kit/project.js'
import { momentAt, type SimulatedChains, startSimulatedChains } from './kit/simulated-chains.js'

const NAMES = ['alpha', 'beta', 'gamma'] as const

let world: SimulatedChains
let project: Project

beforeAll(async () => {
  world = await startSimulatedChains()
  project = await Project.create(world.chains, {
    settings: {
      lease: { time: '20s' }, // nobody loses one here, however busy the machine is
      rewind: { pollInterval: '300ms', searchTimeout: '5s', writeTimeout: '10s', takeOverAfter: '1h' },
    },
  })
  await project.succeed(['migrate'])
})

afterEach(() => project.stopAll())

afterAll(async () => {
  await project?.close()
  await world?.stop()
})

/** The session of a worker that stands like this in the middle of a transaction; null: none does. */
async function sessionIn(condition: string, not = 0): Promise<number | null> {
  const rows = await project.query<{ pid: number }>(
    `select pid from pg_stat_activity where application_name like 'lockstep:%' and datname = current_database()
       and xact_start is not null and pid <> $1 and ${condition}`,
    [not],
  )
  return rows[0]?.pid ?? null
}

const endSession = (pid: number) => project.query('select pg_terminate_backend($1)', [pid])

test('a session that the server ends in the middle of a write: nothing of it stays, and the worker goes on', async () => {
  const blocker = new pg.Client({ connectionString: project.database.url })
  await blocker.connect()
  try {
    await blocker.query('begin; lock table lockstep.event, lockstep.block in share mode')
    const worker = await project.worker('alpha')
    const pid = await waitUntil('a write that waits', () => sessionIn(`wait_event_type = 'Lock'`))
    await endSession(pid)
    await waitUntil('the write once more', () => sessionIn(`wait_event_type = 'Lock'`, pid))
    expect(await project.count(`checkpoint where chain = 'alpha' and height is not null`)).toBe(0)
    await blocker.query('rollback')
    for (const chain of ['beta', 'gamma']) await project.worker(chain)
    await project.reached(world.heads)
    expect(worker.result).toBeNull()
    const events = NAMES.reduce((sum, chain) => sum + world.eventsUpTo(chain, world.heads[chain]), 0)
    expect(await project.count('event')).toBe(events)
  } finally {
    await blocker.end()
  }
  await project.indexAfresh()
})

/** In the step at which the worker froze itself: after its last statement, the audit's. */
const ASLEEP = `state = 'idle in transaction' and query like '%rewind_chain%'`

test('a session that the server ends in the middle of a removal: it is undone, and done again', async () => {
  for (const chain of ['beta', 'gamma']) await project.worker(chain)
  const worker = await project.worker('alpha', { env: { LOCKSTEP_FAULT: 'stop@chain.removed' } })
  await project.succeed(['rewind', '--to', momentAt(150), '--yes', '--detach', '--force', 'no-worker'])
  await worker.said(/cut was found/)
  const pid = await waitUntil('the removal', () => sessionIn(ASLEEP))
  await endSession(pid)
  expect(await project.count(`event where chain = 'alpha'`)).toBe(
    world.eventsUpTo('alpha', world.heads.alpha),
  )
  expect(await project.count(`_global where key = 'rewind_timestamp_alpha'`)).toBe(1)
  await keepAwake(worker, project.released()) // the step is reached once more
  await project.reached(world.heads)
  expect((await project.compareWithFresh()).differences).toEqual([])
  expect(worker.result).toBeNull()
})

test('a session that the server ends under the command that asks for a rewind: it asks again, and follows to the end', async () => {
  const blocker = new pg.Client({ connectionString: project.database.url })
  await blocker.connect()
  try {
    await blocker.query('begin; lock table lockstep."_global" in access exclusive mode')
    const command = project.lockstep(['rewind', '--to', momentAt(140), '--yes', '--force', 'no-worker'])
    const pid = await waitUntil('the command that waits', () => sessionIn(`wait_event_type = 'Lock'`))
    await endSession(pid)
    await waitUntil('the command once more', () => sessionIn(`wait_event_type = 'Lock'`, pid))
    await blocker.query('rollback')
    expect(await command.ended()).toMatchObject({ code: 0, stderr: '' })
    expect(await project.count('rewind where finished_at is not null')).toBe(2)
  } finally {
    await blocker.end()
  }
})
