import { PassThrough } from 'node:stream'
import type { RewindPlan, RewindProgress } from '@lockstep/coordinator'
import { chainKey, height, timeFromSeconds } from '@lockstep/domain'
import { expect, it } from 'vitest'
import { FollowView } from './follow-view.js'
import { formatSummary } from './rewind.js'

const [alpha, beta] = [chainKey('alpha'), chainKey('beta')]

const plan: RewindPlan = {
  timestamp: timeFromSeconds(1_700_000_000),
  chains: [alpha, beta].map((chain) => ({
    chain,
    checkpoint: null,
    from: height(101),
    cut: { checkpoint: null, by: 'stored', reads: 0, note: null },
    blocks: 60,
    events: 1200,
    worker: null,
    refetch: null,
    blockers: [],
  })),
  removalSeconds: 12,
  indexingSeconds: null,
}

const back = (chain: typeof alpha) => ({
  chain,
  checkpointBefore: height(200),
  from: height(101),
  cut: height(100),
  removed: { blocks: 60, events: 1200 },
  seconds: 1.5,
  carriedOutBy: 'somebody',
})

const progress = (done: (typeof alpha)[], waitingFor: RewindProgress['waitingFor']): RewindProgress => ({
  rewindId: 'an-id',
  timestamp: plan.timestamp,
  done: done.map(back),
  waitingFor,
  finished: false,
  cancelled: false,
  paused: false,
})

/** All that a view writes; at a terminal without what moves the cursor. */
function viewed(isTTY: boolean, steps: readonly RewindProgress[]): string {
  const out = Object.assign(new PassThrough(), { isTTY, columns: 200, rows: 40 })
  const view = new FollowView(out as unknown as NodeJS.WriteStream, plan)
  for (const step of steps) view.show(step)
  view.close()
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is taken out
  return String(out.read()).replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '')
}

const waits = { chain: beta, why: 'no worker; carried out from here' }

it('at a terminal shows a bar per chain, what is waited for and why, and how long was expected', () => {
  const text = viewed(true, [progress([alpha], [waits])])
  expect(text).toContain(
    '████████████████████  alpha: back to block 100; 60 blocks and 1200 events removed in 1.500 s',
  )
  expect(text).toContain(
    '░░░░░░░░░░░░░░░░░░░░  beta: no worker; carried out from here; 60 blocks and 1200 events go (0 s; about 12s was expected)',
  )
})

it('elsewhere tells each chain once, when it is back, and whom the others wait for', () => {
  const steps = [
    progress([], [waits]),
    progress([alpha], [waits]),
    progress([alpha], [waits]),
    progress([alpha, beta], []),
  ]
  expect(viewed(false, steps).trimEnd().split('\n')).toEqual([
    '  alpha: back to block 100; 60 blocks and 1200 events removed in 1.500 s; waiting for beta (no worker; carried out from here)',
    '  beta: back to block 100; 60 blocks and 1200 events removed in 1.500 s',
  ])
})

it('ends with a summary, and says where everybody stays paused: by --hold, or because somebody paused before', () => {
  const end = { ...progress([alpha, beta], []), finished: true }
  expect(formatSummary(end)).toBe(
    'All 2 chains are back: 120 blocks and 2400 events were removed. Fetching goes on.',
  )
  expect(formatSummary({ ...end, paused: true })).toMatch(
    /Everything stays paused until "lockstep resume"\.$/,
  )
  expect(formatSummary({ ...end, cancelled: true })).toBe('The rewind was cancelled: nothing was removed.')
})
