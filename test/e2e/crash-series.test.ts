/**
 * Goal: whoever dies in a rewind, and whoever dies after, the next processes that are started finish it. Method: one
 * rewind a row survives a series of kill -9 (`LOCKSTEP_FAULT`): of the command that asked for it and carries it out,
 * of the coordinator (`lockstep start`), of a worker, and of the worker that is the last to be done; then all is
 * started anew, and the tables compared with a fresh index.
 */
import type { RewindStep } from '@lockstep/rewind'
import { type Program, waitUntil } from '@lockstep/testkit'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { configOf, Project } from './kit/project.js'
import {
  type ChainName,
  momentAt,
  type SimulatedChains,
  startSimulatedChains,
} from './kit/simulated-chains.js'

const NAMES = ['alpha', 'beta', 'gamma'] as const
/** Each death leaves a lease that has to end; on a busy machine all of it takes long. */
const SERIES_TIMEOUT_MS = 480_000

let world: SimulatedChains
let project: Project

beforeAll(async () => {
  world = await startSimulatedChains()
  project = await Project.create(world.chains, {
    settings: {
      lease: { time: '12s' }, // so long the next one waits for a dead one's chain
      rewind: { pollInterval: '300ms', searchTimeout: '5s', writeTimeout: '3s', takeOverAfter: '1h' },
    },
  })
  await project.succeed(['migrate'])
  const indexer = project.lockstep(['start'])
  await project.reached(world.heads)
  await indexer.stop()
  await project.indexAfresh()
}, SERIES_TIMEOUT_MS)

afterEach(() => project.stopAll())

afterAll(async () => {
  await project?.close()
  await world?.stop()
})

const killAt = (step: RewindStep) => ({ env: { LOCKSTEP_FAULT: `kill@${step}` } })

const waitingFor = async () =>
  (
    await project.query<{ chain: ChainName }>(
      `select substr(key, 18) as chain from _global where starts_with(key, 'rewind_timestamp_') order by 1`,
    )
  ).map(({ chain }) => chain)

async function allBackAndEqual(): Promise<void> {
  await project.released()
  await project.reached(world.heads)
  expect((await project.compareWithFresh()).differences).toEqual([])
  expect(await project.count('rewind where finished_at is null')).toBe(0)
}

interface Series {
  /** The command that asks; it carries out what has no worker, first of all `alpha`. */
  readonly command: RewindStep
  /** `lockstep start` for a chain of its own; its coordinator carries out the first other one that is left. */
  readonly coordinator: RewindStep
  readonly worker: readonly [ChainName, RewindStep] | null
  /** After all others are done. */
  readonly last: readonly [ChainName, RewindStep] | null
}

const SERIES: readonly Series[] = [
  {
    command: 'chain.removed',
    coordinator: 'chain.own_row_deleted',
    worker: ['gamma', 'chain.checkpoint_set'],
    last: ['gamma', 'chain.released'],
  },
  {
    command: 'chain.own_row_deleted',
    coordinator: 'chain.removed',
    worker: ['gamma', 'chain.lock_row_locked'],
    last: ['beta', 'chain.released'],
  },
  {
    command: 'chain.committed',
    coordinator: 'chain.committed',
    worker: ['gamma', 'chain.cut_found'],
    last: ['gamma', 'chain.committed'],
  },
  {
    command: 'request.committed',
    coordinator: 'chain.checkpoint_set',
    worker: ['gamma', 'chain.removed'],
    last: ['alpha', 'chain.lock_row_locked'],
  },
  { command: 'chain.released', coordinator: 'chain.released', worker: null, last: null },
]

async function dies(victim: Program): Promise<void> {
  expect(await victim.ended()).toMatchObject({ signal: 'SIGKILL' })
}

/** Steps before the end of the transaction leave the chain's row; nobody is released while one is left. */
async function expectUnfinished(): Promise<void> {
  expect((await waitingFor()).length).toBeGreaterThan(0)
  expect(await project.count(`_global where key = 'rewind_lock'`)).toBe(1)
}

test.each(SERIES)(
  'killed: the command at $command, the coordinator at $coordinator, workers at $worker and $last',
  async ({ command, coordinator, worker, last }) => {
    const words = ['rewind', '--to', momentAt(150), '--yes', '--force', 'no-worker']
    await dies(project.lockstep(words, killAt(command)))
    await expectUnfinished()
    const config = await project.folder.write(
      'one.yaml',
      configOf(project.database.url, 'lockstep', world.chains.slice(0, 1), project.settings),
    )
    await dies(project.lockstep(['start'], { config, ...killAt(coordinator) }))
    await expectUnfinished()
    if (worker) {
      await dies(project.lockstep(['worker', worker[0]], killAt(worker[1])))
      await expectUnfinished()
    }
    if (last) await lastDies(...last)
    project.lockstep(['start'])
    await allBackAndEqual()
  },
  SERIES_TIMEOUT_MS,
)

async function lastDies(chain: ChainName, step: RewindStep): Promise<void> {
  const others = NAMES.filter((each) => each !== chain)
  await Promise.all(others.map((each) => project.worker(each)))
  await waitUntil(`${chain} is the last`, async () => (await waitingFor()).join() === chain)
  await dies(project.lockstep(['worker', chain], killAt(step)))
  if (step === 'chain.committed') expect(await project.count(`_global where key = 'rewind_lock'`)).toBe(0)
  else await expectUnfinished()
  await project.stopAll()
}
