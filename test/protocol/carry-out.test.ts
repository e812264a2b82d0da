/**
 * Goal: nobody is waited for in vain, and nobody who is at work is disturbed.
 * Method: chains with and without a holder, a holder that comes back in the middle, two helpers at once, and a real
 * worker that waits for a chain that has none.
 */
import type { ChainKey } from '@lockstep/domain'
import { type CarryOutOptions, carryOutFreeChains, requestRewind } from '@lockstep/rewind'
import { acquireChainLease, type Database, readRewindState } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { evmChainOptions, SimulatedEvmNode, waitUntil } from '@lockstep/testkit'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { startWorker } from '../kit/in-process-worker.js'
import { checkpointHeight, globalKeys, readRows, storedHeights } from '../store/read-rows.js'
import {
  ALPHA,
  at,
  BETA,
  chainOptions,
  GAMMA,
  steady,
  takeChain,
  writeBlocks,
} from '../store/written-chain.js'
import { requestOf, rewindChain } from './chain-rewind.js'
import { Gate } from './gate.js'

const CHAINS = [ALPHA, BETA, GAMMA]
let deployment: Deployment
let helper: Database
let worker: Database

beforeEach(async () => {
  deployment = await createDeployment(CHAINS.map((chain) => chainOptions(chain)))
  helper = deployment.open()
  worker = deployment.open()
  for (const chain of CHAINS) {
    await writeBlocks(worker, await takeChain(worker, chain), steady(0, 10))
    await endLease(chain)
  }
})
afterEach(() => deployment.drop())

const endLease = (chain: ChainKey) =>
  readRows(deployment, `update lease set expires_at = clock_timestamp() where name = 'chain:' || $1`, [chain])
const carryOut = (db: Database, more: Partial<CarryOutOptions> = {}) =>
  carryOutFreeChains(db, {
    leaseMs: 60_000,
    sourceOf: () => null,
    timeoutMs: 0,
    logger: silentLogger(),
    ...more,
  })
const waitingFor = async () => (await helper.transaction(readRewindState)).waitingFor.map((row) => row.chain)

test('all chains without a worker are carried out, released, and their leases given back', async () => {
  await requestRewind(helper, requestOf(at(5)))
  expect(await carryOut(helper)).toEqual(CHAINS)
  expect(await globalKeys(deployment)).toEqual(['epoch'])
  for (const chain of CHAINS) expect(await checkpointHeight(deployment, chain)).toBe(5)
  expect(await readRows(deployment, 'select name from lease where holder is not null')).toEqual([])
  const audit = await readRows(deployment, 'select distinct carried_out_by from rewind_chain')
  expect(audit).toEqual([{ carried_out_by: helper.holder }])
})

test('a chain whose holder lives is not touched', async () => {
  const alpha = await takeChain(worker, ALPHA)
  await requestRewind(helper, requestOf(at(5)))
  expect(await carryOut(helper)).toEqual([BETA, GAMMA])
  expect(await waitingFor()).toEqual([ALPHA])
  expect(await checkpointHeight(deployment, 'alpha')).toBe(10)
  expect(await carryOut(helper)).toEqual([])
  expect(await rewindChain(worker, alpha)).toMatchObject({ released: true })
})

test('without a rewind there is nothing to carry out', async () => {
  expect(await carryOut(helper)).toEqual([])
  expect(await readRows(deployment, `select from lease where holder = $1`, [helper.holder])).toEqual([])
})

test('two helpers at once carry out each chain once', async () => {
  await requestRewind(helper, requestOf(at(5)))
  const done = await Promise.all([carryOut(helper), carryOut(worker)])
  while ((await waitingFor()).length > 0) done.push(await carryOut(helper)) // those that one had while the other asked
  expect(done.flat().sort()).toEqual(CHAINS)
  const audit = await readRows(deployment, 'select chain, blocks_removed from rewind_chain order by chain')
  expect(audit).toEqual(CHAINS.map((chain) => ({ chain, blocks_removed: '5' })))
  expect(await globalKeys(deployment)).toEqual(['epoch'])
})

test('a worker that comes back while its chain is carried out waits for the lease, and finds the work done', async () => {
  await requestRewind(helper, requestOf(at(5)))
  const gate = new Gate()
  const helping = carryOut(helper, { onStep: (step) => (step === 'chain.removed' ? gate.pass() : undefined) })
  await gate.reached
  expect(await acquireChainLease(worker, ALPHA, 1000)).toMatchObject({ holder: helper.holder })
  gate.open()
  expect(await helping).toEqual(CHAINS)
  expect((await takeChain(worker, ALPHA)).checkpoint?.height).toBe(5)
})

test('a helper whose lease went to the returning worker leaves that chain to it and goes on with the others', async () => {
  await requestRewind(helper, requestOf(at(5)))
  const gate = new Gate()
  const helping = carryOut(helper, {
    onStep: (step) => (step === 'chain.cut_found' ? gate.pass() : undefined),
  })
  await gate.reached
  await endLease(ALPHA) // as where the helper slept
  const alpha = await takeChain(worker, ALPHA)
  gate.open()
  expect(await helping).toEqual([BETA, GAMMA])
  expect(await rewindChain(worker, alpha)).toMatchObject({ outcome: 'done', released: true })
})

test('a chain that is done when its lease comes free is left alone', async () => {
  const alpha = await takeChain(worker, ALPHA)
  await requestRewind(helper, requestOf(at(5)))
  await rewindChain(worker, alpha)
  await endLease(ALPHA)
  expect(await carryOut(helper)).toEqual([BETA, GAMMA])
})

test('a request that deepens while a helper is at work is carried out as well', async () => {
  await requestRewind(helper, requestOf(at(5)))
  const gate = new Gate()
  const helping = carryOut(helper, { onStep: (step) => (step === 'chain.removed' ? gate.pass() : undefined) })
  await gate.reached
  await requestRewind(worker, requestOf(at(2)))
  gate.open()
  await helping
  while ((await waitingFor()).length > 0) await carryOut(helper)
  for (const chain of CHAINS) expect(await storedHeights(deployment, chain)).toEqual([0, 1, 2])
  expect(await globalKeys(deployment)).toEqual(['epoch'])
})

test('a worker that waits too long carries out the chain that has none, and goes on', async () => {
  const node = new SimulatedEvmNode({ chainId: 1 })
  node.extend(20)
  const rpc = await node.start()
  const delta = evmChainOptions({ rpc: [rpc], chain: 'delta' as ChainKey })
  const other = await createDeployment([delta, chainOptions(BETA)])
  const running = startWorker(other, delta, { takeOverAfterMs: 600, leaseMs: 3000 })
  try {
    const db = other.open()
    await writeBlocks(db, await takeChain(db, BETA, 1), steady(0, 200))
    const reached = (h: number) =>
      waitUntil(`delta is at ${h}`, async () => (await checkpointHeight(other, 'delta')) === h)
    await reached(20)
    const { rewindId } = await requestRewind(db, requestOf(at(120)))
    await waitUntil('the rewind is over', async () => (await globalKeys(other)).length === 1)
    const audit = await readRows(
      other,
      'select chain, cut, carried_out_by from rewind_chain where rewind_id = $1 order by chain',
      [rewindId],
    )
    const by = running.db.holder
    expect(audit).toEqual([
      { chain: 'beta', cut: '120', carried_out_by: by },
      { chain: 'delta', cut: '10', carried_out_by: by },
    ])
    await reached(20) // released, and up to the head again
    expect(await storedHeights(other, 'beta')).toHaveLength(121)
  } finally {
    await running.stop()
    await node.stop()
    await other.drop()
  }
})
