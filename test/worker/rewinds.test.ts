/*
 * Goal: whatever a worker is doing when all chains are asked to go back, it stops doing it, goes back exactly, waits
 * for the others, and goes on; and nothing of what it was doing is committed.
 *
 * Method: workers in this process follow simulated nodes over HTTP into a real database. A rewind is requested while
 * they backfill, commit, resolve a fork, hang, are stopped, or are lied to; afterwards the tables are compared with
 * those of a fresh index. Block n of a chain is 12 seconds after block n - 1; block 0 is at second 1,700,000,000.
 */
import { resolveMoment } from '@lockstep/coordinator'
import { chainKey, height, timeFromSeconds } from '@lockstep/domain'
import { evmChainOptions, startTcpProxy, waitUntil } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { cosmosChainOptions } from '../../packages/testkit/src/comet/index.js'
import { cometHeadOf, headOf, recordingLogger, Scene, type Stage, transfer, transfers } from './scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

/** Seconds of block n. */
const at = (block: number) => 1_700_000_000 + 12 * block

const audit = (stage: Stage) =>
  stage.rows(
    `select chain, checkpoint_before as before, from_height as "from", cut, events_removed as events
     from rewind_chain order by chain`,
  )

const count = async (stage: Stage, sql: string) => (await stage.list(`select count(*) from ${sql}`))[0]

test('S06: a block that is about to be committed when the rewind is recorded is refused inside its transaction', async () => {
  const node = await scene.evm(transfers(50))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  // The request holds the key until the worker's write queues for it: fetched before, begun during, refused after.
  await stage.rewind(at(45), async (step) => {
    if (step !== 'request.key_locked') return
    node.extend(transfers(1, 51))
    await stage.until('a write that waits for the key', () =>
      count(stage, `pg_locks where locktype = 'advisory' and mode = 'ShareLock' and not granted`).then(
        (n) => n === 1,
      ),
    )
  })
  await stage.untilAt('alpha', headOf(node))
  expect(await audit(stage)).toEqual([{ chain: 'alpha', before: 50, from: 46, cut: 45, events: 5 }])
  await stage.expectFresh(alpha)
})

test('S07: a stopped chain is waited for and rewinds before its first fetch; one below the moment is done at once', async () => {
  const [node, other] = [await scene.evm(transfers(41)), await scene.evm(transfers(4), { seed: 2 })]
  const { chain, node: cometNode } = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
  chain.extend(
    Array.from({ length: 40 }, (_, index) => ({
      time: timeFromSeconds(at(index)),
      txs: [{ events: [{ type: 'transfer', attributes: [['amount', String(index)]] as const }] }],
    })),
  )
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [other.url], pollMs: 30 })
  const gamma = cosmosChainOptions({ chain: chainKey('gamma'), rpc: [cometNode.url], pollMs: 30 })
  const stage = await scene.deploy(alpha, beta, gamma)
  const { logger, lines } = recordingLogger()
  stage.work(alpha, { takeOverAfterMs: 600_000 })
  stage.work(beta, { takeOverAfterMs: 600_000, logger })
  const stopped = stage.work(gamma)
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  await stage.untilAt('gamma', cometHeadOf(chain))
  await stopped.stop()

  const beta0 = await stage.digestOf('beta')
  const { rewindId } = await stage.rewind(at(10))
  await stage.until('gamma alone is awaited', async () => String(await stage.waitingFor()) === 'gamma')
  await stage.untilPhase('beta', 'paused', new RegExp(`rewind ${rewindId}: waiting for gamma`))
  await stage.untilPhase('alpha', 'paused', /waiting for gamma/)
  node.extend(transfers(3, 90))
  other.extend(transfers(3, 90))
  expect(await stage.digestOf('beta')).toEqual(beta0)
  expect((await stage.checkpoint('alpha')).height).toBe(10)

  const fetched = cometNode.server.countOf('block_results')
  let fetchedByRelease = 0
  stage.work(gamma, {
    onStep: (step) => {
      if (step === 'chain.released') fetchedByRelease = cometNode.server.countOf('block_results')
    },
  })
  await stage.untilReleased()
  expect(fetchedByRelease).toBe(fetched)
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  await stage.untilAt('gamma', cometHeadOf(chain))
  expect(await audit(stage)).toEqual([
    { chain: 'alpha', before: 41, from: 11, cut: 10, events: 31 },
    { chain: 'beta', before: 4, from: null, cut: 4, events: 0 },
    { chain: 'gamma', before: 40, from: 12, cut: 11, events: 29 },
  ])
  const told = lines.map(({ msg }) => msg).filter((msg) => /rewind|rewound|cut|paused|resumed/.test(msg))
  expect(told.filter((msg) => msg !== 'fetching is still paused')).toEqual([
    'chain rewind began',
    'cut was found',
    'chain was rewound',
    'fetching was paused',
    'fetching was resumed',
  ])
  await stage.expectFresh(alpha, beta, gamma)
})

