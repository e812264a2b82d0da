import type { ChainPlan, RewindPlan, RewindProgress } from '@lockstep/coordinator'
import { formatTime, formatTimeShort } from '@lockstep/domain'
import type { Checkpoint, RewindChainRecord } from '@lockstep/store'
import { formatTable, orDash } from './table.js'

const NUMBERS = new Set([1, 2, 3, 4, 5])

export function formatPlan(plan: RewindPlan): string {
  const rows = plan.chains.map((chain) => [
    chain.chain,
    orDash(chain.checkpoint?.height ?? null),
    orDash(chain.from),
    describeCut(chain),
    String(chain.blocks),
    String(chain.events),
    chain.worker === null ? 'none: carried out by the coordinator or by this command' : 'running',
  ])
  const header = ['CHAIN', 'CHECKPOINT', 'FROM', 'CUT', 'BLOCKS', 'EVENTS', 'WORKER']
  return `Rewind to ${formatTimeShort(plan.timestamp)}: blocks after it go, and all that came from them.\n\n${formatTable(header, rows, NUMBERS)}`
}

function describeCut(plan: ChainPlan): string {
  if (plan.from === null) return 'nothing goes'
  return plan.cut.checkpoint === null ? 'before the start' : String(plan.cut.checkpoint.height)
}

export const planJson = (plan: RewindPlan): unknown => ({
  timestamp: formatTime(plan.timestamp),
  chains: plan.chains.map(({ chain, checkpoint, from, cut, blocks, events, worker }) => ({
    chain,
    checkpoint: checkpointJson(checkpoint),
    from,
    cut: checkpointJson(cut.checkpoint),
    cutBy: cut.by,
    note: cut.note,
    blocks,
    events,
    worker,
  })),
})

const checkpointJson = (checkpoint: Checkpoint | null): unknown =>
  checkpoint && { height: checkpoint.height, hash: checkpoint.hash, time: formatTime(checkpoint.time) }

/** One chain that has gone back. */
export function formatChainDone(record: RewindChainRecord): string {
  const where =
    record.from === null
      ? 'nothing to remove'
      : `back to ${record.cut === null ? 'before its start' : `block ${record.cut}`}`
  const { blocks, events } = record.removed
  return `  ${record.chain}: ${where}; ${blocks} blocks and ${events} events removed in ${record.seconds.toFixed(3)} s`
}

export const progressJson = (progress: RewindProgress): unknown => ({
  rewindId: progress.rewindId,
  timestamp: formatTime(progress.timestamp),
  finished: progress.finished,
  waitingFor: progress.waitingFor,
  chains: progress.done,
})
