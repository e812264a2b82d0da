import { formatTime, type Hex, type TimeUs } from '@lockstep/domain'
import { branch, type ModelChain } from './model-chain.js'

/*
 * What a fresh index of a chain holds, written down from the model alone: neither a source nor the store has a part in
 * it. Rows are as `to_jsonb` gives them, so that they compare byte for byte with what `compareFacts` reads.
 */

export interface FreshTables {
  readonly event: readonly string[]
  readonly block: readonly string[]
  readonly checkpoint: readonly string[]
}

export function freshTables(models: readonly ModelChain[]): FreshTables {
  const rows = models.map(freshChain)
  return {
    event: rows.flatMap((each) => each.event),
    block: rows.flatMap((each) => each.block),
    checkpoint: rows.flatMap((each) => each.checkpoint),
  }
}

/** The last height that is indexed; null: the chain has not come to its start yet. */
export function lastHeight({ head, options }: ModelChain): number | null {
  const last = Math.min(head.ref.height, options.endHeight ?? head.ref.height)
  return last < options.startHeight ? null : last
}

function freshChain(model: ModelChain): FreshTables {
  const { chain, options } = model
  const last = lastHeight(model)
  const blocks =
    last === null ? [] : branch(model.head, options.startHeight).filter(({ ref }) => ref.height <= last)
  const facts = blocks.filter((block) => options.blocks === 'all' || block.events.length > 0)
  const tip = blocks.at(-1)?.ref ?? null
  return {
    block: facts.map(({ ref }) =>
      text({
        chain,
        height: ref.height,
        hash: bytea(ref.hash),
        parent_hash: bytea(ref.parentHash),
        block_time: time(ref.time),
      }),
    ),
    event: facts.flatMap(({ ref, events }) =>
      events.map((event) =>
        text({
          chain,
          height: ref.height,
          tx_index: event.txIndex,
          event_index: event.eventIndex,
          tx_hash: bytea(event.txHash),
          block_hash: bytea(ref.hash),
          block_time: time(ref.time),
          contract: event.contract,
          address: event.address,
          name: event.name,
          args: event.args,
          topic0: bytea(event.raw.topics[0] ?? null),
          topic1: bytea(event.raw.topics[1] ?? null),
          topic2: bytea(event.raw.topics[2] ?? null),
          topic3: bytea(event.raw.topics[3] ?? null),
          data: bytea(event.raw.data),
          undecoded: event.undecoded,
        }),
      ),
    ),
    checkpoint: [
      text({
        chain,
        height: tip?.height ?? null,
        hash: bytea(tip?.hash ?? null),
        block_time: tip && time(tip.time),
      }),
    ],
  }
}

const bytea = (hex: Hex | null): string | null => hex && `\\x${hex.slice(2)}`

/** As `jsonb` writes a time: without zeros at the end of the fraction. */
const time = (us: TimeUs): string => formatTime(us).replace(/\.?0*Z$/, '+00:00')

const text = (row: object): string => JSON.stringify(canonical(row))

/** Names in order, so that equal rows are equal texts. */
export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical)
  if (value === null || typeof value !== 'object') return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, item]) => [name, canonical(item)]))
}
