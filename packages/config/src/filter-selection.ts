/** What a filter looks for, coarsely. Null: any. */
export interface FilterSelection {
  /** EVM: topic 0; null for an anonymous event. Cosmos: the type. */
  readonly event: string | null
  /** Cosmos: value of the attribute `action`. */
  readonly action: string | null
  readonly addresses: readonly string[] | null
}

/** Whether one log may fit both. Where they do not meet, neither can take a log from the other. */
export function selectionsMeet(a: FilterSelection, b: FilterSelection): boolean {
  return meet(a.event, b.event) && meet(a.action, b.action) && shareAddress(a.addresses, b.addresses)
}

const meet = (a: string | null, b: string | null): boolean => a === null || b === null || a === b

function shareAddress(a: readonly string[] | null, b: readonly string[] | null): boolean {
  if (a === null || b === null) return a === null ? b === null || b.length > 0 : a.length > 0
  const known = new Set(a)
  return b.some((address) => known.has(address))
}
