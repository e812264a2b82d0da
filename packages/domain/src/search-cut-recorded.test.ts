// The search for a cut over the block times of real chains. Every recorded pair of a chain is a block with its true
// height and time; between two of them the times are made to rise evenly. Each search is compared with a linear scan,
// for T at each recorded block, just before and just after it. Then the moments for which others have published a
// height: what such a height says differs, so each is read by its `semantics`.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  type BlockRef,
  bisectionSteps,
  height,
  hexOf,
  parseTime,
  searchCut,
  type TimeUs,
  timeFromSeconds,
} from './index.js'

const DATA = process.env.LOCKSTEP_REAL_DATA ?? ''
const folder = join(DATA, 'timestamps')
const available = DATA !== '' && existsSync(folder)

interface Pair {
  readonly height: number
  readonly time: TimeUs
}

/** Ascending by height; where a chain's source has nanoseconds, floored to microseconds. */
function readPairs(): Map<string, Pair[]> {
  const chains = new Map<string, Pair[]>()
  const lines = readFileSync(join(folder, 'pairs-shared.csv'), 'utf8').trim().split('\n').slice(1)
  for (const line of lines) {
    const [chain = '', , at = '', seconds = '', iso = ''] = line.split(',')
    const time = iso === '' ? timeFromSeconds(BigInt(seconds)) : parseTime(iso)
    if (time === null) throw new Error(`no time: ${line}`)
    chains.set(chain, [...(chains.get(chain) ?? []), { height: Number(at), time }])
  }
  for (const pairs of chains.values()) pairs.sort((a, b) => a.height - b.height)
  return chains
}

const block = ({ height: at, time }: Pair): BlockRef => ({
  height: height(at),
  hash: hexOf(Buffer.from(String(at))),
  parentHash: null,
  time,
})

/** All blocks of a chain of which some are known; between two of them the times rise evenly. */
class Timeline {
  readonly first: Pair
  readonly last: Pair
  constructor(readonly pairs: readonly Pair[]) {
    const [first, last] = [pairs[0], pairs.at(-1)]
    if (first === undefined || last === undefined) throw new Error('a timeline has blocks')
    this.first = first
    this.last = last
  }

  timeAt(at: number): TimeUs {
    const next = this.pairs.findIndex((pair) => pair.height >= at)
    const [below, above] = [this.pairs[Math.max(0, next - 1)] ?? this.first, this.pairs[next] ?? this.last]
    if (above.height === below.height) return above.time
    const rise = (above.time - below.time) * BigInt(at - below.height)
    return (below.time + rise / BigInt(above.height - below.height)) as TimeUs
  }

  /** @returns the cut's height, null before the first block; `steps` are those of a plain bisection */
  async cut(target: TimeUs): Promise<{ cut: number | null; reads: number; steps: number }> {
    const blind = target < this.first.time
    const bracket = {
      low: blind ? null : block(this.first),
      lowHeight: blind ? this.first.height - 1 : this.first.height,
      highHeight: this.last.height,
      highTime: this.last.time,
    }
    const found = await searchCut(target, bracket, async (at) => block({ height: at, time: this.timeAt(at) }))
    if (!found.found) throw new Error('every block is there')
    const steps = bisectionSteps(bracket.highHeight - bracket.lowHeight)
    return { cut: found.block?.height ?? null, reads: found.reads, steps }
  }
}

/** A published height, as blocks that say no more than it does. */
interface Published {
  readonly timestamp: number
  readonly chain: string
  readonly block: number
  readonly semantics: string
}

const readPublished = (): Published[] =>
  JSON.parse(readFileSync(join(folder, 'search-targets-shared.json'), 'utf8')) as Published[]

