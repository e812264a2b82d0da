import type { z } from 'zod'
import { type ConfigDocument, isMapping, type Path } from './config-document.js'
import { defaultMessage, explainIssues } from './explain-issues.js'
import { closest } from './suggest.js'

/** One value of the configuration together with where it stands. */
export class Place {
  constructor(
    readonly document: ConfigDocument,
    readonly path: Path,
    readonly value: unknown,
  ) {}

  get key(): string {
    return String(this.path.at(-1) ?? '')
  }

  child(key: string): Place {
    const value = isMapping(this.value) ? this.value[key] : undefined
    return new Place(this.document, [...this.path, key], value)
  }

  /** What the mapping or list holds, in the order of the file; nothing for anything else. */
  children(): Place[] {
    if (Array.isArray(this.value)) {
      return this.value.map((item, index) => new Place(this.document, [...this.path, index], item))
    }
    return isMapping(this.value) ? Object.keys(this.value).map((key) => this.child(key)) : []
  }

  /** A field that is one value or a list of them. */
  oneOrMore(): Place[] {
    return Array.isArray(this.value) ? this.children() : [this]
  }

  /** The value in the schema's form; null, and a problem for each mistake in it, where it has not that form. */
  take<T>(schema: z.ZodType<T>): T | null {
    const result = schema.safeParse(this.value, { error: defaultMessage })
    if (result.success) return result.data
    for (const found of explainIssues(result.error.issues, schema, this)) {
      this.document.refuse([...this.path, ...found.path], found.message, found.hint, found.at)
    }
    return null
  }

  /** As `take`, in silence: for a part of what was taken, and refused, as a whole. */
  read<T>(schema: z.ZodType<T>): T | null {
    const result = schema.safeParse(this.value)
    return result.success ? result.data : null
  }

  refuse(message: string, hint: string, at: 'key' | 'value' = 'value'): null {
    this.document.refuse(this.path, message, hint, at)
    return null
  }

  /** A value in quotes, for a message. */
  quote(text: string): string {
    const shown = this.document.show(text)
    return `"${shown.length > 120 ? `${shown.slice(0, 120)}…` : shown}"`
  }

  /** `Did you mean "x"?`, or all there is to choose from. */
  suggest(word: string, candidates: readonly string[]): string {
    const near = closest(word, candidates)
    return near === null ? `There ${count(candidates)}: ${candidates.join(', ')}.` : `Did you mean "${near}"?`
  }
}

const count = (candidates: readonly string[]): string => (candidates.length === 1 ? 'is only' : 'are')
