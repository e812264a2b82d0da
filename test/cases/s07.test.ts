/*
 * Goal: a chain whose worker is stopped is waited for, and rewinds when it starts, before it fetches anything; one that
 * lies below the target takes part without losing a row.
 * Method: a real `lockstep worker` a chain, and `lockstep rewind --detach`, with `takeOverAfter` above the wait, so that
 * nobody does gamma's part. The wait is LOCKSTEP_CASES_WAIT_S seconds, 3 where it is not set; 60 in the case.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { timeFromSeconds } from '@lockstep/domain'
import { type SimulatedCometNode, waitUntil } from '@lockstep/testkit'
import pg from 'pg'
import { afterEach, expect, test } from 'vitest'
import { Project } from '../e2e/kit/project.js'
import { Scene, transfers } from '../worker/scene.js'
import { servedCosmos, servedEvm } from './served-chains.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const WAIT_MS = 1000 * Number(process.env.LOCKSTEP_CASES_WAIT_S ?? 3)
const T = 1_700_000_000
const REWIND = { pollInterval: '300ms', searchTimeout: '5s', writeTimeout: '3s', takeOverAfter: '2m' }

/** Tips at seconds T + 500 (alpha), T + 50 (beta) and T + 400 (gamma); all blocks are ten seconds apart. */
async function threeChains() {
  const alpha = await scene.evm(transfers(50), { firstTime: T, blockTime: 10 })
  const beta = await scene.evm(transfers(5), { firstTime: T, blockTime: 10, chainId: 2, seed: 2 })
  const { chain, node: gamma } = await scene.comet({ chainId: 'gamma-1', version: '0.38.17' })
  const block = (index: number) => ({
    time: timeFromSeconds(T + 10 * index),
    txs: [{ events: [{ type: 'transfer', attributes: [['n', String(index)]] as const }] }],
  })
  chain.extend(Array.from({ length: 41 }, (_, index) => block(index)))
  const project = await Project.create(
    [servedEvm('alpha', alpha), servedEvm('beta', beta), servedCosmos('gamma', gamma)],
    { settings: { rewind: REWIND, lease: { time: '1m' } } },
  )
  scene.later(() => project.close())
  const extend = () => {
    alpha.extend(transfers(2, 900))
    beta.extend(transfers(2, 900))
    chain.extend([block(41), block(42)])
  }
  return { gamma, project, extend }
}

/** How many rows the rewind still had each time that gamma's node was asked for what a block holds. */
function watchFetches(project: Project, gamma: SimulatedCometNode): number[] {
  const pool = new pg.Pool({ connectionString: project.database.url })
  scene.later(() => pool.end())
  const open: number[] = []
  gamma.override('block_results', async (_, honest) => {
    const keys = `select from lockstep._global where key in ('rewind_lock', 'rewind_timestamp_gamma')`
    open.push((await pool.query(keys)).rowCount ?? 0)
    return honest()
  })
  return open
}

test('S07: a stopped chain is the one awaited, and rewinds before its first fetch; beta, below the target, loses nothing', async () => {
  const { gamma, project, extend } = await threeChains()
  await project.succeed(['migrate'])
  const [, , stopped] = await Promise.all(['alpha', 'beta', 'gamma'].map((chain) => project.worker(chain)))
  await project.reached({ alpha: 50, beta: 5, gamma: 41 })
  await stopped?.stop()
  const factsOf = (chain: string) =>
    project.query(
      `select height, hash from block where chain = $1 union all select height, block_hash from event
      where chain = $1 order by 1`,
      [chain],
    )
  const beta = await factsOf('beta')

  await project.succeed(['rewind', '--to', `@${T + 100}`, '--yes', '--detach', '--force', 'no-worker'])
  await waitUntil('alpha and beta to be done', async () => {
    const { rewind } = await project.status()
    return rewind?.waitingFor.join() === 'gamma'
  })
  extend()
  await sleep(WAIT_MS)
  const status = await project.status()
  expect(status.rewind?.waitingFor).toEqual(['gamma'])
  expect(status.chains.map(({ chain, phase, checkpoint }) => ({ chain, phase, checkpoint }))).toMatchObject([
    { chain: 'alpha', phase: 'paused', checkpoint: 10 },
    { chain: 'beta', phase: 'paused', checkpoint: 5 },
    { chain: 'gamma' },
  ])
  expect(await project.count(`_global where key = 'rewind_lock'`)).toBe(1)
  expect(await factsOf('beta')).toEqual(beta)

  const fetches = watchFetches(project, gamma)
  await project.worker('gamma')
  await project.released()
  await project.reached({ alpha: 52, beta: 7, gamma: 43 })
  expect(fetches.length).toBeGreaterThan(0)
  expect(new Set(fetches)).toEqual(new Set([0]))
  const audit = await project.query(
    'select chain, cut::int, from_height::int as "from", events_removed::int as events from rewind_chain order by chain',
  )
  expect(audit).toEqual([
    { chain: 'alpha', cut: 10, from: 11, events: 40 },
    { chain: 'beta', cut: 5, from: null, events: 0 },
    { chain: 'gamma', cut: 11, from: 12, events: 30 },
  ])
})
