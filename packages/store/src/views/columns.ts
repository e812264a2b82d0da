import { type EvmArgument, type EvmEvent, isHashed } from '@lockstep/config'
import { quoteText } from '../names.js'
import { distinctNames } from './identifiers.js'

/** A column of a typed view, read from one row `t` of `event`. */
export interface Column {
  readonly name: string
  readonly type: 'text' | 'numeric' | 'boolean' | 'bytea' | 'jsonb' | 'fixed'
  /** Over columns of `event`, without a table's name: an index is made of the same. */
  readonly expression: string
  readonly comment: string
  /** Its key in `args`; null: no argument. */
  readonly key: string | null
  /** The kind of index that suits it; null: none does. */
  readonly index: 'btree' | 'hash' | null
}

const fixed = (name: string, comment: string): Column => ({
  name,
  type: 'fixed',
  expression: name,
  comment,
  key: null,
  index: null,
})

/** What every typed view begins with. */
const POSITION: readonly Column[] = [
  fixed('chain', 'Key of the chain in the config.'),
  fixed('height', "The block's number."),
  fixed('block_time', "The block's own timestamp."),
  fixed('tx_index', 'Index of the transaction in the block; -1: begin block, 2147483647: end block.'),
  fixed(
    'event_index',
    "EVM: the node's logIndex. Cosmos: the index among the events of its transaction or phase.",
  ),
  fixed('tx_hash', "The transaction's hash; empty where there is none."),
  fixed('block_hash', "The block's hash."),
  fixed('address', 'The contract that emitted it; null where the event names none.'),
]

/**
 * Position columns, then one per argument. An argument without a name is `arg_0` by its place, and one that is named as
 * a position column gets `arg_` before its name.
 */
export function evmColumns(event: EvmEvent): Column[] {
  const names = argumentNames(
    event.inputs.map(({ key, name }) => (name === key ? name : `arg_${key}`)),
    POSITION,
  )
  return [...POSITION, ...event.inputs.map((input, index) => evmColumn(names[index] as string, input))]
}

const NAME = fixed('name', "The event's type.")
const ARGS: Column = {
  ...fixed('args', 'All attributes by key; a key that comes again has the list of its values.'),
  type: 'jsonb',
}

/** See `failedTransactions` in the config; values of attributes are never objects, so none can look like the mark. */
const FAILED: Column = {
  ...fixed('failed', 'Whether its transaction failed; such are there only with "failedTransactions: true".'),
  type: 'boolean',
  expression: `coalesce(jsonb_typeof(args -> '_failed') = 'object', false)`,
}

/** Position columns, `failed`, `name` where the view is of every type, `args`, then one per attribute that the config lists. */
export function cosmosColumns(attributes: readonly string[], everyType: boolean): Column[] {
  const first = [...POSITION, FAILED, ...(everyType ? [NAME] : []), ARGS]
  const names = argumentNames(attributes, first)
  return [
    ...first,
    ...attributes.map(
      (key, index): Column => ({
        name: names[index] as string,
        type: 'text',
        expression: `args ->> ${quoteText(key)}`,
        comment: `Attribute ${key}; where it comes again, the list of its values as JSON.`,
        key,
        index: 'hash', // of any length, and an entry of a btree is not
      }),
    ),
  ]
}

function argumentNames(keys: readonly string[], before: readonly Column[]): string[] {
  const taken = new Set(before.map(({ name }) => name))
  return distinctNames(
    keys.map((key) => {
      const [name] = distinctNames([{ words: key, stands: key }])
      return { words: taken.has(name ?? '') ? `arg_${key}` : key, stands: key }
    }),
  )
}

/** Integers of every width are `numeric`: one rule, and none that a wider type breaks. */
function evmColumn(name: string, input: EvmArgument): Column {
  const text = `args ->> ${quoteText(input.key)}`
  const bytes = `decode(substr(${text}, 3), 'hex')`
  const what = `${input.type} ${input.name}`.trim()
  const column = (
    type: Column['type'],
    expression: string,
    index: Column['index'],
    comment: string,
  ): Column => ({ name, type, expression, index, comment: `${what}${comment}`, key: input.key })
  if (isHashed(input))
    return column('bytea', bytes, 'btree', ': its keccak-256, which is all that the log holds of it.')
  if (/^tuple|\]$/.test(input.type))
    return column('jsonb', `args -> ${quoteText(input.key)}`, null, '; integers in it are decimal text.')
  if (/^u?int\d*$/.test(input.type))
    return column(
      'numeric',
      `(${text})::numeric`,
      'btree',
      ', exact, as the contract gives it: no decimals taken off.',
    )
  if (input.type === 'address')
    return column('text', text, 'btree', ", lower-case: compare with address('0x…').")
  if (input.type === 'bool') return column('boolean', `(${text})::boolean`, 'btree', '.')
  if (input.type === 'string')
    return column('text', text, 'hash', '; text_bytes() gives the bytes where they are no text.')
  if (input.type === 'bytes') return column('bytea', bytes, 'hash', '.')
  if (/^bytes\d+$/.test(input.type)) return column('bytea', bytes, 'btree', '.')
  return column('jsonb', `args -> ${quoteText(input.key)}`, null, '.')
}
