/** Seeds that once broke a promise, with what they found. `npm test` runs them again. */
export const SEEDS: readonly { readonly seed: number; readonly steps: number; readonly found: string }[] = [
  { seed: 1, steps: 60, found: 'a rewind asked for before any chain was registered was never released' },
  {
    seed: 3,
    steps: 60,
    found:
      'a cut searched on a node whose chain had forked below finalized: events of the new branch were missed',
  },
]
