import type { ChainPlan, RewindPlan, RewindProgress } from '@lockstep/coordinator'
import { formatTime, formatTimeShort, shortHash } from '@lockstep/domain'
import type { Blocker, Checkpoint, RewindChainRecord } from '@lockstep/store'
import { formatSeconds, formatTable } from './table.js'

export function formatPlan(plan: RewindPlan): string {
  const rows = plan.chains.map((each) => [
    each.chain,
    describeBlock(each.checkpoint),
    describeCut(each),
    String(each.blocks),
    String(each.events),
    each.worker === null ? 'none' : 'running',
  ])
  const header = ['CHAIN', 'FROM CHECKPOINT', 'BACK TO', 'BLOCKS', 'EVENTS', 'WORKER']
  const blockers = plan.chains.flatMap((each) => each.blockers)
  return [
    `Rewind to ${formatTimeShort(plan.timestamp)}: blocks after it go, and all that came from them.`,
    '',
    formatTable(header, rows, new Set([3, 4])),
    '',
    ...estimate(plan),
    ...blockers.map(({ chain, name, because }) => `Blocker ${name}: ${chain}: ${because}`),
  ].join('\n')
}

function estimate({ removalSeconds, chains }: RewindPlan): string[] {
  if (chains.every(({ from }) => from === null)) return ['Nothing is stored after that moment: nothing goes.']
  const removal =
    removalSeconds === null
      ? 'How long removing takes is not known yet: nothing of size was removed before.'
      : `Removing takes ${formatEstimate(removalSeconds)}, by the rates of earlier rewinds.`
  return [removal, ...estimateIndexing(chains)]
}

function estimateIndexing(chains: readonly ChainPlan[]): string[] {
  const again = chains.flatMap(({ chain, refetch }) => (refetch ? [{ chain, ...refetch }] : []))
  const known = again
    .filter(({ seconds }) => seconds !== null)
    .map(({ chain, blocks, seconds }) => `${chain} ${formatEstimate(seconds ?? 0)} for ${blocks} blocks`)
  const unknown = again
    .filter(({ seconds }) => seconds === null)
    .map(({ chain, blocks }) => `${chain} (${blocks} blocks)`)
  const lines = [
    [
      known,
      `Indexing again up to the head takes, by the rate of each chain's last backfill: ${known.join(', ')}.`,
    ],
    [
      unknown,
      `How long indexing again takes is not known for ${unknown.join(', ')}: no backfill was measured.`,
    ],
  ] as const
  return lines.filter(([some]) => some.length > 0).map(([, line]) => line)
}

/** Of an estimate no more is told than it is worth. */
export const formatEstimate = (seconds: number): string =>
  seconds < 1 ? 'less than 1s' : `about ${formatSeconds(seconds)}`

/** `19000123 0x3fa9…  2026-03-01T12:00:11Z` */
function describeBlock(block: Checkpoint | null): string {
  return block === null
    ? '(nothing stored)'
    : `${block.height}  ${shortHash(block.hash)}  ${formatTimeShort(block.time)}`
}

/** The writers that a request waits for. */
export const formatBlockers = (blockers: readonly Blocker[]): string =>
  `Waiting for writes in flight: ${blockers.map((each) => `${each.holder} (${each.transactionSeconds.toFixed(1)} s${each.ended ? ', ended' : ''})`).join(', ')}`

/** What a follower says at the end. */
export function formatSummary(end: RewindProgress): string {
  if (end.cancelled) return 'The rewind was cancelled: nothing was removed.'
  const events = end.done.reduce((sum, { removed }) => sum + removed.events, 0)
  const blocks = end.done.reduce((sum, { removed }) => sum + removed.blocks, 0)
  const next = end.paused ? 'Everything stays paused until "lockstep resume".' : 'Fetching goes on.'
  return `All ${end.done.length} chains are back: ${formatCounts({ blocks, events })} were removed. ${next}`
}

function describeCut(plan: ChainPlan): string {
  if (plan.from === null) return 'nothing goes'
  return plan.cut.checkpoint === null ? 'before the start' : describeBlock(plan.cut.checkpoint)
}

export const planJson = (plan: RewindPlan): unknown => ({
  timestamp: formatTime(plan.timestamp),
  removalSeconds: plan.removalSeconds,
  indexingSeconds: plan.indexingSeconds,
  chains: plan.chains.map(({ chain, checkpoint, from, cut, blocks, events, worker, refetch, blockers }) => ({
    chain,
    checkpoint: checkpointJson(checkpoint),
    from,
    cut: checkpointJson(cut.checkpoint),
    cutBy: cut.by,
    note: cut.note,
    blocks,
    events,
    worker,
    refetch,
    blockers,
  })),
})

const checkpointJson = (checkpoint: Checkpoint | null): unknown =>
  checkpoint && { height: checkpoint.height, hash: checkpoint.hash, time: formatTime(checkpoint.time) }

/** `7 blocks and 1 event` */
export const formatCounts = ({ blocks, events }: Pick<ChainPlan, 'blocks' | 'events'>): string =>
  `${blocks} block${blocks === 1 ? '' : 's'} and ${events} event${events === 1 ? '' : 's'}`

/** One chain that has gone back. */
export function formatChainDone(record: RewindChainRecord): string {
  const where =
    record.from === null
      ? 'nothing to remove'
      : `back to ${record.cut === null ? 'before its start' : `block ${record.cut}`}`
  return `  ${record.chain}: ${where}; ${formatCounts(record.removed)} removed in ${record.seconds.toFixed(3)} s`
}

export const progressJson = (progress: RewindProgress): unknown => ({
  rewindId: progress.rewindId,
  timestamp: formatTime(progress.timestamp),
  finished: progress.finished,
  paused: progress.paused,
  waitingFor: progress.waitingFor,
  chains: progress.done,
})
