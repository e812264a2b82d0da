/**
 * Goal: the register keeps what a chain's facts were indexed under; an empty chain takes the config's; a chain with data
 * that is another one now stops. (What a worker makes of other changes: test/worker/config-changes.test.ts.)
 * Method: the register itself, and a real worker whose config was changed, with data and after a rewind to before them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { EvmChainOptions } from '@lockstep/config'
import { height } from '@lockstep/domain'
import { pause, requestRewind, resume } from '@lockstep/rewind'
import {
  adoptConfig,
  type Database,
  readChain,
  readConfigChange,
  refusedChange,
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
  const changeTo = (options: ReturnType<typeof chainOptions>) =>
    db.transaction((tx) => readConfigChange(tx, options))
  expect(await changeTo(chainOptions(ALPHA))).toBeNull()
  expect(await changeTo(changed)).toMatchObject({ start: { was: 0, is: 3 }, added: [], removed: [] })
  expect(refusedChange(stored, changed)).toBeNull()
  expect(refusedChange(stored, chainOptions(ALPHA, { chainId: '2' }))?.message).toBe(
    'Chain alpha: it was indexed with chainId 1, but the config now says 2.',
  )
})

test('a chain that was indexed before filters were recorded goes on under the same config, and stops under another', async () => {
  const writer = await writeBlocks(db, await takeChain(db, ALPHA), steady(0, 3))
  await db.transaction((tx) => tx.query('delete from chain_filter'))
  await expect(adoptConfig(db, writer, changed)).rejects.toMatchObject({ code: 'chain_changed' })
  const before = await readEverything(deployment, ['block', 'event', 'header', 'checkpoint'])
  expect(await adoptConfig(db, writer, chainOptions(ALPHA))).toMatchObject({
    gaps: [],
    removed: { events: 0 },
  })
  expect(await readEverything(deployment, ['block', 'event', 'header', 'checkpoint'])).toEqual(before)
  expect(await readRows(deployment, `select contract from chain_filter where chain = 'alpha'`)).toEqual([
    { contract: 'token' },
  ])
})

test('a config is taken over only by who holds the chain, and not during a pause', async () => {
  const writer = await writeBlocks(db, await takeChain(db, ALPHA), steady(0, 3))
  const before = await readEverything(deployment)
  await pause(db, { who: 'test', reason: null })
  await expect(adoptConfig(db, writer, changed)).rejects.toMatchObject({ code: 'write_refused' })
  await resume(db)
  const stranger = { ...writer, lease: { ...writer.lease, token: writer.lease.token + 1 } }
  await expect(adoptConfig(db, stranger, changed)).rejects.toMatchObject({ code: 'lease_lost' })
  await expect(adoptConfig(db, { ...writer, checkpoint: null }, changed)).rejects.toMatchObject({
    code: 'checkpoint_moved',
  })
  expect(await readEverything(deployment)).toEqual(before)
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
  const node = new SimulatedEvmNode({ chainId: Number(given.chainId ?? 1) })
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

test('a worker whose chain is another one now stops while there is data, and changes nothing', async () => {
  await withWorker({ blocks: 'all' }, () => isAt(20).then(() => {}))
  const facts = await readEverything(deployment, ['block', 'event', 'header'])
  await withWorker({ blocks: 'all', chainId: '2' }, async () => {
    await stoppedFor('it was indexed with')
    expect((await reason())?.reason).toContain('it was indexed with chainId 1')
    await sleep(300)
    expect(await readEverything(deployment, ['block', 'event', 'header'])).toEqual(facts)
  })
})

test('it still takes part in a rewind, waits for the other chains, and after one to before its data goes on under the new settings', async () => {
  await withWorker({ blocks: 'all' }, () => isAt(20).then(() => {}))
  const beta = await writeBlocks(db, await takeChain(db, BETA), steady(0, 3))
  await withWorker({ blocks: 'all', chainId: '2' }, async () => {
    await stoppedFor('it was indexed with')
    await requestRewind(db, requestOf(at(-1000)))
    await waitUntil(
      'alpha is done',
      async () => !(await globalKeys(deployment)).includes('rewind_timestamp_alpha'),
    )
    await waitUntil('it is paused', async () => (await reason())?.phase === 'paused')
    await rewindChain(db, beta)
    await isAt(20)
    expect(await registered()).toMatchObject({ chainId: '2' })
  })
})
