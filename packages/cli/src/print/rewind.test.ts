import type { ChainPlan, RewindPlan } from '@lockstep/coordinator'
import { chainKey, height, hexOf, timeFromSeconds } from '@lockstep/domain'
import { expect, it } from 'vitest'
import { formatPlan, planJson } from './rewind.js'

const block = (h: number) => ({
  height: height(h),
  hash: hexOf(Buffer.alloc(32, h)),
  time: timeFromSeconds(1_700_000_000 + h),
})

const chain = (name: string, more: Partial<ChainPlan> = {}): ChainPlan => ({
  chain: chainKey(name),
  checkpoint: block(200),
  from: height(101),
  cut: { checkpoint: block(100), by: 'stored', reads: 0, note: null },
  blocks: 60,
  events: 1200,
  worker: 'somebody',
  refetch: { blocks: 100, blocksPerSecond: 0.5, seconds: 200 },
  blockers: [],
  ...more,
})

const plan = (chains: ChainPlan[], more: Partial<RewindPlan> = {}): RewindPlan => ({
  timestamp: timeFromSeconds(1_700_000_100),
  chains,
  removalSeconds: null,
  indexingSeconds: null,
  ...more,
})
const below = (made: RewindPlan): string[] => formatPlan(made).split('\n\n').at(-1)?.split('\n') ?? []

it('tells how long removing and indexing again take', () => {
  const fast = chain('beta', { refetch: { blocks: 20, blocksPerSecond: 100, seconds: 0.2 } })
  expect(below(plan([chain('alpha'), fast], { removalSeconds: 75, indexingSeconds: 200 }))).toEqual([
    'Removing takes about 1m15s, by the rates of earlier rewinds.',
    "Indexing again up to the head takes, by the rate of each chain's last backfill: alpha about 3m20s for 100 blocks, beta less than 1s for 20 blocks.",
  ])
})

it('says plainly what was not measured, and nothing of chains that lose nothing', () => {
  const unmeasured = chain('beta', { refetch: { blocks: 7, blocksPerSecond: null, seconds: null } })
  const untouched = chain('gamma', { from: null, refetch: null, blocks: 0, events: 0 })
  expect(below(plan([unmeasured, untouched]))).toEqual([
    'How long removing takes is not known yet: nothing of size was removed before.',
    'How long indexing again takes is not known for beta (7 blocks): no backfill was measured.',
  ])
  expect(below(plan([untouched]))).toEqual(['Nothing is stored after that moment: nothing goes.'])
})

it('tells programs the same', () => {
  expect(planJson(plan([chain('alpha')], { removalSeconds: 0.5, indexingSeconds: 200 }))).toMatchObject({
    removalSeconds: 0.5,
    indexingSeconds: 200,
    chains: [{ chain: 'alpha', refetch: { blocks: 100, blocksPerSecond: 0.5, seconds: 200 } }],
  })
})
