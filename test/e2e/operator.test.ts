/**
 * Goal: what an operator has in hand at three in the morning does what it says: hold, pause, resume, cancel, history,
 * forks, verify, digest; and a request that dies at any of its steps is either wholly there or not at all.
 * Method: three chains that stand still, one real worker process each, and the real command.
 */
import { waitUntil } from '@lockstep/testkit'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Project } from './kit/project.js'
import { type StaticChains, startStaticChains } from './kit/static-chains.js'

let world: StaticChains
let project: Project

beforeAll(async () => {
  world = await startStaticChains()
  project = await Project.create(world.chains, {
    settings: {
      lease: { time: '6s' },
      rewind: { pollInterval: '300ms', searchTimeout: '5s', writeTimeout: '3s', takeOverAfter: '1h' },
    },
  })
  await project.succeed(['migrate'])
  await startWorkers()
  await project.reached(world.heads)
  await project.indexAfresh()
  await project.stopAll()
})

afterAll(async () => {
  await project?.close()
  await world?.stop()
})

afterEach(() => project.stopAll())

const startWorkers = () => Promise.all(['alpha', 'beta', 'gamma'].map((chain) => project.worker(chain)))
const keys = async () =>
  (await project.query<{ key: string }>('select key from _global order by key')).map(({ key }) => key)
const facts = () => project.dump(['lease', 'chain_status', 'checkpoint', 'rewind', 'rewind_chain', '_global'])
const rewindWords = ['rewind', '--to', '', '--yes', '--force', 'no-worker']
const rewindTo = (...more: string[]) => [
  ...rewindWords.map((word) => (word === '' ? world.moment : word)),
  ...more,
]

async function equalToFresh(): Promise<void> {
  await project.reached(world.heads)
  expect((await project.compareWithFresh()).differences).toEqual([])
}

test('--hold stays paused until resume; history and show tell who, why and how much', async () => {
  await startWorkers()
  const said = await project.succeed(rewindTo('--hold', '--reason', 'new version'))
  expect(said).toContain('Everything stays paused until "lockstep resume".')
  expect(await keys()).toEqual(['epoch', 'pause'])
  const held = await facts()
  await new Promise((resolve) => setTimeout(resolve, 1000)) // several polls of every worker
  expect(await facts()).toEqual(held)
  expect((await project.status()).chains.map(({ phase }) => phase)).toEqual(['paused', 'paused', 'paused'])
  expect(await project.succeed(['resume'])).toMatch(/^Resumed: the pause by .+ is over\.\n$/)
  await equalToFresh()

  const [newest] = JSON.parse(await project.succeed(['rewind', 'history', '--json'])) as {
    id: string
    reason: string
  }[]
  expect(newest?.reason).toBe('new version')
  const shown = await project.succeed(['rewind', 'show', newest?.id.slice(0, 8) ?? ''])
  expect(shown).toMatch(/reason\s+new version/)
  for (const chain of ['alpha', 'beta', 'gamma'])
    expect(shown).toMatch(new RegExp(`${chain}: back to block \\d+; \\d+ blocks`))
})

test('pause and resume on their own; a second pause and a second resume are refused', async () => {
  await startWorkers()
  await project.succeed(['pause', '--reason', 'maintenance'])
  expect((await project.status()).chains.every(({ phase }) => phase === 'paused')).toBe(true)
  expect(await project.run(['pause'])).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(/paused already, by /),
  })
  await project.succeed(['resume'])
  expect(await project.run(['resume'])).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(/Nothing is paused/),
  })
  await equalToFresh()
})

test('a rewind under a pause runs, and the pause stays', async () => {
  await startWorkers()
  await project.succeed(['pause'])
  await project.succeed(rewindTo('--hold'))
  expect(await keys()).toEqual(['epoch', 'pause'])
  await project.succeed(['resume'])
  await equalToFresh()
})

