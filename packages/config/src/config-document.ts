// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables in the file are written so
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type Scalar,
  type YAMLError,
} from 'yaml'
import type { ConfigProblem } from './config-error.js'
import { type Environment, expandVariables, soleVariable } from './expand-variables.js'

export type Path = readonly (string | number)[]

interface Spot {
  readonly node: Node | null
  /** Offset of the key, or of the item in a list. */
  readonly keyAt: number
  readonly valueAt: number
}

/**
 * The file as values with the environment put in, and the way back from a value's path to its line.
 *
 * Variables are expanded in the scalars of the parsed tree, never in the text of the file: so no value of a variable
 * can add a key, end a quotation or become a comment. Messages show values only through `show`, which takes out
 * again what came from the environment.
 */
export class ConfigDocument {
  /** Undefined where the file is not YAML; `problems` says why. */
  readonly value: unknown
  readonly #problems: { problem: ConfigProblem; path: Path }[] = []
  readonly #spots = new Map<string, Spot>()
  /** Paths whose value is unknown: a second complaint about them would be about our own placeholder. */
  readonly #unresolved = new Set<string>()
  readonly #secrets = new Map<string, string>()
  readonly #lines = new LineCounter()
  readonly #root: Document

  constructor(
    readonly file: string,
    text: string,
    readonly env: Environment,
  ) {
    this.#root = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false })
    const faults = [...this.#root.errors, ...this.#root.warnings]
    for (const fault of faults) this.#refuseSyntax(fault)
    // With its structure in doubt the rest of the file cannot be judged; a key given twice does not harm it.
    const broken = faults.some((fault) => fault.code !== 'DUPLICATE_KEY')
    this.value = broken ? undefined : this.#read(this.#root.contents, [], 0, [])
  }

  /** In the order of the file. */
  get problems(): ConfigProblem[] {
    const place = ({ line, column }: ConfigProblem) => (line ?? 0) * 1e6 + (column ?? 0)
    return this.#problems.map(({ problem }) => problem).sort((a, b) => place(a) - place(b))
  }

  refuse(path: Path, message: string, hint: string, at: 'key' | 'value' = 'value'): void {
    const text = pathText(path)
    if (this.#unresolved.has(text)) return
    this.#push(path, this.#offset(path, at), message, hint)
  }

  /** Takes back what was found at or below the path: a disabled chain may be unfinished. */
  forgetProblems(path: Path): void {
    const below = (other: Path) => path.every((key, index) => other[index] === key)
    const kept = this.#problems.filter((each) => !below(each.path))
    this.#problems.splice(0, this.#problems.length, ...kept)
  }

  /** A value or a library's words about it, fit for a message: without the environment's values, without URLs. */
  show(text: string): string {
    let shown = text
    for (const [value, name] of [...this.#secrets].sort(([a], [b]) => b.length - a.length)) {
      shown = shown.replace(
        new RegExp(value.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi'),
        () => `\${${name}}`,
      )
    }
    return shown.replace(/[a-z][a-z0-9+.-]*:\/\/[^\s"']+/gi, '(a URL)')
  }

  /** What stands in the file for a scalar: `0xA0b8…` where the value has become a number. */
  sourceOf(path: Path): string | null {
    const node = this.#spots.get(pathText(path))?.node
    return isScalar(node) ? (node.source ?? null) : null
  }

  #read(node: unknown, path: Path, keyAt: number, above: readonly unknown[]): unknown {
    const valueAt = (node as Node | null)?.range?.[0] ?? keyAt
    const target = isAlias(node) ? node.resolve(this.#root) : node
    this.#spots.set(pathText(path), { node: (target as Node | null) ?? null, keyAt, valueAt })
    if (isAlias(node) && (target === undefined || above.includes(target))) {
      return this.#leaveUnresolved(
        path,
        `alias *${node.source} names nothing above it`,
        'Check the name of its anchor.',
      )
    }
    if (isMap(target)) return this.#readMap(target.items, path, [...above, target])
    if (isSeq(target)) {
      return target.items.map((item, index) =>
        this.#read(item, [...path, index], offsetOf(item), [...above, target]),
      )
    }
    return isScalar(target) ? this.#readScalar(target, path) : null
  }

  #readMap(
    pairs: readonly { key: unknown; value: unknown }[],
    path: Path,
    above: readonly unknown[],
  ): unknown {
    const entries = pairs.map(({ key, value }) => {
      const name = isScalar(key) ? (key.source ?? String(key.value)) : String(key)
      return [name, this.#read(value, [...path, name], offsetOf(key), above)] as const
    })
    return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
  }

  #readScalar(scalar: Scalar, path: Path): unknown {
    const { value } = scalar
    if (typeof value !== 'string' || !value.includes('${')) return value
    const { text, used, problems } = expandVariables(value, this.env)
    for (const { name, value: secret } of used) this.#secrets.set(secret, name)
    if (text === '' && soleVariable(value) !== null && OPTIONAL_VARIABLES.has(pathText(path)))
      return undefined
    for (const { message, hint } of problems) this.#leaveUnresolved(path, message, hint)
    return scalar.type === 'PLAIN' ? asYamlReadsIt(text) : text
  }

  #leaveUnresolved(path: Path, message: string, hint: string): string {
    this.#push(path, this.#offset(path, 'value'), message, hint)
    this.#unresolved.add(pathText(path))
    return ''
  }

  #refuseSyntax(fault: YAMLError): void {
    const [message, hint] = explainSyntax(fault)
    this.#push([], fault.pos[0], message, hint)
  }

  #push(path: Path, offset: number, message: string, hint: string): void {
    const { line, col } = this.#lines.linePos(offset)
    const shown = path.map((key) => (typeof key === 'number' ? key : this.show(key)))
    const problem = {
      file: this.file,
      line: line || 1,
      column: col || 1,
      path: pathText(shown),
      message,
      hint,
    }
    this.#problems.push({ problem, path })
  }

  /** Of the path, or of the nearest above it that is in the file: there a missing key belongs. */
  #offset(path: Path, at: 'key' | 'value'): number {
    const spot = this.#spots.get(pathText(path))
    if (spot) return at === 'key' ? spot.keyAt : spot.valueAt
    return path.length === 0 ? 0 : this.#offset(path.slice(0, -1), 'key')
  }
}

