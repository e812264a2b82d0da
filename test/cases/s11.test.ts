/*
 * Goal: where blocks share a time, or a chain begins at second 0, there is still one right cut.
 * Method: a worker stores such a chain from a node over HTTP, once with every block and once with only its last one, so
 * that the cut comes from the tables or from a search over the node; and the search is asked with every bracket that
 * there is, twice.
 */
import { height, searchCut, timeFromSeconds } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { evmChainOptions, type SimulatedEvmNode } from '@lockstep/testkit'
import { createSource } from '@lockstep/worker'
import { afterEach, expect, test } from 'vitest'
import { headOf, recordingLogger, Scene, transfer } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const T = 1_700_000_000

/** A chain whose blocks from `first` on have these times, in seconds; the last one holds an event. */
function chainOf(first: number, [firstTime, ...times]: readonly number[]): Promise<SimulatedEvmNode> {
  const wishes = times.map((time, index) => (index === times.length - 1 ? transfer(1, { time }) : { time }))
  return scene.evm(wishes, { firstHeight: first, firstTime: firstTime ?? 0 })
}

/** Rewinds to each moment in turn, and says where the chain went and how many headers were read. */
async function rewindTo(node: SimulatedEvmNode, blocks: 'all' | 'events', moments: readonly number[]) {
  node.chain.finalizedDepth = 0 // no header is kept below the head: only facts are stored
  const first = height(node.chain.first.number)
  const alpha = evmChainOptions({ rpc: [node.url], startHeight: first, blocks, pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const { logger, lines } = recordingLogger()
  const worker = stage.work(alpha, { logger })
  const cuts: unknown[] = []
  for (const moment of moments) {
    await stage.untilAt('alpha', headOf(node))
    const { rewindId } = await stage.rewind(moment)
    await stage.untilReleased()
    cuts.push(...(await stage.list('select cut from rewind_chain where rewind_id = $1', [rewindId])))
  }
  await worker.stop()
  const reads = lines.filter(({ msg }) => msg === 'cut was found').map(({ headers }) => Number(headers))
  return { cuts, reads }
}

/** Every answer of the search, over all brackets of a chain and two runs. */
async function searchAll(node: SimulatedEvmNode, moment: number): Promise<unknown[]> {
  const first = node.chain.first.number
  const source = createSource(evmChainOptions({ rpc: [node.url] }), silentLogger())
  scene.later(() => source.close())
  const heights = Array.from({ length: node.chain.head.number - first + 1 }, (_, index) => first + index)
  const late = heights.filter((at) => (node.chain.at(at)?.time ?? 0) > moment)
  const lows = [null, ...heights.filter((at) => !late.includes(at))]
  const answers = new Set<unknown>()
  for (const [run, low, high] of [0, 1].flatMap((run) =>
    lows.flatMap((low) => late.map((at) => [run, low, at] as const)),
  )) {
    const bracket = {
      low: low === null ? null : await source.header(height(low)),
      lowHeight: low ?? first - 1,
      highHeight: high,
      highTime: timeFromSeconds(node.chain.at(high)?.time ?? run),
    }
    const search = await searchCut(timeFromSeconds(moment), bracket, (at) => source.header(at))
    answers.add(search.found ? (search.block?.height ?? null) : search)
  }
  return [...answers]
}

test('S11: blocks 12 to 15 share a time: the cut is 15, or 11 just before it, whatever is searched', async () => {
  const node = await chainOf(10, [T, T + 1, T + 2, T + 2, T + 2, T + 2, T + 3])
  for (const blocks of ['all', 'events'] as const)
    expect((await rewindTo(node, blocks, [T + 2, T + 1, T + 2, T + 1])).cuts).toEqual([15, 11, 15, 11])
  expect(await searchAll(node, T + 2)).toEqual([15])
  expect(await searchAll(node, T + 1)).toEqual([11])
})

test('S11: blocks 20 to 40 all share a time: all of them stay, or nothing is kept', async () => {
  const node = await chainOf(
    20,
    Array.from({ length: 21 }, () => T + 2),
  )
  for (const blocks of ['all', 'events'] as const)
    expect((await rewindTo(node, blocks, [T + 2, T + 1])).cuts).toEqual([40, null])
  expect(await searchAll(node, T + 1)).toEqual([null])
})

test('S12: a genesis time of zero is a normal time, and the search stays on the chain and within its bound', async () => {
  const node = await chainOf(0, [0, 0, T, T + 12])
  for (const blocks of ['all', 'events'] as const) {
    const { cuts, reads } = await rewindTo(node, blocks, [1_699_999_999, 0, T + 5])
    expect(cuts).toEqual([1, 1, 2])
    // 2 * ceil(log2 4), and one look at the block that goes first.
    expect(Math.max(...reads)).toBeLessThanOrEqual(5)
    if (blocks === 'events') expect(Math.min(...reads)).toBeGreaterThan(0)
  }
  const asked = node.calls.flatMap(({ method, params }) =>
    method === 'eth_getBlockByNumber' ? [(params as unknown[])[0]] : [],
  )
  const heights = asked.filter((tag) => String(tag).startsWith('0x')).map(Number)
  expect(heights.filter((at) => at < 0 || at > 3)).toEqual([])
  expect(asked.filter((tag) => String(tag).startsWith('-') || String(tag) === '0xNaN')).toEqual([])
})
