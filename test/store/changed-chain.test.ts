/**
 * Goal: a chain goes on only under the settings that its facts were indexed with; an empty one takes the config's.
 * Method: the register itself, and a real worker whose config was changed, with data and after a rewind to before them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { EvmChainOptions } from '@lockstep/config'
import { height } from '@lockstep/domain'
import { requestRewind } from '@lockstep/rewind'
import {
  chainChanged,
  chainChangedError,
  type Database,
  readChain,
  registerChains,
  writeBatch,
} from '@lockstep/store'
import { evmChainOptions, SimulatedEvmNode, waitUntil } from '@lockstep/testkit'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployment, type Deployment } from '../kit/deployment.js'
import { type InProcessWorker, startWorker } from '../kit/in-process-worker.js'
import { requestOf, rewindChain } from '../protocol/chain-rewind.js'
import { checkpointHeight, globalKeys, readEverything, readRows } from './read-rows.js'
import {
  ALPHA,
  at,
  BETA,
  batchOf,
  block,
  chainOptions,
  steady,
  takeChain,
  withEvents,
  writeBlocks,
} from './written-chain.js'

let deployment: Deployment
let db: Database

beforeEach(async () => {
  deployment = await createDeployment([chainOptions(ALPHA), chainOptions(BETA)])
  db = deployment.open()
})
afterEach(() => deployment.drop())

const registered = () => db.transaction((tx) => readChain(tx, ALPHA))
const changed = chainOptions(ALPHA, { startHeight: height(3), filterDigest: 'another filter' })

test('registering a chain again changes nothing', async () => {
  await writeBlocks(db, await takeChain(db, ALPHA), steady(0, 3))
  const before = await readEverything(deployment)
  await registerChains(db, [chainOptions(ALPHA), chainOptions(BETA)])
  expect(await readEverything(deployment)).toEqual(before)
})

test('an empty chain takes the settings of the config, and a writer with the old ones is refused', async () => {
  const old = await takeChain(db, ALPHA)
  await registerChains(db, [changed])
  expect(await registered()).toMatchObject({ startHeight: 3, filterDigest: 'another filter' })
  await expect(writeBatch(db, old, batchOf([withEvents(block(0, 0))]))).rejects.toMatchObject({
    code: 'lease_lost',
  })
})

test('a chain with data keeps its settings, and the difference is named', async () => {
  await writeBlocks(db, await takeChain(db, ALPHA), steady(0, 3))
  await registerChains(db, [changed])
  const stored = await registered()
  if (stored === null) throw new Error('alpha is registered')
  expect(stored).toMatchObject({ startHeight: 0, filterDigest: 'test' })
  expect(chainChanged(stored, chainOptions(ALPHA))).toBe(false)
  expect(chainChanged(stored, changed)).toBe(true)
  expect(chainChangedError(stored, changed).message).toBe(
    'Chain alpha: it was indexed with startHeight, contracts, events or blocks (digest) 0, test, ' +
      'but the config now says 3, another filt.',
  )
})

test('registering two chains at once, many times, gives each one partition', async () => {
  const delta = chainOptions('delta' as typeof ALPHA)
  await Promise.all([1, 2, 3, 4].map(() => registerChains(deployment.open(), [delta, chainOptions(ALPHA)])))
  const partitions = await readRows(deployment, `select relname from pg_class where relname = 'event_delta'`)
  expect(partitions).toHaveLength(1)
})

// ---- a worker whose config was changed --------------------------------------------------------------------------

const reason = () =>
  readRows<{ phase: string; reason: string }>(
    deployment,
    `select phase, reason from chain_status where chain = 'alpha'`,
  ).then(([row]) => row)

/** The row is also that of the worker before, until this one says something. */
const stoppedFor = (why: string) =>
  waitUntil(`alpha was stopped: ${why}`, async () => {
    const row = await reason()
    return row?.phase === 'stopped' && (row.reason ?? '').includes(why)
  })

async function withWorker(
  given: Partial<EvmChainOptions>,
  use: (worker: InProcessWorker) => Promise<void>,
): Promise<void> {
  const node = new SimulatedEvmNode({ chainId: 1 })
  node.extend(20)
  const options = evmChainOptions({ rpc: [await node.start()], ...given })
  const worker = startWorker(deployment, options, { pollMs: 100, takeOverAfterMs: 600_000 })
  try {
    await use(worker)
  } finally {
    await worker.stop()
    await node.stop()
  }
}
const isAt = (h: number) =>
  waitUntil(`alpha is at ${h}`, async () => (await checkpointHeight(deployment, 'alpha')) === h)

test('a worker whose config was changed stops while there is data, and changes nothing', async () => {
  await withWorker({ blocks: 'all' }, () => isAt(20).then(() => {}))
  const facts = await readEverything(deployment, ['block', 'event', 'header'])
  await withWorker({ blocks: 'all', filterDigest: 'another filter' }, async () => {
    await stoppedFor('it was indexed with')
    expect((await reason())?.reason).toContain(
      'it was indexed with contracts, events or blocks (digest) test',
    )
    await sleep(300)
    expect(await readEverything(deployment, ['block', 'event', 'header'])).toEqual(facts)
  })
})

test('it still takes part in a rewind, waits for the other chains, and after one to before its data goes on under the new settings', async () => {
  await withWorker({ blocks: 'all' }, () => isAt(20).then(() => {}))
  const beta = await writeBlocks(db, await takeChain(db, BETA), steady(0, 3))
  await withWorker({ blocks: 'all', filterDigest: 'another filter' }, async () => {
    await stoppedFor('it was indexed with')
    await requestRewind(db, requestOf(at(-1000)))
    await waitUntil(
      'alpha is done',
      async () => !(await globalKeys(deployment)).includes('rewind_timestamp_alpha'),
    )
    await waitUntil('it is paused', async () => (await reason())?.phase === 'paused')
    await rewindChain(db, beta)
    await isAt(20)
    expect(await registered()).toMatchObject({ filterDigest: 'another filter' })
  })
})
