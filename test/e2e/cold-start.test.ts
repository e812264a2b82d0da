/**
 * Goal: a rewind needs nobody in particular. Recorded while nothing runs, it is the first thing that each worker does;
 * a chain without a worker is carried out by whoever is there: the command, `lockstep start`, or the waiting workers.
 * Method: three chains that stand still, processes started and left out on purpose, and a fresh index to compare with
 * after each story.
 */
import { type Program, waitUntil } from '@lockstep/testkit'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { readPauses } from './kit/pause-reader.js'
import { logOf } from './kit/processes.js'
import { configOf, Project } from './kit/project.js'
import { type StaticChains, startStaticChains } from './kit/static-chains.js'

const ALL = ['alpha', 'beta', 'gamma']

let world: StaticChains
let project: Project
let running: Program[] = []

beforeAll(async () => {
  world = await startStaticChains()
  project = await Project.create(world.chains)
  running.push(project.lockstep(['start']))
  await waitUntil(
    'tables',
    async () =>
      (
        await project.query<{ there: boolean }>(
          `select to_regclass('lockstep.checkpoint') is not null as there`,
        )
      )[0]?.there === true,
  )
  await project.reached(world.heads)
  await stopAll()
  await project.indexAfresh()
})

afterEach(stopAll)

afterAll(async () => {
  await project?.close()
  await world?.stop()
})

async function stopAll(): Promise<void> {
  const results = await Promise.all(running.map((program) => program.stop()))
  running = []
  expect(results.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
    results.map(() => ({ code: 0, stderr: '' })),
  )
}

const start = async (...chains: string[]): Promise<Program[]> => {
  const workers = await Promise.all(chains.map((chain) => project.worker(chain)))
  running.push(...workers)
  return workers
}

/** Workers for all chains, up to their heads: what is there then is what a fresh index holds. */
async function goOn(...chains: string[]): Promise<void> {
  await start(...chains)
  await project.reached(world.heads)
  expect((await project.compareWithFresh()).differences).toEqual([])
  await stopAll()
}

/** Somebody is always missing here; `--force` says that this is known. */
const rewind = (words: readonly string[], config = project.folder.config): Promise<string> =>
  project.succeed(['rewind', '--to', world.moment, '--yes', '--force', 'no-worker', ...words], { config })

const config = (name: string, chains: readonly string[], settings: object) =>
  project.folder.write(
    name,
    configOf(
      project.database.url,
      'lockstep',
      world.chains.filter((chain) => chains.includes(chain.name)),
      { ...project.settings, ...settings },
    ),
  )

interface RewindJson {
  readonly rewind: {
    readonly finished: boolean
    readonly chains: readonly { chain: string; from: number; cut: number; carriedOutBy: string }[]
  }
}

interface PlanJson {
  readonly plan: {
    readonly timestamp: string
    readonly chains: readonly {
      chain: string
      from: number
      cut: { height: number }
      events: number
      blocks: number
      worker: string | null
    }[]
  }
}

test('a dry run changes nothing, and its plan is what the rewind then does', async () => {
  const before = await project.dump()
  const { plan } = JSON.parse(
    await project.succeed(['rewind', '--to', world.moment, '--dry-run', '--json']),
  ) as PlanJson
  expect(await project.succeed(['rewind', '--to', world.moment, '--dry-run'])).toMatch(
    /^Rewind to .*\n\nCHAIN /,
  )
  expect(await project.dump()).toEqual(before)
  expect(plan.chains.map(({ chain, worker }) => ({ chain, worker }))).toEqual(
    ALL.map((chain) => ({ chain, worker: null })),
  )

  const refused = await project.run(['rewind', '--to', world.moment, '--yes'])
  expect(refused.code).toBe(3)
  expect(refused.stderr).toMatch(/no worker runs for it.*--force no-worker/s)
  expect(await project.dump()).toEqual(before)

  // No worker runs: the command carries everything out by itself.
  const { rewind: done } = JSON.parse(await rewind(['--json'])) as RewindJson
  expect(done.finished).toBe(true)
  expect(done.chains).toMatchObject(
    plan.chains.map(({ chain, from, cut, events, blocks }) => ({
      chain,
      from,
      cut: cut.height,
      removed: { events, blocks },
    })),
  )
  expect(new Set(done.chains.map(({ carriedOutBy }) => carriedOutBy)).size).toBe(1)
  expect(await project.count(`_global where key <> 'epoch'`)).toBe(0)
  for (const table of ['event', 'block', 'transaction', 'header', 'checkpoint'])
    expect(await project.count(`${table} where block_time > $1::timestamptz`, [world.moment])).toBe(0)
  await goOn(...ALL)
})