test('S10: a worker that lost its notification connection finds the rewind by polling, and listens again', async () => {
  const node = await scene.evm(transfers(50))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const worker = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  const listeners = `pg_stat_activity where query like 'listen %' and application_name = 'lockstep:${worker.db.holder}'`
  const [before] = await stage.list(`select pid from ${listeners}`)
  await stage.list(`select pg_terminate_backend(pid) from ${listeners}`)
  await stage.rewind(at(20))
  node.extend(transfers(1, 60))
  await stage.untilReleased()
  await stage.untilAt('alpha', headOf(node))
  expect(await audit(stage)).toMatchObject([{ chain: 'alpha', before: 50, cut: 20 }])
  await stage.until('a new listener', async () => {
    const [pid] = await stage.list(`select pid from ${listeners}`)
    return pid !== undefined && pid !== before
  })
  await stage.expectFresh(alpha)
})

test('S10: a notice that was sent while a worker could not listen is made up for when it listens again', async () => {
  const node = await scene.evm(transfers(50))
  // It would look by itself only after ten minutes: what wakes it is the new connection.
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 600_000 })
  const stage = await scene.deploy(alpha)
  const direct = new URL(stage.deployment.url)
  const proxy = await startTcpProxy(direct.hostname, Number(direct.port))
  scene.later(() => proxy.stop())
  const proxied = new URL(direct)
  proxied.hostname = '127.0.0.1'
  proxied.port = String(proxy.port)
  stage.work(alpha, { url: proxied.href, pollMs: 600_000, leaseMs: 600_000 })
  await stage.untilAt('alpha', headOf(node))
  await stage.untilPhase('alpha', 'live')
  await proxy.refuse(true)
  proxy.cut()
  await stage.rewind(at(20))
  await proxy.refuse(false)
  await stage.untilReleased()
  expect(await audit(stage)).toMatchObject([{ chain: 'alpha', before: 50, cut: 20 }])
})

