import { readRows } from './read-rows.js'

interface Place {
  readonly url: string
  readonly schema: string
}

/**
 * The schema as the catalogue has it, as text that is the same on every supported PostgreSQL: tables with their columns,
 * constraints and indexes, functions, and the views of the read schema. (`pg_dump` need not be there, and differs with
 * its version.)
 */
export async function dumpSchema(place: Place, readSchema: string): Promise<string> {
  const parts = [
    ...(await dumpTables(place)),
    ...(await texts(place, FUNCTIONS, place.schema)),
    ...(await texts(place, VIEWS, readSchema)),
  ]
  return `${parts
    .join('\n\n')
    .replaceAll(`${place.schema}.`, '')
    .replaceAll(/[ \t]+$/gm, '')}\n`
}

async function dumpTables(place: Place): Promise<string[]> {
  const tables = await readRows<{ oid: number; name: string; partition: string | null }>(
    place,
    `select oid, quote_ident(relname) as name, pg_get_partkeydef(oid) as partition from pg_class
     where relnamespace = $1::regnamespace and relkind in ('r', 'p') and not relispartition order by relname collate "C"`,
    [place.schema],
  )
  return Promise.all(
    tables.map(async ({ oid, name, partition }) => {
      const lines = [...(await texts(place, COLUMNS, oid)), ...(await texts(place, CONSTRAINTS, oid))]
      const end = partition === null ? ')' : `) partition by ${partition}`
      const indexes = await texts(place, INDEXES, oid)
      return [`table ${name} (`, ...lines.map((line) => `  ${line}`), end, ...indexes].join('\n')
    }),
  )
}

const texts = async (place: Place, sql: string, of: unknown): Promise<string[]> =>
  (await readRows<{ text: string }>(place, sql, [of])).map(({ text }) => text)

const COLUMNS = `
  select concat_ws(' ', quote_ident(attname), format_type(atttypid, atttypmod),
    case when attcollation <> typcollation then 'collate ' || attcollation::regcollation end,
    case when attnotnull then 'not null' end,
    case attidentity when 'a' then 'generated always as identity' end,
    'default ' || pg_get_expr(adbin, adrelid)) as text
  from pg_attribute join pg_type t on t.oid = atttypid left join pg_attrdef on adrelid = attrelid and adnum = attnum
  where attrelid = $1 and attnum > 0 and not attisdropped order by attnum`

/** From PostgreSQL 18 on "not null" is a constraint as well: it stands with its column. */
const CONSTRAINTS = `
  select 'constraint ' || quote_ident(conname) || ' ' || pg_get_constraintdef(oid) as text from pg_constraint
  where conrelid = $1 and contype <> 'n' order by contype, conname collate "C"`

const INDEXES = `
  select pg_get_indexdef(indexrelid) as text from pg_index join pg_class on oid = indexrelid
  where indrelid = $1 and not exists (select from pg_constraint where conindid = indexrelid and contype in ('p', 'u'))
  order by relname collate "C"`

const FUNCTIONS = `
  select pg_get_functiondef(oid) as text from pg_proc
  where pronamespace = $1::regnamespace order by proname collate "C"`

/** Columns only: how PostgreSQL prints a view's query differs between versions, and the migration is there to read. */
const VIEWS = `
  select 'view ' || relname || ' (' || string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum)
    || ')' as text
  from pg_class join pg_attribute on attrelid = pg_class.oid and attnum > 0
  where relnamespace = $1::regnamespace and relkind = 'v' group by relname order by relname collate "C"`
