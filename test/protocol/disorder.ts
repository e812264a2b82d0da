/** Random numbers from a seed, so that a round that failed can be run again: mulberry32. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The seed of this run: the one that was given, to repeat it, or the clock's. */
export const seedOfRun = (): number => Number(process.env.LOCKSTEP_TEST_SEED ?? Date.now() % 1_000_000)