test('cancel takes a rewind back while nothing was removed, with the pause that came with it', async () => {
  const before = await facts()
  await project.succeed(rewindTo('--detach', '--hold')) // no worker runs: nobody removes anything
  expect(await keys()).toEqual([
    'epoch',
    'pause',
    'rewind_lock',
    'rewind_timestamp_alpha',
    'rewind_timestamp_beta',
    'rewind_timestamp_gamma',
  ])
  expect(await project.succeed(['rewind', 'status'])).toMatch(/Waiting for:\n {2}alpha: it has no worker/)
  expect(await project.succeed(['rewind', 'cancel'])).toMatch(/was cancelled: nothing was removed/)
  expect(await keys()).toEqual(['epoch'])
  expect(await facts()).toEqual(before)
  expect(await project.run(['rewind', 'cancel'])).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(/No rewind is running/),
  })
  expect(await project.succeed(['rewind', 'history'])).toContain('cancelled, nothing was removed')
})

test('cancel explains why it is too late', async () => {
  await project.succeed(rewindTo('--detach'))
  await project.worker('alpha')
  await waitUntil('alpha is back', async () => !(await keys()).includes('rewind_timestamp_alpha'))
  expect(await project.run(['rewind', 'cancel'])).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(/a chain has gone back already/),
  })
  await project.worker('beta')
  await project.worker('gamma')
  await project.released()
  await equalToFresh()
})

test.each(['request.key_locked', 'request.recorded'])(
  'a request that dies at %s was never made',
  async (step) => {
    const before = await project.dump(['lease', 'chain_status'])
    const { signal } = await project.run(rewindTo(), { env: { LOCKSTEP_FAULT: `kill@${step}` } })
    expect(signal).toBe('SIGKILL')
    expect(await project.dump(['lease', 'chain_status'])).toEqual(before)
  },
)

test('a request that dies right after its commit is finished by the workers', async () => {
  await startWorkers()
  const { signal } = await project.run(rewindTo(), { env: { LOCKSTEP_FAULT: 'kill@request.committed' } })
  expect(signal).toBe('SIGKILL')
  await project.released()
  await equalToFresh()
})

test('verify agrees with the chains, and says where a row was changed or lost', async () => {
  expect(await project.succeed(['verify'])).toMatch(
    /alpha .* agrees with the chain\nbeta .* agrees with the chain\ngamma .* agrees/,
  )
  const alpha = world.heads.alpha
  for (const [words, stderr] of [
    [['alpha', '--from', '999999'], new RegExp(`alpha is stored up to ${alpha}\\.`)],
    [['delta'], /There is no chain "delta"\./],
  ] as const)
    expect(await project.run(['verify', '--chain', ...words])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(stderr),
    })
  const changed = await project.query<{ height: string }>(
    `update event set args = args || '{"value": "1"}' where (chain, height, event_index) = (
       select chain, height, event_index from event where chain = 'alpha' order by height desc limit 1) returning height`,
  )
  const { code, stdout } = await project.run(['verify', '--chain', 'alpha'])
  expect(code).toBe(1)
  const where = `alpha: block ${changed[0]?.height}: event 0 of transaction 0 (Transfer)`
  expect(stdout).toContain(`${where} is missing from the tables\n${where} is stored, but not on the chain\n`)
  await startWorkers()
  await project.succeed(rewindTo()) // what an operator does then
  await equalToFresh()
})

test('digests are equal where the tables are, and only there', async () => {
  const fresh = { config: `${project.folder.dir}/config/fresh.yaml` }
  const mine = JSON.parse(await project.succeed(['digest', '--json'])) as {
    chain: string
    table: string
    digest: string
    rows: number
  }[]
  const always = mine.filter(({ table }) => table === 'block' || table === 'event')
  const theirs = JSON.parse(await project.succeed(['digest', '--json'], fresh))
  expect(mine).toEqual(theirs)
  expect(always.every(({ rows }) => rows > 0)).toBe(true)
  const lower = JSON.parse(await project.succeed(['digest', '--json', '--to', world.moment])) as typeof mine
  expect(lower.map(({ digest }) => digest)).not.toEqual(mine.map(({ digest }) => digest))
  expect(lower).toEqual(JSON.parse(await project.succeed(['digest', '--json', '--to', world.moment], fresh)))
})
