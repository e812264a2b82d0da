import type { Height } from './scalars.js'

/** Heights up to the checkpoint that a filter's facts are still missing of. */
export interface Gap {
  readonly filter: string
  readonly from: Height
  readonly to: Height
}

/** What of the gaps is fetched next, in one go. */
export interface GapPiece {
  readonly from: Height
  readonly to: Height
  readonly filters: readonly string[]
}

/**
 * From the lowest height up, with all filters that miss it, as a fresh index would go: so what a factory's event tells
 * of is known before its children's own events are looked for.
 *
 * @param whole the height up to which many blocks are taken at once; above it one by one
 */
export function nextPiece(gaps: readonly Gap[], widthMax: number, whole: Height | null): GapPiece | null {
  const from = gaps.reduce((lowest, gap) => Math.min(lowest, gap.from), Number.POSITIVE_INFINITY)
  if (from === Number.POSITIVE_INFINITY) return null
  const open = gaps.filter((gap) => gap.from === from)
  const others = gaps.filter((gap) => gap.from > from).map((gap) => gap.from - 1)
  const width = from <= (whole ?? -1) ? Math.min(widthMax, (whole ?? from) - from + 1) : 1
  const to = Math.min(from + width - 1, ...open.map((gap) => gap.to), ...others)
  return { from: from as Height, to: to as Height, filters: open.map(({ filter }) => filter) }
}

/** The gaps with one more, of which what touches or overlaps it is made one. */
export function openGap(gaps: readonly Gap[], gap: Gap): Gap[] {
  if (gap.from > gap.to) return [...gaps]
  const touches = (each: Gap) =>
    each.filter === gap.filter && each.from <= gap.to + 1 && each.to >= gap.from - 1
  const merged = gaps.filter(touches)
  return [
    ...gaps.filter((each) => !touches(each)),
    {
      filter: gap.filter,
      from: Math.min(gap.from, ...merged.map(({ from }) => from)) as Height,
      to: Math.max(gap.to, ...merged.map(({ to }) => to)) as Height,
    },
  ]
}

/** The gaps without what the piece has filled: each of its filters missed all of it. */
export const fillGaps = (gaps: readonly Gap[], { from, to, filters }: GapPiece): Gap[] =>
  gaps.flatMap((gap) => {
    if (gap.from !== from || !filters.includes(gap.filter)) return [gap]
    return gap.to === to ? [] : [{ ...gap, from: (to + 1) as Height }]
  })
