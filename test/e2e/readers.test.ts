/**
 * Goal: whoever reads through the views sees one picture, whatever a rewind is in the middle of: all chains at the
 * moment from the request to the release, no row above a published height, no hole below it, and equal epochs only
 * where answers belong together. Method: three chains that stand still on simulated nodes (two EVM, one Cosmos), one
 * real worker process each; a reader loops single statements on a connection of its own while rewinds run: short,
 * drawn out by a chain without a worker, deepened, killed in the middle of a removal, held.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Program, waitUntil } from '@lockstep/testkit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Project } from './kit/project.js'
import { momentAt, type SimulatedChains, startSimulatedChains } from './kit/simulated-chains.js'
import { readViews, type ViewReader } from './kit/view-reader.js'

let world: SimulatedChains
let project: Project
let reader: ViewReader
const workers = new Map<string, Program>()

beforeAll(async () => {
  world = await startSimulatedChains()
  project = await Project.create(world.chains, {
    settings: {
      lease: { time: '6s' }, // so long a successor waits for a dead worker's chain
      rewind: { pollInterval: '300ms', searchTimeout: '5s', writeTimeout: '3s', takeOverAfter: '1h' },
    },
  })
  await project.succeed(['migrate'])
  reader = await readViews(project.database.url, world)
  for (const { name } of world.chains) workers.set(name, await project.worker(name))
  await project.reached(world.heads)
})

afterAll(async () => {
  await project?.stopAll()
  await reader?.stop()
  await project?.close()
  await world?.stop()
})

const rewind = (seconds: number, ...more: string[]) =>
  project.succeed(['rewind', '--to', momentAt(seconds), '--yes', '--force', 'no-worker', ...more])

const waitingFor = async () =>
  (
    await project.query<{ chain: string }>(
      `select substr(key, 18) as chain from _global where starts_with(key, 'rewind_timestamp_') order by 1`,
    )
  ).map(({ chain }) => chain)

const only = (chain: string) =>
  waitUntil(`${chain} to be the last`, async () => (await waitingFor()).join() === chain)

/** All chains are up to their heads again, and the reader has met nothing that may not be. */
async function allIsWell(): Promise<void> {
  await project.released()
  await project.reached(world.heads)
  expect(reader.broken.slice(0, 5)).toEqual([])
}

/** How many looks of the kind the reader had while `work` went on. */
async function looksDuring(kind: 'bound' | 'mixed', work: () => Promise<unknown>): Promise<number> {
  const before = reader.looks[kind]
  await work()
  return reader.looks[kind] - before
}

test('the first index: heights are published with all their rows', allIsWell)

test('rewinds one after the other', async () => {
  const looks = await looksDuring('bound', async () => {
    for (const seconds of [250, 0, 166]) {
      await rewind(seconds)
      await allIsWell()
    }
  })
  expect(looks).toBeGreaterThan(0)
})

test('drawn out by a chain that does not go back, and deepened meanwhile', async () => {
  const looks = await looksDuring('mixed', async () => {
    await workers.get('beta')?.stop()
    await rewind(225, '--detach')
    await only('beta')
    await sleep(300)
    await rewind(125, '--detach')
    await only('beta')
    await sleep(300)
    workers.set('beta', await project.worker('beta'))
    await allIsWell()
  })
  expect(looks).toBeGreaterThan(20)
  expect(await project.count('rewind where deepened = 1')).toBe(1)
})

test.each(['beta', 'gamma'])('killed in the middle of the removal of %s, and resumed', async (chain) => {
  await workers.get(chain)?.stop()
  const victim = await project.worker(chain, { env: { LOCKSTEP_FAULT: 'kill@chain.removed' } })
  const looks = await looksDuring('mixed', async () => {
    await rewind(100, '--detach')
    expect(await victim.ended()).toMatchObject({ signal: 'SIGKILL' })
    await only(chain)
    workers.set(chain, await project.worker(chain))
    await allIsWell()
  })
  expect(looks).toBeGreaterThan(20)
})

test('held: everybody stays at the moment until somebody resumes', async () => {
  const looks = await looksDuring('bound', async () => {
    await rewind(150, '--hold')
    await sleep(1000)
    await project.succeed(['resume'])
    await allIsWell()
  })
  expect(looks).toBeGreaterThan(20)
})

test('in the end the tables are those of a fresh index', async () => {
  await project.indexAfresh()
  const { rows, differences } = await project.compareWithFresh()
  expect(differences).toEqual([])
  expect(rows.event).toBe(
    world.chains.reduce((sum, { name }) => {
      const chain = name as keyof typeof world.heads
      return sum + world.eventsUpTo(chain, world.heads[chain])
    }, 0),
  )
  expect(reader.broken).toEqual([])
})
