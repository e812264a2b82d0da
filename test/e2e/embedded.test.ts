/**
 * Goal: without DATABASE_URL `lockstep start` brings a PostgreSQL of its own; other commands find it while it runs and
 * say so when it does not; its data stay between runs. Method: a project folder with no database in its config, and
 * the commands run in it.
 */
import { chmod } from 'node:fs/promises'
import {
  createProjectFolder,
  Program,
  type ProgramResult,
  type ProjectFolder,
  runProgram,
  waitUntil,
} from '@lockstep/testkit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { LOCKSTEP } from '../kit/deployment.js'
import { type EvmChain, startEvm, transferAt } from './kit/chains.js'
import type { StatusJson } from './kit/project.js'

const T0 = 1_700_000_000
const ENV = { LOCKSTEP_LOG_FORMAT: 'json', DATABASE_URL: '' }

let alpha: EvmChain
let project: ProjectFolder
let supervisor: Program | null = null

beforeAll(async () => {
  alpha = await startEvm('alpha', { chainId: 1001, genesisTime: T0 })
  await transferAt(alpha, [T0 + 10, T0 + 20])
  project = await createProjectFolder({ chains: { alpha: alpha.config } })
  await chmod(project.dir, 0o755) // where PostgreSQL runs as another user, it can enter
})

afterAll(async () => {
  await supervisor?.stop()
  await alpha?.stop()
  await project?.remove()
})

const lockstep = (...args: string[]): Promise<ProgramResult> =>
  runProgram({ entry: LOCKSTEP, args, cwd: project.dir, env: ENV })

const start = (): Program => new Program({ entry: LOCKSTEP, args: ['start'], cwd: project.dir, env: ENV })

/** Null while the database does not run, or has no tables yet. */
async function chainNow(): Promise<StatusJson['chains'][number] | null> {
  const { code, stdout } = await lockstep('status', '--json')
  return code === 0 ? ((JSON.parse(stdout) as StatusJson).chains[0] ?? null) : null
}

const DOWN = `lockstep: The database at .lockstep/pg/data (embedded PostgreSQL) cannot be used: it does not run.
Hint: Start it with "lockstep start", which runs it as long as it runs itself, or set DATABASE_URL to a PostgreSQL of your own.
`

test('before the first start other commands say that there is none', async () => {
  for (const words of [['status'], ['migrate'], ['worker', 'alpha'], ['rewind', '--to', '-1s', '--yes']]) {
    const { code, stdout, stderr } = await lockstep(...words)
    expect({ code, stdout, stderr }).toEqual({
      code: 4,
      stdout: '',
      stderr: DOWN.replace('does not run', 'does not run, and has never run'),
    })
  }
})

test('start brings it, and other commands find it', async () => {
  supervisor = start()
  await supervisor.said(
    /no DATABASE_URL was set: the embedded PostgreSQL is used, its data are kept/,
    120_000,
  )
  const chain = await waitUntil('alpha live', async () => {
    const now = await chainNow()
    return now?.phase === 'live' && now.checkpoint === 3 ? now : null
  })
  expect(chain.worker).not.toBeNull()
  const rewound = await lockstep('rewind', '--to', 'alpha:2', '--yes')
  expect(rewound.stderr).not.toMatch(/Hint/)
  expect(rewound.stdout).toMatch(/alpha: back to block 2; 1 block and 1 event removed/)
  expect(rewound.code).toBe(0)
  await waitUntil('alpha at its head again', async () => (await chainNow())?.checkpoint === 3)
})

test('stopped with it, it is down, and says so', async () => {
  expect((await supervisor?.stop())?.code).toBe(0)
  const { code, stdout, stderr } = await lockstep('status')
  expect({ code, stdout, stderr }).toEqual({ code: 4, stdout: '', stderr: DOWN })
})

test('the data are kept: the next run knows them without the chain’s node', async () => {
  await alpha.stop()
  supervisor = start()
  const chain = await waitUntil('status', async () => {
    const now = await chainNow()
    return now?.phase === 'waiting' ? now : null
  })
  expect(chain.checkpoint).toBe(3)
  expect((await supervisor.stop()).code).toBe(0)
})