/** Where a variable that is not set means that the key is left out. */
const OPTIONAL_VARIABLES: ReadonlySet<string> = new Set(['database.url'])

/** `chains.ethereum.rpc[0]` */
export const pathText = (path: Path): string =>
  path.map((key, index) => (typeof key === 'number' ? `[${key}]` : index === 0 ? key : `.${key}`)).join('')

export const isMapping = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === 'object' && !Array.isArray(value)

const offsetOf = (node: unknown): number => (node as Node | null)?.range?.[0] ?? 0

/** Unquoted, a variable's value is read as YAML would read it in that place: digits are a number. */
function asYamlReadsIt(text: string): unknown {
  if (/^-?\d{1,15}$/.test(text)) return Number(text)
  return text === 'true' || text === 'false' ? text === 'true' : text
}

/** The library's sentences quote the file for some mistakes, so those get words of our own. */
function explainSyntax(fault: YAMLError): readonly [message: string, hint: string] {
  switch (fault.code) {
    case 'DUPLICATE_KEY':
      return ['this key is given twice', 'Remove one of the two.']
    case 'UNEXPECTED_TOKEN':
    case 'MISSING_CHAR':
      return [
        'this is not YAML: brackets, braces or quotes do not match',
        'Inside [ ] and { } put "${NAME}" in quotes; close every bracket, brace and quote.',
      ]
    case 'TAB_AS_INDENT':
      return ['this is not YAML: a tab is used to indent', 'Indent with spaces.']
    case 'BLOCK_AS_IMPLICIT_KEY':
    case 'BAD_INDENT':
      return ['this is not YAML: the indentation does not fit', 'Keys of one level begin in the same column.']
    case 'MULTIPLE_DOCS':
      return ['a second document begins here', 'Remove the line "---": the file is one document.']
    default:
      return [
        `this is not YAML (${fault.code})`,
        'Check quotes, brackets and indentation here and just above.',
      ]
  }
}
