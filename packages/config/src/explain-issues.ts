// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables in the file are written so
import { z } from 'zod'
import { isMapping, type Path } from './config-document.js'
import type { Place } from './place.js'
import { NO_UNIT } from './schema.js'
import { closest } from './suggest.js'

export interface Finding {
  /** Below the place that was checked. */
  readonly path: Path
  readonly at: 'key' | 'value'
  readonly message: string
  readonly hint: string
}

/**
 * What the schema found, in words for the person who wrote the file. A key that is missing only because it is
 * misspelt is one mistake, not two.
 */
export function explainIssues(
  issues: readonly z.core.$ZodIssue[],
  schema: z.ZodType,
  place: Place,
): Finding[] {
  const flat = issues.flatMap((issue) => chosenBranch(issue))
  const unknown = flat.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => unknownKey([...pathOf(issue), key], schema, place))
      : [],
  )
  const misspelt = new Set(unknown.map(({ meant }) => meant))
  const others = flat
    .filter((issue) => issue.code !== 'unrecognized_keys')
    .map((issue) => explain(issue, schema, place))
    .filter(({ path, message }) => !(message === MISSING && misspelt.has(JSON.stringify(path))))
  return [...unknown.map(({ finding }) => finding), ...others]
}

const MISSING = 'is missing'

function unknownKey(path: Path, schema: z.ZodType, place: Place): { finding: Finding; meant: string | null } {
  const parent = schemaAt(schema, path.slice(0, -1)).schema
  const known = keysOf(parent)
  const key = String(path.at(-1))
  const near = closest(key, known)
  const hint = near === null ? `The keys here are ${known.join(', ')}.` : `Did you mean "${near}"?`
  return {
    finding: { path, at: 'key', message: 'unknown key', hint: place.document.show(hint) },
    meant: near === null ? null : JSON.stringify([...path.slice(0, -1), near]),
  }
}

function keysOf(schema: z.ZodType | null): string[] {
  if (schema instanceof z.ZodObject) return Object.keys(schema.shape)
  return schema instanceof z.ZodUnion
    ? (schema.options as z.ZodType[]).flatMap((option) => keysOf(option))
    : []
}

function explain(issue: z.core.$ZodIssue, schema: z.ZodType, place: Place): Finding {
  const path = pathOf(issue)
  const value = valueAt(place.value, path)
  const hint = hintFor(issue, value, path, schema, place)
  if (value === undefined) return { path, at: 'key', message: MISSING, hint }
  return { path, at: 'value', message: value === null ? 'has no value' : issue.message, hint }
}

function hintFor(
  issue: z.core.$ZodIssue,
  value: unknown,
  path: Path,
  schema: z.ZodType,
  place: Place,
): string {
  const source = place.document.sourceOf([...place.path, ...path])
  if (typeof value === 'number' && source !== null && wantsText(issue)) {
    return `Put it in quotes: "${place.document.show(source)}".`
  }
  const choices = issue.code === 'invalid_value' ? issue.values.map(String) : []
  const near = typeof value === 'string' ? closest(value, choices) : null
  if (near !== null) return `Did you mean "${near}"?`
  return schemaAt(schema, path).description ?? 'See config/chains.yaml of the project.'
}

/** True where quotes would help; a span's own sentence asks for a unit instead. */
function wantsText(issue: z.core.$ZodIssue): boolean {
  if (issue.code === 'invalid_union')
    return issue.errors.some((branch) => branch.some((each) => wantsText(each)))
  return issue.code === 'invalid_type' && issue.expected === 'string' && issue.message !== NO_UNIT
}

/** Of a field that may be this or that, the issues of the form that the value has at all. */
function chosenBranch(issue: z.core.$ZodIssue): z.core.$ZodIssue[] {
  if (issue.code !== 'invalid_union') return [issue]
  const fitting = issue.errors.filter((branch) => !branch.some((each) => isWrongKind(each)))
  const [only, second] = fitting
  if (only === undefined || second !== undefined) return [issue]
  return only.flatMap((each) => chosenBranch({ ...each, path: [...issue.path, ...each.path] }))
}

const isWrongKind = (issue: z.core.$ZodIssue): boolean =>
  issue.path.length === 0 && (issue.code === 'invalid_type' || issue.code === 'invalid_value')

/** Sentences for the issues to which the schema gives none of its own. */
export const defaultMessage: z.core.$ZodErrorMap = (issue) => {
  if (issue.code === 'invalid_type')
    return `must be ${KINDS[issue.expected] ?? issue.expected}, found ${kindOf(issue.input)}`
  if (issue.code === 'invalid_value') return `must be one of ${issue.values.map(String).join(', ')}`
  if (issue.code === 'too_small') return `must be ${issue.minimum} or more`
  if (issue.code === 'too_big') return `must be ${issue.maximum} or less`
  return 'is not of a form that fits here'
}

const KINDS: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a whole number',
  string: 'text',
  boolean: 'true or false',
  array: 'a list',
  object: 'keys with values',
  record: 'keys with values',
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  if (isMapping(value)) return 'keys with values'
  if (typeof value === 'number') return Number.isInteger(value) ? 'a number' : 'a number with a fraction'
  return typeof value === 'string' ? 'text' : typeof value === 'boolean' ? 'true or false' : 'nothing'
}

const pathOf = (issue: z.core.$ZodIssue): Path =>
  issue.path.map((key) => (typeof key === 'symbol' ? String(key) : key))

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (here, key) => (here !== null && typeof here === 'object' ? Reflect.get(here, key) : undefined),
    value,
  )
}

interface Described {
  readonly schema: z.ZodType | null
  /** Of the schema itself, or of the nearest above it that has one. */
  readonly description: string | null
}

/** The part of the schema that judges the value at the path. */
function schemaAt(schema: z.ZodType, path: Path): Described {
  let here: Described = bare({ schema, description: null })
  for (const key of path) {
    if (here.schema === null) break
    here = bare({ schema: below(here.schema, key), description: here.description })
  }
  return here
}

/** Without what only wraps it (optional, default, transformed). */
function bare({ schema, description }: Described): Described {
  let inner = schema
  let told = schema?.description ?? null
  while (
    inner instanceof z.ZodOptional ||
    inner instanceof z.ZodDefault ||
    inner instanceof z.ZodPrefault ||
    inner instanceof z.ZodPipe
  ) {
    inner = (inner instanceof z.ZodPipe ? inner.in : inner.unwrap()) as z.ZodType
    told ??= inner.description ?? null
  }
  return { schema: inner, description: told ?? description }
}

function below(schema: z.ZodType, key: string | number): z.ZodType | null {
  if (schema instanceof z.ZodObject) return (schema.shape[key] as z.ZodType | undefined) ?? null
  if (schema instanceof z.ZodArray) return schema.element as z.ZodType
  if (schema instanceof z.ZodRecord) return schema.valueType as z.ZodType
  if (!(schema instanceof z.ZodUnion)) return null
  const options = schema.options as z.ZodType[]
  return options.map((option) => below(option, key)).find((found) => found !== null) ?? null
}
