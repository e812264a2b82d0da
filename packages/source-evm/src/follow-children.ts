import { KnownChildren } from '@lockstep/domain'
import type { EventReader } from './event-reader.js'
import type { LogFilter } from './log-filter.js'
import type { EvmLog } from './parse-log.js'

/** Logs, and the children known with them. */
export interface GatheredLogs {
  readonly logs: readonly EvmLog[]
  readonly children: KnownChildren
}

/**
 * The logs, and those of the children that they tell of, from each one's own block on: a child may act in the
 * transaction that creates it, with lower log indices than the event that tells of it, and create children itself.
 * Each generation is one more look, for its addresses alone.
 *
 * @param asked the queries whose answer the logs are
 * @param look asks the query from the height on
 */
export async function followChildren(
  reader: EventReader,
  logs: readonly EvmLog[],
  asked: readonly LogFilter[],
  look: (filter: LogFilter, from: number) => Promise<readonly EvmLog[]>,
): Promise<GatheredLogs> {
  const all = [...logs]
  const everAsked = [...asked]
  let children = reader.children
  for (;;) {
    const found = reader.newChildren(all, children)
    if (found.length === 0) return { logs: all, children }
    children = children.with(found)
    const from = found.reduce((lowest, { height }) => Math.min(lowest, height), Number.POSITIVE_INFINITY)
    // One query for all of a generation: the wanted heights of each are decided by what is known of it.
    for (const filter of reader.filtersOf(new KnownChildren(found), everAsked)) {
      for (const log of await look(filter, from)) all.push(log)
      everAsked.push(filter) // its logs lie from here on, and so do the children that those tell of
    }
  }
}
