import type { TimeUs } from '@lockstep/domain'

/** What a request asks for, and what is there already: no database, so that every meeting can be tested. */
export type RequestDecision =
  /** No rewind runs. */
  | { readonly do: 'start' }
  /** The same moment: both wait for the same rewind. */
  | { readonly do: 'join' }
  /** An earlier moment: the running rewind goes further back, for every chain again. */
  | { readonly do: 'deepen' }
  /** A later moment: what it asks to keep is going already. */
  | { readonly do: 'refuse' }

/**
 * @param byFork a fork is never refused for its time: the blocks it wants gone are gone from the chain. A later one
 *   joins, and its own chain goes back by height.
 */
export function decideRequest(
  running: { readonly timestamp: TimeUs } | null,
  asked: TimeUs,
  byFork = false,
): RequestDecision {
  if (running === null) return { do: 'start' }
  if (asked < running.timestamp) return { do: 'deepen' }
  return asked === running.timestamp || byFork ? { do: 'join' } : { do: 'refuse' }
}

/** The lower of two `from`s; null means that nothing goes. */
export function lowerFrom<T extends number>(a: T | null, b: T | null): T | null {
  if (a === null) return b
  return b === null || a < b ? a : b
}
