import { createHash } from 'node:crypto'
import type { ChainOptions } from '@lockstep/config'
import type { Database, Tx } from '../database.js'
import { lockMigrations } from '../migrate.js'
import { quoteIdent, quoteText } from '../names.js'
import { errorCode } from '../retry-table.js'
import { planViews, type TypedView } from './plan-views.js'

/** What making the typed views came to. */
export interface ViewsMade {
  readonly made: readonly string[]
  readonly replaced: readonly string[]
  readonly dropped: readonly string[]
  /** Views that are not as the config asks, since that would have taken away what is not ours. */
  readonly left: readonly { readonly view: string; readonly because: string }[]
}

/**
 * Makes the typed views of the config in `readSchema`, in one transaction: new ones are made, changed ones replaced, and
 * ours that the config no longer asks for dropped. Nothing that others made is touched: a view that something depends on
 * stays as it is, and so does a relation of the same name that is not ours; both are told. The rights that were granted
 * on a view outlive its replacement. Needs the role that owns the views.
 */
export async function makeTypedViews(
  db: Database,
  readSchema: string,
  chains: readonly ChainOptions[],
): Promise<ViewsMade> {
  const planned = planViews(chains).map((view) => defined(db.schema, readSchema, view))
  return db.transaction(async (tx) => {
    await lockMigrations(tx)
    await tx.query('select ensure_read_schema($1)', [readSchema])
    const ours = await readOurs(tx, readSchema)
    const result = {
      made: [] as string[],
      replaced: [] as string[],
      dropped: [] as string[],
      left: [] as ViewsMade['left'][number][],
    }
    for (const name of ours.keys()) {
      if (planned.some((view) => view.name === name)) continue
      const because = await dropView(tx, readSchema, name)
      if (because === null) result.dropped.push(name)
      else result.left.push({ view: name, because })
    }
    for (const view of planned) {
      const before = ours.get(view.name)
      if (before?.definition === view.definition && before.there) continue
      const because = await putView(tx, readSchema, view, before)
      if (because !== null) result.left.push({ view: view.name, because })
      else if (before?.there) result.replaced.push(view.name)
      else result.made.push(view.name)
    }
    return result
  })
}

/**
 * Which views are not as the config asks: for a role that may not make them, so that it is told. Reads only.
 *
 * @returns names of typed views, and of those that every deployment has
 */
export async function findStaleViews(
  db: Database,
  readSchema: string,
  chains: readonly ChainOptions[],
): Promise<string[]> {
  const planned = planViews(chains).map((view) => defined(db.schema, readSchema, view))
  return db.transaction(async (tx) => {
    const ours = await readOurs(tx, readSchema)
    const stale = planned.filter(({ name, definition }) => {
      const before = ours.get(name)
      return before?.definition !== definition || !before.there
    })
    const missing: string[] = []
    for (const name of ['blocks', 'events', 'status', 'transactions']) {
      if (!(await isThere(tx, readSchema, name))) missing.push(name)
    }
    return [...missing, ...stale.map(({ name }) => name)]
  })
}

interface DefinedView {
  readonly name: string
  readonly query: string
  readonly comments: readonly string[]
  /** Digest of all that makes it. */
  readonly definition: string
}

function defined(schema: string, readSchema: string, view: TypedView): DefinedView {
  const place = `${quoteIdent(readSchema)}.${quoteIdent(view.name)}`
  const query = queryOf(quoteIdent(schema), view)
  const comments = [
    `comment on view ${place} is ${quoteText(view.comment)}`,
    ...view.columns.map(
      ({ name, comment }) => `comment on column ${place}.${quoteIdent(name)} is ${quoteText(comment)}`,
    ),
  ]
  const definition = createHash('sha256')
    .update([query, ...comments].join('\n'))
    .digest('hex')
  return { name: view.name, query, comments, definition }
}

