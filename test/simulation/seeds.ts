/**
 * Seeds that once broke a promise, with what they found. `npm test` runs them again. A change of the simulation changes
 * what a seed does: then `npm run mutants -- --only <name>` with the defect put back gives the seed that finds it now.
 */
export const SEEDS: readonly { readonly seed: number; readonly steps: number; readonly found: string }[] = [
  {
    seed: 10_250,
    steps: 40,
    found:
      'two workers that met a chain in the middle of its registration took lease and checkpoint in turns',
  },
  { seed: 5, steps: 60, found: 'a rewind asked for before any chain was registered was never released' },
  {
    seed: 70,
    steps: 60,
    found:
      'a cut searched on a node whose chain had forked below finalized: events of the new branch were missed',
  },
]