test('S13: moments at and beyond the edges of a chain are defined', async () => {
  // Block 1000 is the first: at second 1,700,001,000, and each block 2 seconds later.
  const node = await scene.evm(transfers(100), { firstHeight: 1000, firstTime: 1_700_001_000, blockTime: 2 })
  const alpha = evmChainOptions({ rpc: [node.url], startHeight: height(1000), pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  const cutOf = async (seconds: number) => {
    await stage.untilAt('alpha', headOf(node))
    await stage.list('truncate rewind_chain')
    await stage.rewind(seconds)
    await stage.untilReleased()
    return (await audit(stage)).map(({ from, cut }) => ({ from, cut }))
  }
  // Block 1000 holds no event and is long final: nothing below 1001 is stored.
  expect(await cutOf(1_700_000_500)).toEqual([{ from: 1001, cut: null }])
  expect(await cutOf(1_700_001_000)).toEqual([{ from: 1001, cut: 1000 }])
  expect(await cutOf(1_700_001_002)).toEqual([{ from: 1002, cut: 1001 }])
  expect(await cutOf(1_700_009_999)).toEqual([{ from: null, cut: 1100 }])
  await stage.untilAt('alpha', headOf(node))

  const tomorrow = timeFromSeconds(Math.floor(Date.now() / 1000) + 86_400)
  await expect(resolveMoment(stage.db, { kind: 'time', time: tomorrow }, () => null)).rejects.toThrow(
    /lies ahead/,
  )
  expect(await stage.list('select key from _global order by 1')).toEqual(['epoch'])
  await stage.expectFresh(alpha)
})

test('S14: neither the time zone of the process nor that of the database shifts a cut', async () => {
  const zone = process.env.TZ
  process.env.TZ = 'America/Chicago'
  scene.later(async () => {
    if (zone === undefined) delete process.env.TZ
    else process.env.TZ = zone
  })
  expect(new Date(1_700_000_000_000).getHours()).toBe(16)
  const node = await scene.evm(transfers(20), { firstTime: at(-10) }) // block 10 is at 1,700,000,000
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const database = new URL(stage.deployment.url).pathname.slice(1)
  await stage.list(`alter database "${database}" set timezone = 'Asia/Kolkata'`)
  const moved = { ...stage.deployment, url: stage.deployment.url }
  stage.work(alpha, { url: moved.url })
  await stage.untilAt('alpha', headOf(node))
  expect(
    await stage.list(
      'select extract(epoch from block_time)::bigint from block where height in (1, 20) order by height',
    ),
  ).toEqual([at(-9), at(10)])
  await stage.rewind(1_700_000_000)
  await stage.untilReleased()
  expect(await audit(stage)).toMatchObject([{ from: 11, cut: 10 }])
  const [stamp] = await stage.list('select timestamp from rewind')
  expect(stamp).toBe(timeFromSeconds(1_700_000_000))
})

test('a rewind in the middle of a backfill drops the range that is being fetched', async () => {
  const node = await scene.evm(transfers(3000))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  let ranges = 0
  // The third range waits until the rewind is recorded.
  let go: () => void = () => {}
  const recorded = new Promise<void>((resolve) => {
    go = resolve
  })
  node.answer('eth_getLogs', async (_, honest) => {
    ranges += 1
    if (ranges === 3) await recorded
    return honest()
  })
  stage.work(alpha)
  await stage.until('the third range', async () => ranges === 3)
  await stage.rewind(at(700))
  await stage.untilReleased()
  go()
  expect(await audit(stage)).toEqual([{ chain: 'alpha', before: 1999, from: 701, cut: 700, events: 1299 }])
  await stage.untilAt('alpha', headOf(node))
  expect(
    await stage.rows(
      `select from_height as "from", to_height as "to", status from backfill_ranges order by 1`,
    ),
  ).toEqual([{ from: 0, to: 2936, status: 'done' }])
  await stage.expectFresh(alpha)
})

test('a rewind that comes between the discovery of a fork and its rollback wins, and the fork is found again', async () => {
  const node = await scene.evm(transfers(60))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  let asked = 0
  let rewound = false
  // The walk down the stored blocks: its third question is answered once the rewind is recorded.
  node.answer('eth_getBlockByNumber', async ([block], honest) => {
    if (block === 'latest' || block === 'finalized' || rewound) return honest()
    asked += 1
    if (asked === 3) {
      await stage.rewind(at(57))
      rewound = true
    }
    return honest()
  })
  node.fork(10, transfers(12, 400))
  await stage.until('the rewind', async () => rewound)
  await stage.untilReleased()
  await stage.untilAt('alpha', headOf(node))
  expect(await audit(stage)).toEqual([{ chain: 'alpha', before: 60, from: 58, cut: 57, events: 3 }])
  expect(await stage.rows('select checkpoint_before, fork_point from rollback')).toEqual([
    { checkpoint_before: 57, fork_point: 50 },
  ])
  await stage.expectFresh(alpha)
})

/** What the worker asks for while a node stops answering: by the first parameter of the call. */
const HANGS: Readonly<Record<string, { readonly asked: string; readonly cause: 'extend' | 'fork' }>> = {
  'the head': { asked: 'latest', cause: 'extend' },
  'the next block': { asked: '0xe7', cause: 'extend' },
  'the fork point': { asked: '0xe4', cause: 'fork' },
}

for (const [what, { asked, cause }] of Object.entries(HANGS)) {
  test(`a node that hangs when asked for ${what} does not hold up a rewind`, async () => {
    const node = await scene.evm([
      ...transfers(20),
      ...Array.from({ length: 200 }, () => ({})),
      ...transfers(10),
    ])
    node.chain.finalizedDepth = 5
    const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
    const stage = await scene.deploy(alpha)
    stage.work(alpha, { searchTimeoutMs: 500 })
    await stage.untilAt('alpha', headOf(node))
    let hung = false
    node.disturb = (calls) => {
      hung ||= calls.some(({ params }) => (params as unknown[])[0] === asked)
      return hung ? { kind: 'hang' } : null
    }
    if (cause === 'extend') node.extend(transfers(1, 99))
    else node.fork(4, transfers(5, 99))
    await stage.until('the node to hang', async () => hung)
    await stage.rewind(at(120)) // between stored blocks: the exact cut would have to be asked for
    await stage.untilReleased(10_000) // a request to the node would end by itself only after 20 s
    expect(await audit(stage)).toMatchObject([{ chain: 'alpha', before: 230, from: 221, cut: 20 }])
    node.disturb = () => null
    node.dropConnections()
    await stage.untilAt('alpha', headOf(node))
    await stage.expectFresh(alpha)
  })
}

test('a chain that rests between two polls finds a rewind whose notification never came', async () => {
  const node = await scene.evm(transfers(50))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 600_000 })
  const stage = await scene.deploy(alpha)
  stage.workDeaf(alpha)
  await stage.untilAt('alpha', headOf(node))
  await stage.untilPhase('alpha', 'live')
  await stage.rewind(at(20))
  await stage.untilReleased(20_000)
  expect(await audit(stage)).toMatchObject([{ chain: 'alpha', before: 50, cut: 20 }])
})

