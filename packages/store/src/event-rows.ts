import {
  type BlockRef,
  bytesOf,
  type ChainKey,
  formatTime,
  type Hex,
  type SourceBlock,
} from '@lockstep/domain'

/*
 * Events as a statement takes them: one array per column. The one place where an `EventFact` becomes a row, for storing
 * it and for comparing it with what is stored.
 */

export interface EventRow {
  readonly ref: BlockRef
  readonly event: SourceBlock['events'][number]
}

export const eventRows = (blocks: readonly SourceBlock[]): EventRow[] =>
  blocks.flatMap((block) => block.events.map((event) => ({ ref: block.ref, event })))

/** A select over `observedValues`, with the columns of `event` in their order. */
export const OBSERVED = `
  select $1::text as chain, * from unnest($2::bigint[], $3::int[], $4::int[], $5::bytea[], $6::bytea[],
    $7::timestamptz[], $8::text[], $9::text[], $10::text[], $11::jsonb[], $12::bytea[], $13::bytea[], $14::bytea[],
    $15::bytea[], $16::bytea[], $17::text[])
  as observed (height, tx_index, event_index, tx_hash, block_hash, block_time, contract, address, name, args,
    topic0, topic1, topic2, topic3, data, undecoded)`

export const observedValues = (chain: ChainKey, rows: readonly EventRow[]): unknown[] => [
  chain,
  ...eventColumns(rows),
]

function eventColumns(rows: readonly EventRow[]): unknown[] {
  const topic = (index: number) =>
    rows.map(({ event }) => {
      const hex: Hex | undefined = event.raw.topics[index]
      return hex === undefined ? null : bytesOf(hex)
    })
  return [
    rows.map(({ ref }) => ref.height),
    rows.map(({ event }) => event.txIndex),
    rows.map(({ event }) => event.eventIndex),
    rows.map(({ event }) => bytesOf(event.txHash)),
    rows.map(({ ref }) => bytesOf(ref.hash)),
    rows.map(({ ref }) => formatTime(ref.time)),
    rows.map(({ event }) => event.contract),
    rows.map(({ event }) => event.address),
    rows.map(({ event }) => event.name),
    rows.map(({ event }) => (event.args === null ? null : JSON.stringify(event.args))),
    ...[0, 1, 2, 3].map(topic),
    rows.map(({ event }) => bytesOf(event.raw.data)),
    rows.map(({ event }) => event.undecoded),
  ]
}
