/**
 * Goal: a worker that sleeps past its lease in the middle of its rewind does nothing more when it wakes: it commits,
 * deletes and releases nothing. Method: the worker of `alpha` freezes itself (SIGSTOP) at a step, another process
 * takes its chain over and finishes the rewind; then the sleeper goes on, and all tables are compared with those from
 * before, and with a fresh index.
 */
import type { RewindStep } from '@lockstep/rewind'
import { type Program, waitUntil } from '@lockstep/testkit'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Project } from './kit/project.js'
import { type StaticChains, startStaticChains } from './kit/static-chains.js'

let world: StaticChains
let project: Project
/** The workers of the chains that nothing happens to. */
let others: Program[]

beforeAll(async () => {
  world = await startStaticChains()
  project = await Project.create(world.chains, {
    settings: {
      lease: { time: '6s' },
      rewind: { pollInterval: '300ms', searchTimeout: '5s', writeTimeout: '3s', takeOverAfter: '1h' },
    },
  })
  await project.succeed(['migrate'])
  others = await Promise.all(['beta', 'gamma'].map((chain) => project.worker(chain)))
  const alpha = await project.worker('alpha')
  await project.reached(world.heads)
  await project.indexAfresh()
  await alpha.stop()
})

afterEach(() => project.stopAll(others))

afterAll(async () => {
  await project?.close()
  await world?.stop()
})

/** What workers write of themselves all the time. */
const RESTLESS = ['lease', 'chain_status']

const freeLease = () =>
  waitUntil('the end of the sleeper’s lease', async () => {
    return (await project.count(`lease where name = 'chain:alpha' and expires_at > clock_timestamp()`)) === 0
  })

const requestRewind = () =>
  project.succeed(['rewind', '--to', world.moment, '--yes', '--detach', '--force', 'no-worker'])

/** A worker of `alpha`, at its head, that then sleeps at the step of its rewind. */
async function sleeperAt(step: RewindStep): Promise<Program> {
  const sleeper = await project.worker('alpha', { env: { LOCKSTEP_FAULT: `stop@${step}` } })
  await waitUntil(
    'alpha live',
    async () => (await project.count(`chain_status where chain = 'alpha' and phase = 'live'`)) === 1,
  )
  await requestRewind()
  await sleeper.said(step === 'chain.noticed' ? /chain rewind began/ : /cut was found/)
  await freeLease()
  return sleeper
}

/** It leaves by itself, with a sentence. */
async function wake(sleeper: Program): Promise<void> {
  sleeper.kill('SIGCONT')
  const { code, stderr } = await sleeper.ended()
  expect(code).toBe(1)
  expect(stderr).toMatch(/^lockstep: (The lease "chain:alpha" is no longer ours|The database at )/)
  expect(stderr).not.toMatch(/\n\s+at /)
}

test.each<RewindStep>([
  'chain.noticed',
  'chain.cut_found',
  'chain.removed',
  'chain.own_row_deleted',
  'chain.committed',
])('asleep at %s', async (step) => {
  const sleeper = await sleeperAt(step)
  const successor = await project.worker('alpha')
  await project.released()
  await project.reached(world.heads)
  const before = await project.dump(RESTLESS)
  await wake(sleeper)
  expect(await project.dump(RESTLESS)).toEqual(before)
  expect((await project.compareWithFresh()).differences).toEqual([])
  expect((await successor.stop()).code).toBe(0)
})

test('awake while its successor is about to do the same: only the holder of the lease may', async () => {
  const sleeper = await sleeperAt('chain.cut_found')
  const successor = await project.worker('alpha', { env: { LOCKSTEP_FAULT: 'stop@chain.noticed' } })
  await successor.said(/chain rewind began/)
  const before = await project.dump(RESTLESS)
  await wake(sleeper)
  expect(await project.dump(RESTLESS)).toEqual(before)
  await successor.stop()

  const last = await project.worker('alpha')
  await project.released()
  await project.reached(world.heads)
  expect((await project.compareWithFresh()).differences).toEqual([])
  await last.stop()
})

test('asleep through its own rewind, and awake in the next one: that is not its own', async () => {
  const sleeper = await sleeperAt('chain.cut_found')
  const successor = await project.worker('alpha')
  await project.released()
  await project.reached(world.heads)
  await successor.stop()
  await requestRewind()
  const alone = () => project.count(`_global where starts_with(key, 'rewind_timestamp_')`)
  await waitUntil('alpha is the last', async () => (await alone()) === 1)

  const before = await project.dump(RESTLESS)
  await wake(sleeper)
  expect(await project.dump(RESTLESS)).toEqual(before)
  expect(await alone()).toBe(1)

  const last = await project.worker('alpha')
  await project.released()
  await project.reached(world.heads)
  expect((await project.compareWithFresh()).differences).toEqual([])
  await last.stop()
})