test('a node that gives wrong headers during a rewind removes nothing more, and its cut is left again', async () => {
  const node = await scene.evm([
    ...transfers(20),
    ...Array.from({ length: 200 }, () => ({})),
    ...transfers(10),
  ])
  node.chain.finalizedDepth = 5
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  let lies = true
  stage.work(alpha, {
    onStep: (step) => {
      if (step === 'chain.committed') lies = false
    },
  })
  await stage.untilAt('alpha', headOf(node))
  node.answer('eth_getBlockByNumber', ([block], honest) => {
    const header = honest() as Record<string, unknown> | null
    const tag = typeof block === 'string' && !block.startsWith('0x')
    return lies && !tag && header !== null ? { ...header, hash: `0x${'1e'.repeat(32)}` } : header
  })
  await stage.rewind(at(120))
  await stage.untilReleased()
  await stage.untilAt('alpha', headOf(node))
  expect(await audit(stage)).toMatchObject([{ chain: 'alpha', from: 221, events: 10 }])
  await stage.expectFresh(alpha)
})

test('rewinds on a chain whose times repeat and fall remove from the first block after the moment', async () => {
  const times = [10, 20, 20, 20, 50, 40, 30, 60, 60, 70]
  const node = await scene.evm(
    times.map((time, index) => transfer(index + 1, { time: 1_700_000_000 + time })),
  )
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  const cuts: Record<number, unknown> = {}
  for (const moment of [70, 65, 60, 45, 35, 20, 19]) {
    await stage.untilAt('alpha', headOf(node))
    await stage.list('truncate rewind_chain')
    await stage.rewind(1_700_000_000 + moment)
    await stage.untilReleased()
    cuts[moment] = (await audit(stage))[0]?.cut
  }
  // Blocks 1 to 10 in order of the list.
  expect(cuts).toEqual({ 70: 10, 65: 9, 60: 9, 45: 4, 35: 4, 20: 4, 19: 1 })
  await stage.untilAt('alpha', headOf(node))
  await stage.expectFresh(alpha)
})