/** Hides what goes as `create_read_views` does. Every name is qualified: views keep what they were made with. */
function queryOf(schema: string, { chains, predicate, columns }: TypedView): string {
  const list = columns.map(({ name, expression }) => `${expression} as ${quoteIdent(name)}`)
  return (
    `select ${list.join(', ')} from ${schema}.event t ` +
    `where chain in (${chains.map(quoteText).join(', ')}) and ${predicate} ` +
    `and not exists (select from ${schema}."_global" g where g.key = 'rewind_timestamp_' || t.chain ` +
    "and t.height >= (g.value ->> 'from')::bigint)"
  )
}

interface Ours {
  readonly definition: string
  readonly there: boolean
}

async function readOurs(tx: Tx, readSchema: string): Promise<Map<string, Ours>> {
  const { rows } = await tx.query<{ name: string; definition: string; there: boolean }>(
    `select name, definition, to_regclass(quote_ident(read_schema) || '.' || quote_ident(name)) is not null as there
     from typed_view where read_schema = $1 order by name`,
    [readSchema],
  )
  return new Map(rows.map((row) => [row.name, row]))
}

async function isThere(tx: Tx, readSchema: string, name: string): Promise<boolean> {
  const { rows } = await tx.query<{ there: boolean }>(
    `select to_regclass(quote_ident($1) || '.' || quote_ident($2)) is not null as there`,
    [readSchema, name],
  )
  return rows[0]?.there === true
}

/** @returns null; or why it was left as it is */
async function putView(
  tx: Tx,
  readSchema: string,
  view: DefinedView,
  before: Ours | undefined,
): Promise<string | null> {
  if (before === undefined && (await isThere(tx, readSchema, view.name)))
    return `"${view.name}" is there already and was not made from the config`
  const place = `${quoteIdent(readSchema)}.${quoteIdent(view.name)}`
  const create = `create or replace view ${place} as ${view.query}`
  // Without a drop where it can be: what depends on it, and the rights on it, stay.
  const refused = await attempt(tx, [create], INVALID_REPLACEMENT)
  if (refused !== null) {
    const grants = await readGrants(tx, readSchema, view.name)
    const because = await attempt(tx, [`drop view ${place}`, create, ...grants], DEPENDED_ON)
    if (because !== null) return because
  }
  for (const comment of view.comments) await tx.query(comment)
  await tx.query(
    `insert into typed_view (read_schema, name, definition) values ($1, $2, $3)
     on conflict (read_schema, name) do update set definition = excluded.definition`,
    [readSchema, view.name, view.definition],
  )
  return null
}

/** @returns null; or why it was left as it is */
async function dropView(tx: Tx, readSchema: string, name: string): Promise<string | null> {
  const place = `${quoteIdent(readSchema)}.${quoteIdent(name)}`
  const because = await attempt(tx, [`drop view if exists ${place}`], DEPENDED_ON)
  if (because !== null) return because
  await tx.query('delete from typed_view where read_schema = $1 and name = $2', [readSchema, name])
  return null
}

/** A column went, came in between, or has another type: `create or replace view` only adds columns at the end. */
const INVALID_REPLACEMENT = '42P16'
const DEPENDED_ON = '2BP01'

/** Runs the statements, or none of them where one fails with that code: then says what PostgreSQL said. */
async function attempt(tx: Tx, statements: readonly string[], code: string): Promise<string | null> {
  await tx.query('savepoint view')
  try {
    for (const statement of statements) await tx.query(statement)
    await tx.query('release savepoint view')
    return null
  } catch (error) {
    if (errorCode(error) !== code) throw error
    await tx.query('rollback to savepoint view')
    const { message, detail } = error as Error & { readonly detail?: string }
    return (detail ?? message).split('\n')[0] ?? message
  }
}

/** Statements that grant again what others were granted; the owner's own rights come with the view. */
async function readGrants(tx: Tx, readSchema: string, name: string): Promise<string[]> {
  const { rows } = await tx.query<{ statement: string }>(
    `select format('grant %s on %I.%I to %s%s', privilege_type, $1::text, $2::text,
       case when grantee = 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end,
       case when is_grantable then ' with grant option' else '' end) as statement
     from pg_class, aclexplode(relacl)
     where pg_class.oid = to_regclass(quote_ident($1) || '.' || quote_ident($2)) and grantee <> relowner`,
    [readSchema, name],
  )
  return rows.map(({ statement }) => statement)
}