/** What `semantics` says of the chain's times, and between which heights the cut for T must then lie. */
function understand({ timestamp, block: at, semantics }: Published): {
  pairs: Pair[]
  least: number
  most: number
} {
  const t = timeFromSeconds(timestamp)
  const around = (below: number, above: number) => [
    { height: below, time: (t - 1_000_000n) as TimeUs },
    { height: above, time: (t + 1_000_000n) as TimeUs },
  ]
  const tolerance = Number(/\+-(\d+)/.exec(semantics)?.[1] ?? 0)
  if (tolerance > 0)
    return { pairs: around(at - tolerance, at + tolerance), least: at - tolerance, most: at + tolerance - 1 }
  if (semantics.startsWith('exact')) return { pairs: [{ height: at, time: t }], least: at, most: at }
  if (semantics.startsWith('first block')) return { pairs: around(at - 1, at), least: at - 1, most: at - 1 }
  if (semantics.startsWith('last block')) return { pairs: around(at, at + 1), least: at, most: at }
  throw new Error(`semantics that this test does not know: ${semantics}`)
}

describe.skipIf(!available)('block times of real chains (skipped without LOCKSTEP_REAL_DATA)', () => {
  const chains = available ? [...readPairs()] : []

  it.each(chains.filter(([, pairs]) => pairs.length > 1))(
    'at true heights, T at, before and after each recorded block: %s',
    async (_, pairs) => {
      const line = new Timeline(pairs)
      for (const { time } of pairs) {
        for (const target of [time - 1n, time, time + 1n] as TimeUs[]) {
          if (target >= line.last.time) continue
          const { cut, reads, steps } = await line.cut(target)
          // Neighbours on both sides of T: on a chain whose times never fall that is what a linear scan finds.
          if (cut !== null) expect(line.timeAt(cut) <= target).toBe(true)
          expect(line.timeAt((cut ?? line.first.height - 1) + 1) > target).toBe(true)
          expect(reads).toBeLessThanOrEqual(Math.max(1, 2 * steps - 1))
        }
      }
    },
  )

  it.each(chains)(
    'the recorded blocks alone, one after the other, equal a linear scan: %s',
    async (_, pairs) => {
      const rises = pairs.every(({ time }, at) => time >= (pairs[at - 1]?.time ?? time))
      const end = { height: pairs.length, time: ((pairs.at(-1)?.time ?? 0n) + 10n ** 12n) as TimeUs }
      const line = new Timeline([...pairs.map(({ time }, at) => ({ height: at, time })), end])
      for (const { time } of pairs) {
        for (const target of [time - 1n, time, time + 1n] as TimeUs[]) {
          const { cut } = await line.cut(target)
          const scan = pairs.findLastIndex((pair) => pair.time <= target)
          if (rises) expect(cut).toBe(scan < 0 ? null : scan)
          else if (cut !== null) expect(line.timeAt(cut) <= target).toBe(true)
        }
      }
    },
  )

  it('Base, a block each 2 s: published heights are found from the recorded blocks alone', async () => {
    const line = new Timeline([
      { height: 0, time: timeFromSeconds(1_686_789_347) },
      ...(readPairs().get('base') ?? []),
    ])
    const published = readPublished().filter(({ chain }) => chain === 'base')
    expect(published.length).toBeGreaterThan(0)
    for (const { timestamp, block: at, semantics } of published) {
      const { cut, reads } = await line.cut(timeFromSeconds(timestamp))
      expect(cut).toBe(semantics.startsWith('first block') ? at - 1 : at)
      expect(reads).toBeLessThanOrEqual(4)
    }
  })

  it.each(available ? readPublished().map((each) => [each.chain, each.timestamp, each] as const) : [])(
    'a published height: %s at %i',
    async (chain, timestamp, published) => {
      const { pairs, least, most } = understand(published)
      const recorded = (readPairs().get(chain) ?? []).filter(
        ({ height: at }) => !pairs.some((pair) => pair.height === at),
      )
      const line = new Timeline([...recorded, ...pairs].sort((a, b) => a.height - b.height))
      const { cut } = await line.cut(timeFromSeconds(timestamp))
      expect(cut).toBeGreaterThanOrEqual(least)
      expect(cut).toBeLessThanOrEqual(most)
    },
  )
})
