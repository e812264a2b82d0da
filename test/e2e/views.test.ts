/**
 * Goal: views and indexes come from the config with the commands that a person runs, which say what they made; and where
 * the role may not make them, start says so and goes on.
 * Method: the real command over an Anvil chain, with configs that change, and with a role that owns nothing.
 */
import { waitUntil } from '@lockstep/testkit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type EvmChain, startEvm, transferAt } from './kit/chains.js'
import { configOf, Project } from './kit/project.js'

const GENESIS = Math.floor(Date.now() / 1000) - 3600
let chain: EvmChain
let project: Project

beforeAll(async () => {
  chain = await startEvm('alpha', { chainId: 1001, genesisTime: GENESIS })
  await transferAt(
    chain,
    Array.from({ length: 6 }, (_, index) => GENESIS + 60 + index),
  )
  project = await Project.create([withIndex('from')])
})

afterAll(async () => {
  await project?.close()
  await chain?.stop()
})

interface Contracts {
  readonly contracts: Readonly<Record<string, object>>
}

function withIndex(...index: string[]): EvmChain {
  const { contracts } = chain.config as unknown as Contracts
  const indexed = Object.entries(contracts).map(([name, contract]) => [
    name,
    { ...contract, ...(index.length > 0 && { index }) },
  ])
  return { ...chain, config: { ...chain.config, contracts: Object.fromEntries(indexed), keepOrphans: true } }
}

const writeConfig = (name: string, index: string[], database: object = {}) => {
  const config = configOf(project.database.url, 'lockstep', [withIndex(...index)], project.settings) as {
    database: object
  }
  return project.folder.write(name, { ...config, database: { ...config.database, ...database } })
}

const viewName = async () =>
  (await project.query<{ name: string }>('select name from lockstep.typed_view order by 1')).map(
    ({ name }) => name,
  )

test('migrate says which views and indexes it made, replaced and dropped', async () => {
  const first = await project.succeed(['migrate'])
  const [view] = await viewName()
  expect(first).toContain(`Views in "lockstep_views":\n  made: ${view}\n`)
  expect(first).toMatch(new RegExp(`Indexes:\\n  made: args_alpha_${view}_from_[0-9a-f]{8}\\n`))
  const again = await project.succeed(['migrate'])
  expect(again).toContain('Views in "lockstep_views": nothing to do.\nIndexes: nothing to do.\n')
  const other = await project.succeed(['migrate'], { config: await writeConfig('to.yaml', ['to']) })
  expect(other).toMatch(
    /Indexes:\n {2}made: args_alpha_\w+_to_[0-9a-f]{8}\n {2}dropped: args_alpha_\w+_from_[0-9a-f]{8}\n/,
  )
})

test('start makes them as well, beside its workers, and what is stored is in the view', async () => {
  const program = project.lockstep(['start'])
  await program.said(/indexes of views were made/)
  const [view] = await viewName()
  await waitUntil('the events are in their view', async () => {
    const [rows, typed] = await Promise.all([
      project.count('lockstep.event where args is not null'),
      project.count(`lockstep_views."${view}"`),
    ])
    return rows >= 6 && rows === typed
  })
  const [row] = await project.query(`select "from", value from lockstep_views."${view}" limit 1`)
  expect(row).toMatchObject({
    from: expect.stringMatching(/^0x[0-9a-f]{40}$/),
    value: expect.stringMatching(/^\d+$/),
  })
  expect(await project.query('select keep_orphans from chain')).toEqual([{ keep_orphans: true }])
  await program.stop()
})

test('a role that may not make views is told which are not as the config asks, and indexes go on', async () => {
  await project.query(`
    create role plain_worker login password 'pw';
    grant usage on schema lockstep to plain_worker;
    grant select, insert, update, delete on all tables in schema lockstep to plain_worker`)
  try {
    const { host, pathname } = new URL(project.database.url)
    const url = `postgres://plain_worker:pw@${host}${pathname}`
    const config = await writeConfig('plain.yaml', ['from'], { url, readSchema: 'elsewhere' })
    const program = project.lockstep(['start'], { config })
    await program.said(
      /"stale":\["blocks",.*"hint":"Run \\"lockstep migrate\\".*"views are not as the config asks, and this role may not make them"/,
    )
    await program.said(/lease was taken/)
    await program.stop()
    expect(await project.count(`pg_namespace where nspname = 'elsewhere'`)).toBe(0)
  } finally {
    await project.query('drop owned by plain_worker; drop role plain_worker')
  }
})
