/**
 * Goal: what is wrong with one chain is said where an operator looks, heals where it can, and never touches another
 * chain. Method: `lockstep start` with a sound chain beside a node that does not answer, a node of another chain and a
 * start height beyond the head; the unreachable node is behind a proxy and comes back.
 */
import { type Program, startTcpProxy, type TcpProxy, waitUntil } from '@lockstep/testkit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type EvmChain, startEvm, transferAt } from './kit/chains.js'
import { logOf } from './kit/processes.js'
import { Project } from './kit/project.js'

const T0 = 1_700_000_000

let node: EvmChain
let flaky: EvmChain
let proxy: TcpProxy
let project: Project
let supervisor: Program

beforeAll(async () => {
  node = await startEvm('sound', { chainId: 1001, genesisTime: T0 })
  flaky = await startEvm('flaky', { chainId: 1002, genesisTime: T0 })
  await transferAt(node, [T0 + 100, T0 + 110])
  await transferAt(flaky, [T0 + 100, T0 + 105, T0 + 110, T0 + 115])
  proxy = await startTcpProxy('127.0.0.1', Number(new URL(flaky.anvil.url).port))
  const stop = async () => {} // the nodes are stopped by themselves
  project = await Project.create([
    node,
    { name: 'flaky', config: { ...flaky.config, rpc: [`http://127.0.0.1:${proxy.port}`] }, stop },
    { name: 'foreign', config: { ...node.config, chainId: 9999 }, stop },
    { name: 'early', config: { ...node.config, startHeight: 8 }, stop },
  ])
  await proxy.refuse(true)
  supervisor = project.lockstep(['start'])
  await waitUntil('the tables', async () => (await project.run(['status'])).code === 0)
})

afterAll(async () => {
  await project?.close()
  await proxy?.stop()
  for (const chain of [node, flaky]) await chain?.stop()
})

const chainIn = (chain: string, phase: string) =>
  waitUntil(`${chain} ${phase}`, async () => {
    const now = await project.chainStatus(chain)
    return now.phase === phase ? now : null
  })

test('a node that does not answer: the chain waits, and says for which node', async () => {
  const { reason } = await chainIn('flaky', 'waiting')
  expect(reason).toMatch(
    /^Chain flaky: the node at http:\/\/127\.0\.0\.1:\d+\S* does not answer: .*ECONNREFUSED/,
  )
})

test('a node of another chain: the chain stops, with both ids', async () => {
  const { reason } = await chainIn('foreign', 'stopped')
  expect(reason).toMatch(/^Chain foreign: the node at \S+ is of chain 1001, but the config says 9999\.$/)
})

test('a start beyond the head: the chain waits for it', async () => {
  const { reason } = await chainIn('early', 'waiting')
  expect(reason).toBe("the chain's head 3 is below startHeight 8")
})

test('the sound chain goes on, and the early one begins when its height comes', async () => {
  await transferAt(
    node,
    Array.from({ length: 6 }, (_, i) => T0 + 200 + i),
  )
  await project.reached({ sound: 9, early: 9 })
  expect(await chainIn('sound', 'live')).toMatchObject({ reason: null, lagBlocks: 0 })
  await chainIn('early', 'live')
  expect(
    await project.query(
      `select chain, height::int from event where chain in ('sound', 'early') order by 1, 2`,
    ),
  ).toEqual([
    ...[8, 9].map((height) => ({ chain: 'early', height })),
    ...Array.from({ length: 9 }, (_, i) => ({ chain: 'sound', height: i + 1 })), // the first is the mint
  ])
})

test('the node comes back: the chain goes on by itself', async () => {
  await proxy.refuse(false)
  await project.reached({ flaky: 5 })
  await chainIn('flaky', 'live')
})

test('a rewind waits for no node: a chain whose node is away goes back by what is stored', async () => {
  await proxy.refuse(true)
  proxy.cut()
  await chainIn('flaky', 'waiting')
  const words = ['rewind', '--to', `@${T0 + 110}`, '--yes', '--json']
  const refused = await project.run(words)
  expect(refused.code).toBe(3)
  expect(refused.stderr).toMatch(/flaky: its node could not serve block 5.*--force refetch/s)

  const { rewind } = JSON.parse(await project.succeed([...words, '--force', 'refetch'])) as {
    rewind: { finished: boolean; chains: { chain: string; cut: number | null }[] }
  }
  expect(rewind.finished).toBe(true)
  expect(Object.fromEntries(rewind.chains.map(({ chain, cut }) => [chain, cut]))).toEqual({
    early: null,
    flaky: 4,
    foreign: null,
    sound: 3,
  })
  await proxy.refuse(false)
  await project.reached({ flaky: 5, sound: 9, early: 9 })
  const flakyEvents = await project.query(`select height::int from event where chain = 'flaky' order by 1`)
  expect(flakyEvents.map(({ height }) => height)).toEqual([1, 2, 3, 4, 5])
})

test('no process ended for it, and no stack was printed', async () => {
  expect(logOf(supervisor).filter(({ msg }) => msg === 'worker was started')).toHaveLength(4)
  const { code, stdout, stderr } = await supervisor.stop()
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).not.toMatch(/\bat .*\.js:\d+/)
})
