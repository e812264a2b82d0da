/** What other indexers call our keys: too far from them for a distance in letters. */
const ALSO_CALLED: Readonly<Record<string, string>> = {
  startblock: 'startHeight',
  fromblock: 'startHeight',
  endblock: 'endHeight',
  toblock: 'endHeight',
  url: 'rpc',
  rpcurl: 'rpc',
  rpcurls: 'rpc',
  endpoints: 'rpc',
  confirmations: 'finality',
  network: 'chainId',
}

/** The candidate that `word` was probably meant to be; null where none is near. */
export function closest(word: string, candidates: readonly string[]): string | null {
  const alias = ALSO_CALLED[plain(word)]
  if (alias !== undefined && candidates.includes(alias)) return alias
  // A third of the letters: one slip in a short word, a transposition and another slip in a long one.
  const distanceMax = Math.max(1, Math.floor(word.length / 3))
  const near = candidates
    .map((candidate) => ({ candidate, distance: editDistance(plain(word), plain(candidate)) }))
    .filter(({ distance }) => distance <= distanceMax)
    .sort((a, b) => a.distance - b.distance)
  return near[0]?.candidate ?? null
}

/** `start_height`, `start-height` and `STARTHEIGHT` are all `startHeight`. */
const plain = (word: string): string => word.toLowerCase().replace(/[_\s-]/g, '')

/** Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`. */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(last, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row.push(
        Math.min(
          at(last, j) + 1,
          at(row, j - 1) + 1,
          replaced,
          swapped ? at(beforeLast, j - 2) + 1 : replaced,
        ),
      )
    }
    beforeLast = last
    last = row
  }
  return at(last, b.length)
}

const at = (row: readonly number[], index: number): number => row[index] ?? Number.POSITIVE_INFINITY
