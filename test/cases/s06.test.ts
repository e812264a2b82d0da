/*
 * Goal: a block that was in the making when a rewind began is not stored after it, however late its commit comes.
 * Method: block 501 of alpha takes three seconds: between its fetch and the start of its transaction (by a source that
 * answers late, in a worker that no notification reaches), and within the transaction (by a trigger that sleeps). The
 * operator asks one second in. Block n of alpha is 12 seconds after block n - 1.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ChainSource, chainKey, type Height, type SourceWish } from '@lockstep/domain'
import { evmChainOptions } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, Scene, transfer, transfers } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const TIME_OF_450 = 1_700_000_000 + 12 * 450

/** Alpha with a tip of 500, and beta with a tip of 900 and blocks 7 seconds apart. */
async function twoChains() {
  const node = await scene.evm(transfers(500))
  const other = await scene.evm(transfers(900), { seed: 2, blockTime: 7 })
  for (const { chain } of [node, other]) chain.finalizedDepth = 10
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [other.url], pollMs: 30 })
  const stage = await scene.deploy(alpha, beta)
  return { node, other, alpha, beta, stage }
}

interface Lateness {
  /** Block 501 was fetched. */
  fetched: boolean
  /** When it was handed to the worker, in milliseconds; its transaction comes next. */
  handedOver: number | null
}

/** Block 501 comes three seconds late, and nothing hurries it. */
function lateBlock(source: ChainSource, lateness: Lateness): ChainSource {
  return new Proxy(source, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      if (name === 'asking') return (wish: SourceWish) => lateBlock(target.asking(wish), lateness)
      if (name !== 'block') return member.bind(target)
      return async (at: Height) => {
        const block = await target.block(at)
        if (at !== 501 || block === null) return block
        lateness.fetched = true
        await sleep(3000)
        lateness.handedOver = Date.now()
        return block
      }
    },
  })
}

test('S06: a commit that comes after the chain was rewound is refused, and 451 is the next block', async () => {
  const { node, other, alpha, beta, stage } = await twoChains()
  const betaWorker = stage.work(beta)
  const lateness: Lateness = { fetched: false, handedOver: null }
  const through = (source: ChainSource) => lateBlock(source, lateness)
  const late = stage.workDeaf(alpha, { pollMs: 600_000, leaseMs: 600_000, through })
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  await betaWorker.stop() // so that the rewind is not released before the late commit

  node.extend([transfer(501)])
  await stage.until('block 501 in the making', async () => lateness.fetched)
  await sleep(1000)
  await stage.rewind(TIME_OF_450)
  // Another process takes the chain over and rewinds it: the late one is not asked.
  await stage.list(`update lease set expires_at = clock_timestamp() where name = 'chain:alpha'`)
  stage.work(alpha, { takeOverAfterMs: 600_000 })
  await stage.until('alpha to be rewound', async () => String(await stage.waitingFor()) === 'beta')

  expect(lateness.handedOver).toBe(null)
  await stage.until('the late commit to be refused', async () => {
    const sessions = await stage.list(
      `select 1 from pg_stat_activity where application_name = 'lockstep:' || $1 and state = 'idle'
         and state_change > to_timestamp($2::float8 / 1000)`,
      [late.db.holder, lateness.handedOver],
    )
    return sessions.length > 0
  })
  expect(await stage.checkpoint('alpha')).toMatchObject({ height: 450 })
  expect(
    await stage.list(`select height from event where chain = 'alpha' and height > 450
      union all select height from block where chain = 'alpha' and height > 450
      union all select height from header where chain = 'alpha' and height > 450
      union all select to_height from backfill_ranges where chain = 'alpha' and to_height > 450`),
  ).toEqual([])

  const asked = node.calls.length
  stage.work(beta)
  await stage.untilReleased()
  await stage.untilAt('alpha', headOf(node))
  const blocks = node.calls.slice(asked).flatMap(({ method, params }) => {
    if (method !== 'eth_getLogs') return []
    const [filter] = params as [{ fromBlock?: string }]
    return filter.fromBlock === undefined ? [] : [Number(filter.fromBlock)]
  })
  expect(Math.min(...blocks)).toBe(451)
  await stage.untilAt('beta', headOf(other))
  await stage.expectFresh(alpha, beta)
})

test('S06: where the three seconds lie within the transaction the request waits, and 501 is stored and then removed', async () => {
  const { node, other, alpha, beta, stage } = await twoChains()
  stage.work(alpha)
  stage.work(beta)
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  await stage.list(`create function sleep_at_501() returns trigger language plpgsql as $$
    begin if new.chain = 'alpha' and new.height = 501 then perform pg_sleep(3); end if; return new; end $$`)
  await stage.list(
    'create trigger slow before insert on event_alpha for each row execute function sleep_at_501()',
  )

  node.extend([transfer(501)])
  await stage.until(
    '501 being written',
    async () => (await stage.list(`select 1 from pg_stat_activity where wait_event = 'PgSleep'`)).length > 0,
  )
  await sleep(1000)
  await stage.rewind(TIME_OF_450)
  await stage.list('drop trigger slow on event_alpha')
  await stage.untilReleased()
  expect(
    await stage.rows(
      `select checkpoint_before as before, from_height as "from", cut, events_removed as events
       from rewind_chain where chain = 'alpha'`,
    ),
  ).toEqual([{ before: 501, from: 451, cut: 450, events: 51 }])
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('beta', headOf(other))
  await stage.expectFresh(alpha, beta)
})
