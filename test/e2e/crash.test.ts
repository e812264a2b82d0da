/**
 * Goal: a worker that is killed with -9 before, in or after its rewind leaves nothing half done and nobody waiting for
 * ever. Method: three chains that stand still, one worker process each; the one of `alpha` dies at a step of its
 * rewind (`LOCKSTEP_FAULT`), is started again, and the tables are compared with a fresh
 * index after each.
 */
import { REWIND_STEPS, type RewindStep } from '@lockstep/rewind'
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
      lease: { time: '6s' }, // so long a successor waits for a dead worker's chain
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

const factsOf = (chain: string) =>
  project.query(
    `select 'event' as kind, height, event_index from event where chain = $1
     union all select 'block', height, 0 from block where chain = $1 order by 1, 2, 3`,
    [chain],
  )

const waitingFor = async () =>
  (
    await project.query<{ chain: string }>(
      `select substr(key, 18) as chain from _global where starts_with(key, 'rewind_timestamp_') order by 1`,
    )
  ).map(({ chain }) => chain)

const requestRewind = () =>
  project.succeed(['rewind', '--to', world.moment, '--yes', '--detach', '--force', 'no-worker'])

const alphaIsLast = () => waitUntil('alpha is the last', async () => (await waitingFor()).join() === 'alpha')

/** A worker at its head, that the request reaches there. */
async function dieLive(step: RewindStep): Promise<Program> {
  const victim = await project.worker('alpha', { env: { LOCKSTEP_FAULT: `kill@${step}` } })
  await waitUntil('alpha live', async () => {
    return (await project.count(`chain_status where chain = 'alpha' and phase = 'live'`)) === 1
  })
  await requestRewind()
  return victim
}

/** A worker that finds the request when it starts. It is the last one, so it is the one that releases. */
async function dieAtStart(step: RewindStep): Promise<Program> {
  await requestRewind()
  await alphaIsLast()
  return project.lockstep(['worker', 'alpha'], { env: { LOCKSTEP_FAULT: `kill@${step}` } })
}

const STEPS = REWIND_STEPS.filter((step) => step.startsWith('chain.'))
const OF_THE_LAST: readonly RewindStep[] = ['chain.released', 'chain.committed']

test.each(STEPS)('killed at %s', async (step) => {
  const facts = await factsOf('alpha')
  const victim = await (OF_THE_LAST.includes(step) ? dieAtStart(step) : dieLive(step))
  expect(await victim.ended()).toMatchObject({ signal: 'SIGKILL' })

  if (step === 'chain.committed') {
    expect(await waitingFor()).toEqual([])
    expect((await factsOf('alpha')).length).toBeLessThan(facts.length)
  } else {
    // Its transaction never was, and the others wait.
    expect(await factsOf('alpha')).toEqual(facts)
    await alphaIsLast()
    expect(await project.count(`_global where key = 'rewind_lock'`)).toBe(1)
  }

  const successor = await project.worker('alpha')
  await project.released()
  await project.reached(world.heads)
  const { rows, differences } = await project.compareWithFresh()
  expect(differences).toEqual([])
  expect(rows.event).toBeGreaterThan(30)
  const audit = await project.query(
    `select chain, finished_at is not null as finished, events_removed > 0 as removed from rewind_chain
     where rewind_id = (select id from rewind order by requested_at desc limit 1) order by chain`,
  )
  expect(audit).toEqual(['alpha', 'beta', 'gamma'].map((chain) => ({ chain, finished: true, removed: true })))
  expect(await project.count('rewind where finished_at is null')).toBe(0)
  expect((await successor.stop()).code).toBe(0)
})
