/*
 * Goal: a chain that reorganises in the middle of a backfill is repaired, and the backfill is not called complete before.
 * Method: a worker fetches 101..1000 in ranges of 200, so that one ends at block 900; as the node is asked for 901 it
 * has forked from 880. A trigger notes how many rollbacks there were whenever the chain's phase is written.
 */
import { height } from '@lockstep/domain'
import { evmChainOptions } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { Scene, type Stage, transfer, transfers } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

/** Notes each phase of the chain, with the rollbacks so far. */
async function notePhases(stage: Stage): Promise<void> {
  await stage.list('create table seen (phase text, rollbacks bigint)')
  await stage.list(`create function note() returns trigger language plpgsql as $$
    begin insert into seen select new.phase, count(*) from rollback; return new; end $$`)
  await stage.list(
    'create trigger note after insert or update on chain_status for each row execute function note()',
  )
}

test('S05: a fork from 880 is found where 901 does not link to the stored 900, and 880 to 1000 are fetched again', async () => {
  const node = await scene.evm(transfers(1005))
  node.chain.finalizedDepth = 5
  const alpha = evmChainOptions({
    rpc: [node.url],
    startHeight: height(101),
    endHeight: height(1000),
    blocks: 'all',
    rollbackDepthMax: 256,
    pollMs: 30,
  })
  const stage = await scene.deploy(alpha)
  await notePhases(stage)
  const orphans: string[] = []
  node.answer('eth_getBlockByNumber', ([at], honest) => {
    if (Number(at) !== 901 || orphans.length > 0) return honest()
    for (let block = 880; block <= 900; block++) orphans.push(node.chain.at(block)?.hash ?? '')
    node.fork(
      126,
      Array.from({ length: 126 }, (_, index) => transfer(5000 + index)),
    )
    return honest()
  })
  stage.work(alpha)
  await stage.untilPhase('alpha', 'finished')

  expect(orphans).toHaveLength(21)
  expect(await stage.rows('select checkpoint_before, fork_point from rollback')).toEqual([
    { checkpoint_before: 900, fork_point: 879 },
  ])
  const old = await stage.list(
    `select height from (select hash, height from block union all select hash, height from header
       union all select block_hash, height from event) stored where '0x' || encode(hash, 'hex') = any ($1)`,
    [orphans],
  )
  expect(old).toEqual([])
  expect(
    await stage.list(`select args ->> 'value' from event where height in (879, 880, 1000) order by height`),
  ).toEqual(['879', '5000', '5120'])
  expect(await stage.list(`select distinct rollbacks from seen where phase = 'finished'`)).toEqual([1])
  await stage.expectFresh(alpha)
})
