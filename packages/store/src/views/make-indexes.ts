import { setTimeout as sleep } from 'node:timers/promises'
import type { ChainOptions } from '@lockstep/config'
import type pg from 'pg'
import type { Database, Tx } from '../database.js'
import { indexKey, quoteIdent } from '../names.js'
import type { Column } from './columns.js'
import { nameWithDigest } from './identifiers.js'
import { planViews, type TypedView } from './plan-views.js'

/*
 * Indexes on arguments, for the chains' workers to go on meanwhile. An index of a partitioned table cannot be made
 * concurrently, so each is made on the partition of its chain, which can. "create index concurrently" stands outside of
 * transactions and waits for the writes that are under way, while new ones go on.
 *
 * Each is partial, with its view's own predicate: it holds that event's rows alone, and no value of another event,
 * where the argument may be of another type, can make a write fail. Texts and bytes of any length get a hash index: an
 * entry of a btree has a greatest length, and a longer one would be refused with the whole write.
 */

/** Of names of ours: what begins so on a partition of `event` and is not wanted is dropped. */
const PREFIX = 'args_'

export interface IndexesMade {
  readonly made: readonly string[]
  readonly dropped: readonly string[]
}

interface WantedIndex {
  readonly name: string
  readonly partition: string
  readonly definition: string
}

/**
 * Makes the indexes that the config asks for, and drops ours that it no longer does. One that was left half-made is made
 * anew. Takes as long as reading the partition; needs the role that owns the tables.
 *
 * @param signal aborts: the statement under way is left to the server, and what it made is judged next time
 */
export async function makeIndexes(
  db: Database,
  chains: readonly ChainOptions[],
  signal: AbortSignal = new AbortController().signal,
): Promise<IndexesMade> {
  const wanted = planViews(chains).flatMap(indexesOf)
  for (;;) {
    const result = await db.transaction((tx) => makeAlone(db, tx, wanted, signal))
    if (result !== null) return result
    await sleep(ANOTHER_MAKES_MS, undefined, { signal })
  }
}

/** How long to wait where another process makes indexes, before the next look. */
const ANOTHER_MAKES_MS = 500

/**
 * With a key, since two that make the same index concurrently would wait for each other. The key is tried, never waited
 * for: "create index concurrently" waits for every statement that is older than its own, so also for one that waits for
 * the key, and neither would end.
 *
 * @returns null where another process makes indexes
 */
async function makeAlone(
  db: Database,
  tx: Tx,
  wanted: readonly WantedIndex[],
  signal: AbortSignal,
): Promise<IndexesMade | null> {
  const { rows } = await tx.query<{ ours: boolean }>('select pg_try_advisory_xact_lock($1::bigint) as ours', [
    indexKey(tx.schema),
  ])
  if (!rows[0]?.ours) return null
  const found = await readIndexes(tx)
  const surplus = found.filter(({ name, valid }) => !valid || !wanted.some((each) => each.name === name))
  const missing = wanted.filter((each) => !found.some(({ name, valid }) => valid && name === each.name))
  // From here on this transaction only keeps the key. It must be a statement without parameters: the portal of one with
  // parameters stays open, and with it a snapshot, for which the statements below would wait for ever.
  await tx.query('set local idle_in_transaction_session_timeout to 0')
  const schema = quoteIdent(db.schema)
  await runOutside(db, signal, [
    ...surplus.map(({ name }) => `drop index concurrently if exists ${schema}.${quoteIdent(name)}`),
    ...missing.map(
      ({ name, partition, definition }) =>
        `create index concurrently ${quoteIdent(name)} on ${schema}.${quoteIdent(partition)} ${definition}`,
    ),
  ])
  const names = (each: readonly { readonly name: string }[]) => each.map(({ name }) => name)
  return { made: names(missing), dropped: names(surplus.filter(({ valid }) => valid)) }
}

function indexesOf(view: TypedView): WantedIndex[] {
  return view.indexes.map(({ chain, column }) => {
    const definition = definitionOf(view, column)
    const words = `${PREFIX}${chain}_${view.name}_${column.name}`
    return {
      // Another definition is another index: its name tells.
      name: nameWithDigest({ words, stands: `${words} ${definition}` }),
      partition: `event_${chain}`,
      definition,
    }
  })
}

/** With the height, where the kind of index takes a second column: people ask for the latest rows. */
function definitionOf(view: TypedView, { index, expression }: Column): string {
  const keys = index === 'hash' ? `((${expression}))` : `((${expression}), height)`
  return `using ${index} ${keys} where ${view.predicate}`
}

async function readIndexes(tx: Tx): Promise<{ name: string; valid: boolean }[]> {
  const { rows } = await tx.query<{ name: string; valid: boolean }>(
    `select i.relname as name, x.indisvalid as valid
     from pg_index x join pg_class i on i.oid = x.indexrelid join pg_inherits h on h.inhrelid = x.indrelid
     where h.inhparent = to_regclass('event') and starts_with(i.relname, $1) order by i.relname`,
    [PREFIX],
  )
  return rows
}

/** Statements that may stand in no transaction, on a connection of their own. */
async function runOutside(db: Database, signal: AbortSignal, statements: readonly string[]): Promise<void> {
  if (statements.length === 0) return
  const client: pg.Client = await db.connect()
  const leave = () => void client.end().catch(() => {})
  signal.addEventListener('abort', leave)
  try {
    for (const statement of statements) {
      signal.throwIfAborted()
      await client.query(statement)
    }
  } finally {
    signal.removeEventListener('abort', leave)
    await client.end().catch(() => {})
  }
}