test('a pause that an operator writes into _global stops every write until it is taken away', async () => {
  const node = await scene.evm(transfers(30))
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await stage.list(
    `insert into _global (key, value, "createdAt", "updatedAt") values ('pause',
      '{"who": "ops", "reason": "disk", "since": "2026-01-01T00:00:00.000000Z"}', now(), now())`,
  )
  await stage.untilPhase('alpha', 'paused', /paused by ops/)
  const before = await stage.digestOf('alpha')
  node.fork(3, transfers(6, 300))
  const calls = node.httpRequests
  await stage.until('some polls', async () => {
    const [age] = await stage.list(
      `select extract(epoch from clock_timestamp() - "createdAt") > 2 from _global where key = 'pause'`,
    )
    return age
  })
  expect(node.httpRequests).toBe(calls)
  expect(await stage.digestOf('alpha')).toEqual(before)
  await stage.list(`delete from _global where key = 'pause'`)
  await stage.untilAt('alpha', headOf(node))
  await stage.expectFresh(alpha)
})

test('a stopped chain takes part in a rewind, and one to below its reason sets it going again', async () => {
  const node = await scene.evm(transfers(60))
  const alpha = evmChainOptions({ rpc: [node.url], rollbackDepthMax: 5, pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  node.fork(20, transfers(25, 600)) // from 41 on
  await stage.untilPhase('alpha', 'stopped', /no longer agrees/)

  await stage.rewind(at(50))
  await stage.untilReleased()
  expect((await stage.checkpoint('alpha')).height).toBe(50)
  await stage.untilPhase('alpha', 'stopped', /no longer agrees/) // 41 to 50 are still of the old branch

  await stage.rewind(at(40))
  await stage.untilReleased()
  await stage.untilAt('alpha', headOf(node))
  await stage.expectFresh(alpha)
})

test('a rewind is finished by the next worker where the one that was on it left', async () => {
  const [node, other] = [await scene.evm(transfers(40)), await scene.evm(transfers(40), { seed: 3 })]
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [other.url], pollMs: 30 })
  const stage = await scene.deploy(alpha, beta)
  let entered = false
  let leave: () => void = () => {}
  const left = new Promise<void>((resolve) => {
    leave = resolve
  })
  const first = stage.work(alpha, {
    onStep: async (step) => {
      if (step !== 'chain.removed') return
      entered = true
      await left
      throw new Error('gone in the middle')
    },
  })
  stage.work(beta, { takeOverAfterMs: 600_000 })
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  await stage.rewind(at(25))
  await waitUntil('the removal', () => entered)
  await stage.until('beta to wait', async () => String(await stage.waitingFor()) === 'alpha')
  leave()
  await expect(first.ended).rejects.toThrow('gone in the middle')
  expect(await stage.list(`select max(height) from event where chain = 'alpha'`)).toEqual([40]) // undone
  expect(await stage.waitingFor()).toEqual(['alpha'])
  stage.work(alpha)
  await stage.untilReleased()
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  await stage.expectFresh(alpha, beta)
})

test('waiting workers carry out a chain that has no worker, from the database alone', async () => {
  const [node, other] = [await scene.evm(transfers(40)), await scene.evm(transfers(40), { seed: 3 })]
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [other.url], pollMs: 30 })
  const stage = await scene.deploy(alpha, beta)
  const first = stage.work(alpha)
  const second = stage.work(beta, { takeOverAfterMs: 300 })
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  await first.stop()
  await node.stop()
  await stage.rewind(at(25))
  await stage.untilReleased()
  expect(await stage.checkpoint('alpha')).toMatchObject({ height: 25 })
  expect(await stage.list(`select carried_out_by from rewind_chain where chain = 'alpha'`)).toEqual([
    second.db.holder,
  ])
})
