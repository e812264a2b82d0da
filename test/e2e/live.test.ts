/**
 * Goal: three live chains are followed by one process each, and whatever moment they are taken back to, they end with
 * the tables of a fresh index; meanwhile nobody writes. Method: two Anvils with transfers going on and a CometBFT node
 * (a simulated one where the machine has none), `lockstep start`, one rewind after the other, a reader with its own
 * connection, and at the end a fresh index of the same chains.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Program, waitUntil } from '@lockstep/testkit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addressFor,
  blockTimeOf,
  type CosmosChain,
  type EvmChain,
  keepDoing,
  startCosmos,
  startEvm,
} from './kit/chains.js'
import { readPauses } from './kit/pause-reader.js'
import { logOf, workerPid } from './kit/processes.js'
import { Project } from './kit/project.js'

let alpha: EvmChain
let beta: EvmChain
let gamma: CosmosChain
let project: Project
let indexer: Program
const quiet: (() => Promise<void>)[] = []

beforeAll(async () => {
  alpha = await startEvm('alpha', { chainId: 1001, blockTime: 1 })
  beta = await startEvm('beta', { chainId: 1002, blockTime: 2 }, { blocks: 'all' })
  gamma = await startCosmos('gamma', {}, 500)
  for (const { token } of [alpha, beta])
    quiet.push(keepDoing(() => token.transfer(addressFor(Date.now()), 1n), 150))
  quiet.push(keepDoing(() => gamma.add(`name-${Date.now()}`), 300))
  project = await Project.create([alpha, beta, gamma], {
    settings: { lease: { time: '20s' } }, // one worker is frozen for a while, and keeps its chain
  })
  indexer = project.lockstep(['start'])
  await allLive()
})

afterAll(async () => {
  for (const end of quiet) await end()
  await project?.close()
  for (const chain of [alpha, beta, gamma]) await chain?.stop()
})

const allLive = () =>
  waitUntil(
    'all chains live',
    async () => {
      const { code, stdout } = await project.run(['status', '--json'])
      if (code !== 0) return false // not migrated yet
      const { chains } = JSON.parse(stdout) as { chains: { phase: string; lagBlocks: number | null }[] }
      return chains.length === 3 && chains.every((c) => c.phase === 'live' && (c.lagBlocks ?? 9) <= 3)
    },
    90_000,
    200,
  )

const eventsOf = (chain: string) => project.count('event where chain = $1', [chain])

/** Rewinds attached, and gives what the command says in JSON. */
const rewindTo = async (to: string) =>
  JSON.parse(await project.succeed(['rewind', '--to', to, '--yes', '--json', '--reason', to])) as {
    plan: { timestamp: string }
    rewind: { finished: boolean; outcome: string; chains: { chain: string; cut: number | null }[] }
  }

const microseconds = (time: string): string => `${time.replace(/Z$/, '').padEnd(26, '0').slice(0, 26)}Z`

