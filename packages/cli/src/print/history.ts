import type { RewindHistory, readForks } from '@lockstep/coordinator'
import { formatTime, formatTimeShort, secondsBetween } from '@lockstep/domain'
import type { RewindRecord } from '@lockstep/store'
import { formatChainDone } from './rewind.js'
import { formatSeconds, formatTable, orDash } from './table.js'

/** One rewind, whole. */
export function formatRewind({ rewind, chains }: RewindHistory): string {
  return [
    `Rewind ${rewind.id}`,
    `  to         ${formatTimeShort(rewind.timestamp)}${rewind.deepened > 0 ? ` (deepened ${rewind.deepened} times)` : ''}`,
    `  asked by   ${rewind.who}${rewind.forkedChain === null ? '' : `, after a fork of ${rewind.forkedChain}`}`,
    `  reason     ${rewind.reason ?? '—'}`,
    `  requested  ${formatTimeShort(rewind.requestedAt)}`,
    `  outcome    ${outcome(rewind)}`,
    ...chains.flatMap((chain) => [
      formatChainDone(chain),
      `    checkpoint before: ${orDash(chain.checkpointBefore)}; carried out by ${chain.carriedOutBy}`,
    ]),
  ].join('\n')
}

export function formatHistory(history: readonly RewindHistory[]): string {
  if (history.length === 0) return 'No rewind was ever asked for.'
  const rows = history.map(({ rewind, chains }) => [
    rewind.id.slice(0, 8),
    formatTimeShort(rewind.requestedAt),
    formatTimeShort(rewind.timestamp),
    String(chains.reduce((sum, chain) => sum + chain.removed.blocks, 0)),
    String(chains.reduce((sum, chain) => sum + chain.removed.events, 0)),
    outcome(rewind),
    rewind.who,
    rewind.reason ?? '—',
  ])
  return formatTable(
    ['ID', 'REQUESTED', 'TO', 'BLOCKS', 'EVENTS', 'OUTCOME', 'ASKED BY', 'REASON'],
    rows,
    new Set([3]),
  )
}

function outcome(rewind: RewindRecord): string {
  if (rewind.cancelledAt !== null) return 'cancelled, nothing was removed'
  if (rewind.finishedAt === null) return 'running'
  return `done in ${formatSeconds(secondsBetween(rewind.requestedAt, rewind.finishedAt))}`
}

export const historyJson = ({ rewind, chains }: RewindHistory): unknown => ({
  ...rewind,
  timestamp: formatTime(rewind.timestamp),
  requestedAt: formatTime(rewind.requestedAt),
  finishedAt: rewind.finishedAt && formatTime(rewind.finishedAt),
  cancelledAt: rewind.cancelledAt && formatTime(rewind.cancelledAt),
  chains,
})

type Forks = Awaited<ReturnType<typeof readForks>>

export function formatForks({ rollbacks, rewinds }: Forks): string {
  if (rollbacks.length + rewinds.length === 0) return 'No fork was ever found.'
  const rows = rollbacks.map((each) => [
    formatTimeShort(each.rolledBackAt),
    each.chain,
    String(each.checkpointBefore),
    each.forkPoint === null ? 'before the start' : String(each.forkPoint),
    String(each.removed.blocks),
    String(each.removed.events),
    'rolled back',
  ])
  const asked = rewinds.map((each) => [
    formatTimeShort(each.requestedAt),
    each.forkedChain ?? '—',
    '—',
    '—',
    '—',
    '—',
    `rewind ${each.id.slice(0, 8)} of all chains`,
  ])
  const header = ['WHEN', 'CHAIN', 'CHECKPOINT', 'FORK POINT', 'BLOCKS', 'EVENTS', 'WHAT WAS DONE']
  return formatTable(
    header,
    [...rows, ...asked].sort((a, b) => (String(a[0]) < String(b[0]) ? 1 : -1)),
    new Set([2, 3, 4, 5]),
  )
}

export const forksJson = ({ rollbacks, rewinds }: Forks): unknown => ({
  rollbacks: rollbacks.map((each) => ({ ...each, rolledBackAt: formatTime(each.rolledBackAt) })),
  rewinds: rewinds.map((rewind) => historyJson({ rewind, chains: [] })),
})
