import type { ChainView, StatusView } from '@lockstep/coordinator'
import { formatTime, formatTimeShort } from '@lockstep/domain'
import { formatSeconds, formatTable, orDash } from './table.js'

const HEADER = [
  'CHAIN',
  'PHASE',
  'CHECKPOINT',
  'BLOCK TIME',
  'HEAD',
  'LAG',
  'BEHIND',
  'BLOCKS/S',
  'EVENTS/S',
  'ETA',
]
const NUMBERS = new Set([2, 4, 5, 6, 7, 8, 9])

export function formatStatus(view: StatusView): string {
  const table = formatTable(HEADER, view.chains.map(row), NUMBERS)
  const reasons = view.chains
    .filter(({ reason }) => reason !== null)
    .map(({ chain, reason }) => `${chain}: ${reason?.replace(`Chain ${chain}: `, '')}`) // errors name it themselves
  const gaps = view.chains.flatMap(({ chain, gaps }) => gaps.map((gap) => `${chain}: ${describeGap(gap)}`))
  const { lock, pause, waitingFor } = view.state
  const rewind =
    lock &&
    `Rewind ${lock.rewindId} to ${formatTimeShort(lock.timestamp)} runs; waiting for ${waitingFor.map((each) => each.chain).join(', ')}.`
  const paused =
    pause &&
    `Paused by ${pause.who} since ${formatTimeShort(pause.since)}${pause.reason ? `: ${pause.reason}` : '.'}`
  return [
    table,
    ...(reasons.length > 0 ? ['', ...reasons] : []),
    ...(gaps.length > 0 ? ['', ...gaps] : []),
    ...[rewind, paused].filter((line) => line !== null).flatMap((line) => ['', line]),
  ].join('\n')
}

/** What an operator has to know of it: the chain's answers are not whole yet. */
export const describeGap = ({ what, from, to }: ChainView['gaps'][number]): string =>
  `not ready: blocks ${from} to ${to} are still missing for ${what.join(', ')}`

const row = (chain: ChainView): string[] => [
  chain.chain,
  chain.phase,
  orDash(chain.checkpoint),
  chain.checkpointTime === null ? '—' : formatTimeShort(chain.checkpointTime),
  orDash(chain.head),
  orDash(chain.lagBlocks),
  formatSeconds(chain.lagSeconds),
  orDash(chain.blocksPerSecond),
  orDash(chain.eventsPerSecond),
  chain.phase === 'backfill' ? formatSeconds(chain.etaSeconds) : '—',
]

/** The same for programs. Times are RFC 3339 with microseconds. */
export const statusJson = (view: StatusView): unknown => ({
  at: formatTime(view.at),
  epoch: view.state.epoch,
  chains: view.chains.map((chain) => ({
    ...chain,
    checkpointTime: chain.checkpointTime && formatTime(chain.checkpointTime),
  })),
  rewind: view.state.lock && {
    rewindId: view.state.lock.rewindId,
    timestamp: formatTime(view.state.lock.timestamp),
    waitingFor: view.state.waitingFor.map((row) => row.chain),
  },
  pause: view.state.pause && { ...view.state.pause, since: formatTime(view.state.pause.since) },
})
