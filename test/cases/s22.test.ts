/*
 * Goal: results that lag behind their block are waited for; the two are stored together or not at all.
 * Method: a Cosmos node that has block 31454, and answers for its results with an internal error: twice, or always.
 */
import { height, timeFromSeconds } from '@lockstep/domain'
import { afterEach, expect, test } from 'vitest'
import { cosmosChainOptions } from '../../packages/testkit/src/comet/index.js'
import { cometHeadOf, recordingLogger, Scene } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const LATE = 31_454
const block = (at: number) => ({
  time: timeFromSeconds(1_700_000_000 + 5 * at),
  txs: [{ events: [{ type: 'transfer', attributes: [['n', String(at)]] as const }] }],
})

/** A worker that has everything up to 31453. */
async function followTo31453() {
  const first = LATE - 10
  const { chain, node } = await scene.comet({ chainId: 'sim-1', version: '0.38.17', initialHeight: first })
  chain.extend(Array.from({ length: 10 }, (_, index) => block(first + index)))
  const sim = cosmosChainOptions({ rpc: [node.url], startHeight: height(first), pollMs: 30 })
  const stage = await scene.deploy(sim)
  const { logger, lines } = recordingLogger()
  stage.work(sim, { logger })
  await stage.untilAt('sim', cometHeadOf(chain))
  const loud = () => lines.filter(({ level }) => level === 'warn' || level === 'error')
  return { chain, node, sim, stage, loud }
}

test('S22: results that fail twice are asked for again, and stored with block 31454', async () => {
  const { chain, node, sim, stage, loud } = await followTo31453()
  let failed = 0
  node.override('block_results', ({ height: at }, honest) => {
    if (Number(at) === LATE && failed < 2) {
      failed += 1
      throw new Error(`could not find results for height #${at}`)
    }
    return honest()
  })
  chain.extend([block(LATE)])
  await stage.untilAt('sim', cometHeadOf(chain))
  expect(failed).toBe(2)
  expect(await stage.list('select height from event where height >= $1', [LATE])).toEqual([LATE])
  expect(loud()).toEqual([])
  await stage.expectFresh(sim)
})

test('S22: results that never come leave the chain waiting at 31454, with nothing stored above', async () => {
  const { chain, node, stage, loud } = await followTo31453()
  node.override('block_results', ({ height: at }, honest) => {
    if (Number(at) === LATE) throw new Error(`could not find results for height #${at}`)
    return honest()
  })
  chain.extend([block(LATE), block(LATE + 1), block(LATE + 2)])
  await stage.untilPhase('sim', 'waiting', /31454/)
  const asked = node.server.countOf('block_results')
  await stage.until('more tries', async () => node.server.countOf('block_results') > asked + 10)
  expect(await stage.checkpoint('sim')).toMatchObject({ height: LATE - 1 })
  expect(await stage.list('select max(height) from event')).toEqual([LATE - 1])
  expect(loud().length).toBeLessThan(5)
})
