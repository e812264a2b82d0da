import type { ChainKey, TimeUs } from '@lockstep/domain'
import { type RewindRequest, type StepHook, type TakenPart, takePart } from '@lockstep/rewind'
import { type ChainRewind, type ChainWriter, type Database, readChainRewind } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'

/** The chain's own row as it is now. @throws Error where it has none */
export async function ownRow(db: Database, chain: ChainKey): Promise<ChainRewind> {
  const row = await db.transaction((tx) => readChainRewind(tx, chain))
  if (row === null) throw new Error(`${chain} has nothing to rewind`)
  return row
}

/** One chain's part, from the database alone. */
export async function rewindChain(
  db: Database,
  writer: ChainWriter,
  { row, onStep }: { readonly row?: ChainRewind; readonly onStep?: StepHook } = {},
): Promise<TakenPart> {
  return takePart(db, writer, row ?? (await ownRow(db, writer.chain)), {
    source: null,
    timeoutMs: 0,
    logger: silentLogger(),
    ...(onStep && { onStep }),
  })
}

export const requestOf = (timestamp: TimeUs): { readonly request: RewindRequest } => ({
  request: { timestamp, reason: null, who: 'a test' },
})