describe('three live chains', () => {
  test('each is followed by a process of its own', async () => {
    console.info(`cosmos chain: ${gamma.kind}`)
    const pids = await Promise.all(['alpha', 'beta', 'gamma'].map((chain) => workerPid(indexer, chain)))
    expect(new Set([...pids, indexer.pid]).size).toBe(4)
    const { chains } = await project.status()
    expect(chains.map(({ chain, phase }) => `${chain} ${phase}`)).toEqual([
      'alpha live',
      'beta live',
      'gamma live',
    ])
    expect(new Set(chains.map(({ worker }) => worker)).size).toBe(3)
  })

  test('nobody writes while one chain keeps the others waiting, though all chains go on', async () => {
    await waitUntil('some events', async () => (await eventsOf('alpha')) > 8)
    const pid = await workerPid(indexer, 'beta')
    const reader = await readPauses(project.database.url)
    process.kill(pid, 'SIGSTOP')
    const headBefore = Number(await alpha.anvil.rpc<string>('eth_blockNumber'))
    try {
      await project.succeed(['rewind', '--to', '-4s', '--yes', '--detach'])
      await sleep(3000) // alpha and gamma are back, and have new blocks that they may not take
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await project.released()
    await reader.stop()
    expect(Number(await alpha.anvil.rpc<string>('eth_blockNumber'))).toBeGreaterThan(headBefore)

    for (const chain of ['alpha', 'beta', 'gamma']) {
      const samples = reader.looks.flatMap((look) => look.filter((each) => each.chain === chain))
      const before = samples.filter((each) => each.waiting)
      const after = samples.filter((each) => !each.waiting)
      expect(samples.map((each) => each.waiting)).toEqual([
        ...before.map(() => true),
        ...after.map(() => false),
      ])
      // Untouched until it is back; then nothing after the moment, and not one row more.
      expect(
        new Set(before.map((each) => `${each.checkpoint} ${each.events} ${each.blocks}`)).size,
      ).toBeLessThan(2)
      expect(
        new Set(after.map((each) => `${each.checkpoint} ${each.events} ${each.blocks}`)).size,
      ).toBeLessThan(2)
      expect(after.filter((each) => each.late > 0)).toEqual([])
    }
    const waitingForBeta = reader.looks.filter(
      (look) =>
        look
          .filter((each) => each.waiting)
          .map((each) => each.chain)
          .join() === 'beta',
    )
    expect(waitingForBeta.length).toBeGreaterThan(20)
    await allLive()
  })

  test('a block is a moment: its own time, on every chain', async () => {
    const height = ((await project.chainStatus('beta')).checkpoint ?? 0) - 2
    const { plan, rewind } = await rewindTo(`beta:${height}`)
    expect(plan.timestamp).toBe(microseconds(await blockTimeOf(beta, height)))
    expect(rewind).toMatchObject({ finished: true, outcome: 'started' })
    expect(rewind.chains.map(({ chain }) => chain)).toEqual(['alpha', 'beta', 'gamma'])
    expect(rewind.chains.find(({ chain }) => chain === 'beta')?.cut).toBe(height)
    await allLive()
  })

  test('a block of the Cosmos chain is one too', async () => {
    const height = ((await project.chainStatus('gamma')).checkpoint ?? 0) - 4
    const { plan, rewind } = await rewindTo(`gamma:${height}`)
    expect(plan.timestamp).toBe(microseconds(await blockTimeOf(gamma, height)))
    expect(rewind.chains.find(({ chain }) => chain === 'gamma')?.cut).toBe(height)
    await allLive()
  })

  test('a transaction is a moment: the time of its block', async () => {
    const [event] = await project.query<{ tx: string; height: string }>(
      `select '0x' || encode(tx_hash, 'hex') as tx, height from event where chain = 'alpha'
       order by height desc offset 3 limit 1`,
    )
    const height = Number(event?.height)
    const { plan, rewind } = await rewindTo(`alpha:${event?.tx}`)
    expect(plan.timestamp).toBe(microseconds(await blockTimeOf(alpha, height)))
    expect(rewind.chains.find(({ chain }) => chain === 'alpha')?.cut).toBe(height)
    await allLive()
  })

  test('a span is a moment: so long before now', async () => {
    const before = Date.now()
    const { plan, rewind } = await rewindTo('-5s')
    const moment = Date.parse(plan.timestamp) + 5000
    expect(moment).toBeGreaterThanOrEqual(before - 50)
    expect(moment).toBeLessThanOrEqual(Date.now() + 50)
    expect(rewind.finished).toBe(true)
    await allLive()
  })

  test('in the end the tables are those of a fresh index, row by row', async () => {
    for (const end of quiet.splice(0)) await end()
    const heads = {
      alpha: Number(await alpha.anvil.rpc<string>('eth_blockNumber')),
      beta: Number(await beta.anvil.rpc<string>('eth_blockNumber')),
      gamma: (await project.chainStatus('gamma')).head ?? 0,
    }
    await project.reached(heads)
    const { code, stderr } = await indexer.stop()
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    await project.indexAfresh()
    const { rows, differences } = await project.compareWithFresh()
    expect(differences).toEqual([])
    expect(rows.checkpoint).toBe(3)
    expect(rows.event).toBeGreaterThan(30)
    expect(logOf(indexer).filter((line) => ['warn', 'error', 'fatal'].includes(line.level))).toEqual([])
    expect(await project.count('rewind where finished_at is not null')).toBe(5)
  })
})
