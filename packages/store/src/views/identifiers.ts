import { createHash } from 'node:crypto'

/*
 * Names of views, columns and indexes from words of the config. The rule is PostgreSQL's own for names without quotes,
 * taken to its end, so that people write `usdc_Transfer` or `tokenId` as the ABI does and find them: letters go lower
 * case, and what is no letter, digit, `_` or `$` becomes `_`. PostgreSQL would cut a name after 63 bytes in silence;
 * here such a name keeps its first 54 and gets `_` and 8 hex digits of the SHA-256 of what it stands for. So do names that
 * would be equal, all of them: which one a name means must not depend on the order of the config.
 */

const BYTES_MAX = 63
const DIGITS = 8

export interface Named {
  /** The words that the name is made of. */
  readonly words: string
  /** What the name stands for, told apart from everything else in its list. */
  readonly stands: string
}

/** A name for each, all different, in the same order. */
export const distinctNames = (each: readonly Named[]): string[] => settle(each, each.map(plainName), DIGITS)

/** One name, made different from all others by what it stands for. */
export const nameWithDigest = (named: Named): string => digested(named, DIGITS)

/** Names that are equal get digits, and more of them for as long as there are equal ones. */
function settle(each: readonly Named[], names: readonly string[], digits: number): string[] {
  const count = new Map<string, number>()
  for (const name of names) count.set(name, (count.get(name) ?? 0) + 1)
  const isOnly = (name: string) => count.get(name) === 1
  if (names.every(isOnly) || digits > 32) return [...names]
  const next = each.map((named, index) => {
    const name = names[index] as string
    return isOnly(name) ? name : digested(named, digits)
  })
  return settle(each, next, digits * 2)
}

function plainName(named: Named): string {
  const name = identifier(named.words)
  return name.length <= BYTES_MAX ? name : digested(named, DIGITS)
}

function digested({ words, stands }: Named, digits: number): string {
  const digest = createHash('sha256').update(stands).digest('hex').slice(0, digits)
  return `${identifier(words).slice(0, BYTES_MAX - 1 - digits)}_${digest}`
}

/** ASCII alone, so bytes are characters. */
function identifier(words: string): string {
  const name = words
    .toLowerCase()
    .replace(/[^a-z0-9_$]+$/, '')
    .replace(/[^a-z0-9_$]+/g, '_')
  return /^[a-z_]/.test(name) ? name : `_${name}`
}