test('recorded while nothing runs: each worker rewinds before anything else', async () => {
  await rewind(['--detach'])
  const status = await project.status()
  expect(status.rewind?.waitingFor).toEqual(ALL)
  expect(status.chains.map(({ phase, reason }) => `${phase}: ${reason}`)).toEqual(
    ALL.map(() => 'rewinding: it has no worker; others carry it out'),
  )
  const reader = await readPauses(project.database.url)
  const workers = await start(...ALL)
  await project.released()
  await project.reached(world.heads)
  await reader.stop()
  for (const worker of workers) {
    const facts = logOf(worker).map(({ msg }) => msg)
    expect(facts.slice(0, 4)).toEqual([
      'lease was taken',
      'chain rewind began',
      'cut was found',
      'chain was rewound',
    ])
  }
  // Not one row came before the release, on any chain.
  for (const chain of ALL) {
    const samples = reader.looks.flatMap((look) => look.filter((each) => each.chain === chain))
    const [first] = samples
    expect(samples.filter((each) => each.events > (first?.events ?? 0))).toEqual([])
    expect(samples.filter((each) => !each.waiting && each.late > 0)).toEqual([])
  }
  expect((await project.compareWithFresh()).differences).toEqual([])
})

test('a chain that was taken out of the config takes part', async () => {
  const withoutBeta = await config('without-beta.yaml', ['alpha', 'gamma'], {})
  const { rewind: done } = JSON.parse(await rewind(['--json'], withoutBeta)) as RewindJson
  expect(done.chains.map(({ chain }) => chain)).toEqual(ALL)
  expect(
    await project.count(`event where chain = 'beta' and block_time > $1::timestamptz`, [world.moment]),
  ).toBe(0)
  await goOn(...ALL)
})

test('one dead worker among live ones: the attached command carries out its part', async () => {
  await start('beta', 'gamma')
  const { rewind: done } = JSON.parse(await rewind(['--json'])) as RewindJson
  expect(done.finished).toBe(true)
  expect(new Set(done.chains.map(({ carriedOutBy }) => carriedOutBy)).size).toBe(3)
  await goOn('alpha')
})

test('one dead worker among live ones: the coordinator of lockstep start carries out its part', async () => {
  const withoutAlpha = await config('without-alpha.yaml', ['beta', 'gamma'], {
    rewind: { ...(project.settings.rewind as object), takeOverAfter: '1h' }, // not the waiting workers
  })
  const supervisor = project.lockstep(['start'], { config: withoutAlpha })
  running.push(supervisor)
  await waitUntil(
    'two workers',
    async () => (await project.count(`lease where name like 'chain:%' and holder is not null`)) === 2,
  )
  await rewind(['--detach'])
  await project.released()
  expect(logOf(supervisor)).toContainEqual(
    expect.objectContaining({ chain: 'alpha', msg: 'chain without a worker was taken over for its rewind' }),
  )
  await goOn('alpha')
})

test('one dead worker among live ones: without anybody else the waiting workers carry out its part', async () => {
  const eager = await config('eager.yaml', ALL, {
    rewind: { ...(project.settings.rewind as object), takeOverAfter: '1s' },
  })
  const workers = await Promise.all(
    ['beta', 'gamma'].map((chain) => project.worker(chain, { config: eager })),
  )
  running.push(...workers)
  await rewind(['--detach'])
  await project.released()
  expect(workers.flatMap(logOf)).toContainEqual(
    expect.objectContaining({ msg: 'chain without a worker was taken over for its rewind' }),
  )
  await goOn('alpha')
})
