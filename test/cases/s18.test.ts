/*
 * Goal: a chain whose node does not know the finality tag is followed by its configured depth, and what was final stays.
 * Method: a node answers the tag with an error, with null, or not for once; the finalized height is read where people
 * read it, in `chain_status`.
 */
import { height } from '@lockstep/domain'
import { evmChainOptions } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, recordingLogger, Scene } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const BOTH = { by: 'both', tag: 'finalized', depth: 12 } as const

for (const answer of ['an error', 'null'] as const) {
  test(`S18: a node that answers the tag with ${answer}: 988 of 1000 is final by a depth of 12, and nothing of 5`, async () => {
    const finalizedAt = async (head: number) => {
      const node = await scene.evm(head)
      node.answer('eth_getBlockByNumber', ([tag], honest) => {
        if (tag !== 'finalized') return honest()
        if (answer === 'null') return null
        throw new Error('finalized block not found')
      })
      const alpha = evmChainOptions({ rpc: [node.url], finality: BOTH, pollMs: 30 })
      const stage = await scene.deploy(alpha)
      const { logger, lines } = recordingLogger()
      const worker = stage.work(alpha, { logger })
      await stage.untilAt('alpha', headOf(node))
      const polls = node.httpRequests
      await stage.until('more polls', async () => node.httpRequests > polls + 10)
      await worker.stop()
      const warnings = lines.filter(({ level }) => level === 'warn')
      return { finalized: (await stage.status('alpha'))?.finalized, warnings: warnings.length }
    }
    expect(await finalizedAt(1000)).toEqual({ finalized: 988, warnings: 1 })
    expect(await finalizedAt(5)).toEqual({ finalized: null, warnings: 1 })
  })
}

test('S18: where the tag gave 940, fails and gives 941, it is 940, 940 and 941, and never 988', async () => {
  const node = await scene.evm(1000)
  node.chain.finalizedDepth = 60
  let fails = false
  node.answer('eth_getBlockByNumber', ([tag], honest) => {
    if (tag === 'finalized' && fails) throw new Error('finalized block not found')
    return honest()
  })
  const alpha = evmChainOptions({ rpc: [node.url], startHeight: height(900), finality: BOTH, pollMs: 30 })
  const stage = await scene.deploy(alpha)
  // Every height that people were told, in order.
  await stage.list('create table told (id bigint generated always as identity, height bigint)')
  await stage.list(`create function tell() returns trigger language plpgsql as $$
    begin insert into told (height) values (new.finalized_height); return new; end $$`)
  await stage.list(
    'create trigger tell after insert or update on chain_status for each row execute function tell()',
  )
  const told = () => stage.list('select distinct height from told where height is not null order by height')

  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await stage.until('940', async () => (await stage.status('alpha'))?.finalized === 940)
  fails = true
  node.extend(1)
  await stage.untilAt('alpha', headOf(node))
  const polls = node.httpRequests
  await stage.until('more polls', async () => node.httpRequests > polls + 10)
  expect(await told()).toEqual([940])
  fails = false
  await stage.until('941', async () => (await stage.status('alpha'))?.finalized === 941)
  expect(await told()).toEqual([940, 941])
})
