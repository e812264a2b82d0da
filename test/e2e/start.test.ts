/**
 * Goal: `lockstep start` keeps its workers running whatever ends one of them, leaves nothing behind when it is asked to
 * leave, and nothing that goes on without it when it is killed. Method: two Anvils; real processes that get real
 * signals; the database stands behind a proxy that can take it away.
 */
import { type Program, startTcpProxy, type TcpProxy, waitUntil } from '@lockstep/testkit'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { type EvmChain, startEvm, transferAt } from './kit/chains.js'
import { gone, isAlive, logOf, workerPid } from './kit/processes.js'
import { configOf, Project } from './kit/project.js'

const T0 = 1_700_000_000

let chains: EvmChain[] = []
let project: Project
let proxy: TcpProxy
let config: string
let supervisor: Program
let time = T0 + 100

beforeAll(async () => {
  chains = await Promise.all(
    [1001, 1002].map((chainId, index) =>
      startEvm(index === 0 ? 'alpha' : 'beta', { chainId, genesisTime: T0 }),
    ),
  )
  project = await Project.create(chains)
  await project.succeed(['migrate'])
  const url = new URL(project.database.url)
  proxy = await startTcpProxy(url.hostname, Number(url.port))
  url.port = String(proxy.port)
  config = await project.folder.write(
    'proxied.yaml',
    configOf(url.href, 'lockstep', chains, project.settings),
  )
})

beforeEach(async () => {
  supervisor = project.lockstep(['start'], { config })
  await grow()
})

afterAll(async () => {
  await project?.close()
  await proxy?.stop()
  for (const chain of chains) await chain.stop()
})

/** Two more blocks on each chain, and the index follows. */
async function grow(): Promise<void> {
  const heads = await Promise.all(
    chains.map(async (chain) => {
      await transferAt(chain, [time + 1, time + 2])
      return [chain.name, Number(await chain.anvil.rpc<string>('eth_blockNumber'))] as const
    }),
  )
  time += 10
  await project.reached(Object.fromEntries(heads))
}

const holders = async () =>
  (await project.query<{ name: string }>('select name from lease where holder is not null order by 1')).map(
    ({ name }) => name,
  )

const pids = () => Promise.all(['alpha', 'beta'].map((chain) => workerPid(supervisor, chain)))

/** For workers that would outlive a test that fails. */
const killAtEnd = (...workers: number[]) =>
  onTestFinished(() => {
    for (const pid of workers.filter(isAlive)) process.kill(pid, 'SIGKILL')
  })

test('a worker killed with -9 is started again; the other one never notices', async () => {
  const [alpha = 0, beta = 0] = await pids()
  process.kill(alpha, 'SIGKILL')
  const next = await workerPid(supervisor, 'alpha', alpha)
  expect(isAlive(next)).toBe(true)
  await grow()
  expect(await workerPid(supervisor, 'beta')).toBe(beta)
  expect(isAlive(beta)).toBe(true)
  expect(logOf(supervisor)).toContainEqual(
    expect.objectContaining({
      chain: 'alpha',
      signal: 'SIGKILL',
      msg: 'worker ended unexpectedly and is started again',
    }),
  )
  expect((await supervisor.stop()).code).toBe(0)
})

test('SIGTERM: workers finish and leave, all leases are free, exit code 0', async () => {
  const workers = await pids()
  expect(await holders()).toEqual(['chain:alpha', 'chain:beta', 'coordinator'])
  const { code, signal, stderr } = await supervisor.stop()
  expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' })
  expect(workers.map(isAlive)).toEqual([false, false])
  expect(await holders()).toEqual([])
  expect((await project.status()).chains.map(({ phase, reason }) => `${phase}: ${reason}`)).toEqual([
    'stopped: its worker was stopped',
    'stopped: its worker was stopped',
  ])
})

test('a second signal ends everything at once, also a worker that does not answer', async () => {
  const [alpha = 0, beta = 0] = await pids()
  killAtEnd(alpha)
  process.kill(alpha, 'SIGSTOP')
  supervisor.kill('SIGTERM')
  await supervisor.said(/"msg":"stop was asked for; workers finish their batch"/)
  await gone(beta)
  expect(supervisor.result).toBeNull() // it waits for alpha
  supervisor.kill('SIGTERM')
  await Promise.all([supervisor.pid, alpha].map(gone))
  expect(await supervisor.ended()).toMatchObject({ code: 130 })
})

test('killed with -9 itself: its workers leave by themselves, and a next start goes on', async () => {
  const workers = await pids()
  killAtEnd(...workers)
  supervisor.kill('SIGKILL')
  await Promise.all(workers.map(gone))
  expect(await holders()).toEqual(['coordinator']) // ends by its time
  await supervisor.ended()
  supervisor = project.lockstep(['start'], { config })
  await grow()
  expect((await supervisor.stop()).code).toBe(0)
})

test('killed with -9 while its workers are still loading: they leave all the same', async () => {
  await supervisor.stop()
  supervisor = project.lockstep(['start'], { config })
  const workers = await pids()
  killAtEnd(...workers)
  supervisor.kill('SIGKILL')
  await Promise.all(workers.map(gone))
})

test('the database goes away and comes back: the same processes go on', async () => {
  const workers = await pids()
  await proxy.refuse(true)
  proxy.cut()
  await supervisor.said(/database_unavailable/)
  await proxy.refuse(false)
  await grow()
  expect(supervisor.result).toBeNull()
  expect(await Promise.all(['alpha', 'beta'].map((chain) => workerPid(supervisor, chain)))).toEqual(workers)
  expect((await supervisor.stop()).code).toBe(0)
  expect(supervisor.stdout + supervisor.stderr).not.toMatch(/\n\s+at /)
})

test('two of them share the work of one config: the second stands by', async () => {
  const second = project.lockstep(['start'], { config })
  await waitUntil('both of its workers waiting', () => {
    const waiting = logOf(second).filter(({ msg }) => msg.startsWith('chain is held by another worker'))
    return new Set(waiting.map(({ chain }) => chain)).size === 2
  })
  expect((await supervisor.stop()).code).toBe(0)
  await grow()
  expect(await project.count(`lease where name like 'chain:%' and holder is not null`)).toBe(2)
  expect((await second.stop()).code).toBe(0)
  expect(await holders()).toEqual([])
})
