/**
 * Goal: requests that meet a rewind in the middle of something become one story, with real processes: a fork that joins
 * goes as low as its fork point, and a request that waits for the last chain to finish is never lost. Method: real
 * workers on simulated nodes, `onFork: rewind`; each meeting is produced by a process that is frozen at the place.
 */
import { Database, lockKeyShared } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { type BlockWish, type Program, waitUntil } from '@lockstep/testkit'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { keepAwake, logOf } from './kit/processes.js'
import { Project } from './kit/project.js'
import { momentAt, type SimulatedChains, startSimulatedChains, transferWish } from './kit/simulated-chains.js'

let world: SimulatedChains
let project: Project
let workers: Program[] = []

/** The end of the chains as they are made, in seconds after their first blocks. */
const END = 300

beforeAll(async () => {
  world = await startSimulatedChains()
  // Ten blocks that share a time, and five after it.
  world.alpha.extend(blocksAt(Array.from({ length: 10 }, () => END)))
  world.alpha.extend(blocksAt([312, 324, 336, 348, 360]))
  project = await Project.create(world.chains, {
    settings: {
      onFork: 'rewind',
      lease: { time: '120s' }, // who is frozen here keeps its chain
      rewind: { pollInterval: '300ms', searchTimeout: '5s', writeTimeout: '100s', takeOverAfter: '1h' },
    },
  })
  await project.succeed(['migrate'])
})

afterEach(async () => {
  await project.stopAll()
  workers = []
})

afterAll(async () => {
  await project?.close()
  await world?.stop()
})

const blocksAt = (seconds: readonly number[]): BlockWish[] =>
  seconds.map((each, index) => transferWish(each, index))

const heads = () => ({ ...world.heads, alpha: world.alpha.chain.head.number })

async function startWorkers(faults: Readonly<Record<string, string>> = {}): Promise<void> {
  workers = await Promise.all(
    world.chains.map(({ name }) =>
      project.worker(name, name in faults ? { env: { LOCKSTEP_FAULT: faults[name] } } : {}),
    ),
  )
  await project.reached(heads())
}

const rewindWords = (seconds: number) => [
  ...['rewind', '--to', momentAt(seconds), '--yes', '--detach'],
  ...['no-worker', 'refetch', 'fork'].flatMap((blocker) => ['--force', blocker]),
]

const waitingFor = async () =>
  (
    await project.query<{ chain: string }>(
      `select substr(key, 18) as chain from _global where starts_with(key, 'rewind_timestamp_') order by 1`,
    )
  ).map(({ chain }) => chain)

const only = (chain: string) =>
  waitUntil(`${chain} is the last`, async () => (await waitingFor()).join() === chain)

/** Sessions of our processes that wait for a lock. */
const lockWaits = (kind: string) =>
  project.count(`pg_locks l join pg_stat_activity a using (pid)
    where not l.granted and ${kind} and a.datname = current_database() and a.application_name like 'lockstep:%'`)

test('a request that waits for the row which the last chain is just deleting starts as a new one', async () => {
  await startWorkers({ gamma: 'stop@chain.own_row_deleted' })
  const gamma = workers[2] as Program
  gamma.kill('SIGSTOP') // else it may be the first, and hold the lock's row that the others need
  await project.succeed(rewindWords(200))
  await only('gamma')
  gamma.kill('SIGCONT')
  const inRelease = `pg_stat_activity where state = 'idle in transaction' and datname = current_database()`
  await waitUntil('gamma in its release', async () => (await project.count(inRelease)) > 0)
  const deeper = project.lockstep(rewindWords(100))
  await waitUntil('a request that waits for the row', async () => {
    return (await lockWaits(`l.locktype in ('transactionid', 'tuple')`)) > 0
  })
  const { stdout } = await keepAwake(gamma, deeper.ended())
  expect(stdout).toMatch(/^Rewind \S+ to \S+ was started: all chains pause\.$/m)
  await keepAwake(gamma, project.released()) // its second release has the step too
  await project.reached(heads())
  expect(await project.count('rewind where deepened = 0 and finished_at is not null')).toBe(2)
})

test('a fork joins a running rewind to the same moment, and its chain goes lower than that', async () => {
  await startWorkers()
  const [alpha] = workers
  const before = await project.count('rewind')
  const db = new Database({
    url: project.database.url,
    schema: 'lockstep',
    holder: 'a write that takes its time',
    writeTimeoutMs: 60_000,
    logger: silentLogger(),
  })
  // The key is held as by a write, so that alpha's request is made but does not get through.
  await db
    .transaction(async (tx) => {
      await lockKeyShared(tx)
      world.alpha.fork(6, blocksAt([372, 384, 396, 408, 420, 432, 444])) // from 35 on, whose time is the moment
      const requests = () => lockWaits(`l.locktype = 'advisory' and l.mode = 'ExclusiveLock'`)
      await waitUntil('the request of the fork', async () => (await requests()) > 0)
      alpha?.kill('SIGSTOP')
      await waitUntil('its try to end', async () => (await requests()) === 0)
    })
    .finally(() => db.close())
  await project.succeed(rewindWords(END))
  await only('alpha')
  alpha?.kill('SIGCONT')
  await project.released()
  await project.reached(heads())

  const asked = logOf(alpha as Program).filter(({ msg }) => /a rewind of all chains was asked for/.test(msg))
  expect(asked).toMatchObject([{ outcome: 'joined', forkPoint: 34 }])
  expect(await project.count('rewind')).toBe(before + 1)
  expect(
    await project.query(`select from_height::int as "from", cut::int as cut from rewind_chain
      where chain = 'alpha' order by finished_at desc limit 1`),
  ).toEqual([{ from: 35, cut: 34 }])
  await project.indexAfresh()
  expect((await project.compareWithFresh()).differences).toEqual([])
})
