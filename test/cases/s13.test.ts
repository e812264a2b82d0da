/*
 * Goal: moments at and beyond the edges of a chain are defined.
 * Method: alpha has blocks 1000 (second 1,700,001,000) to 2000 (second 1,700,003,000); what is stored is read at the
 * step after the rewind's transaction, before anything is fetched again.
 */
import { resolveMoment } from '@lockstep/coordinator'
import { height, timeFromSeconds } from '@lockstep/domain'
import { evmChainOptions } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, Scene, transfers } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

test('S13: rewinds to before the first block, to it, after the head, and a day ahead', async () => {
  const node = await scene.evm(transfers(1000), { firstHeight: 1000, firstTime: 1_700_001_000, blockTime: 2 })
  node.chain.finalizedDepth = 10
  expect(node.chain.head).toMatchObject({ number: 2000, time: 1_700_003_000 })
  const alpha = evmChainOptions({ rpc: [node.url], startHeight: height(1000), blocks: 'all', pollMs: 30 })
  const stage = await scene.deploy(alpha)
  let seen: unknown
  let calls = 0
  stage.work(alpha, {
    onStep: async (step) => {
      if (step !== 'chain.committed') return
      const [row] = await stage.rows(
        `select (select height from checkpoint) as checkpoint, (select count(*) from event) as events,
           (select jsonb_agg(height) from (select height from block order by height limit 2) b) as blocks,
           (select count(*) from header where height not in (select height from block)) as headers`,
      )
      seen = row
      calls = node.calls.length
    },
  })
  const rewind = async (seconds: number) => {
    await stage.untilAt('alpha', headOf(node))
    await stage.rewind(seconds)
    await stage.untilReleased()
    await stage.untilAt('alpha', headOf(node))
    return seen
  }
  /** The lowest height that was asked for since the rewind. */
  const next = () =>
    Math.min(
      ...node.calls
        .slice(calls)
        .map(({ params }) => Number((params as unknown[])[0]))
        .filter((at) => at >= 0),
    )

  expect(await rewind(1_700_000_500)).toEqual({ checkpoint: null, events: 0, blocks: null, headers: 0 })
  expect(next()).toBe(1000)
  // Block 1000 itself holds no event.
  expect(await rewind(1_700_001_000)).toEqual({ checkpoint: 1000, events: 0, blocks: [1000], headers: 0 })
  const before = await stage.digestOf('alpha')
  expect(await rewind(1_700_009_999)).toMatchObject({ checkpoint: 2000, events: 1000 })
  expect(await stage.digestOf('alpha')).toEqual(before)
  const removed = await stage.list(
    `select blocks_removed + events_removed from rewind_chain join rewind on id = rewind_id
     order by requested_at desc limit 1`,
  )
  expect(removed).toEqual([0])

  const tomorrow = timeFromSeconds(Math.floor(Date.now() / 1000) + 86_400)
  await expect(resolveMoment(stage.db, { kind: 'time', time: tomorrow }, () => null)).rejects.toThrow(
    /lies ahead/,
  )
  expect(await stage.list('select key from _global')).toEqual(['epoch'])
  await stage.expectFresh(alpha)
})
