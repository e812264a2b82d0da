/*
 * npm run simulate -- --seed 1 --steps 80 [--seeds 100] [--trace] [--twice]
 *
 * Runs seeds one after the other and prints what each came to. Ends with 1 where a promise was broken.
 */
import { parseArgs } from 'node:util'
import { startTemporaryPostgres } from '@lockstep/store'
import { prepareDatabase, type SimulationResult, simulate } from './simulate.js'
import { SimulatedServer } from './simulated-server.js'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    steps: { type: 'string', default: '80' },
    seeds: { type: 'string', default: '1' },
    trace: { type: 'boolean', default: false },
    twice: { type: 'boolean', default: false },
  },
})

const print = (text: string): void => void process.stdout.write(`${text}\n`)

const postgres = await startTemporaryPostgres()
try {
  await prepareDatabase(postgres.url)
  const server = await SimulatedServer.open(postgres.url)
  const failed: number[] = []
  const first = Number(values.seed)
  const startedAt = Date.now()
  for (let seed = first, began = Date.now(); seed < first + Number(values.seeds); seed++) {
    began = Date.now()
    const result = await simulate(server, { seed, steps: Number(values.steps) })
    print(`${Date.now() - began} ms`)
    if (result.failure) failed.push(seed)
    report(result)
    if (values.twice) {
      const again = await simulate(server, { seed, steps: Number(values.steps) })
      if (again.digest !== result.digest) tellDifference(result, again)
    }
  }
  await server.close()
  const seconds = (Date.now() - startedAt) / 1000
  print(
    `${values.seeds} seeds in ${seconds.toFixed(0)} s; ${failed.length === 0 ? 'every promise held' : `broken: ${failed.join(', ')}`}`,
  )
  process.exitCode = failed.length === 0 ? 0 : 1
} finally {
  await postgres.stop()
}

function report({ seed, steps, digest, trace, virtualSeconds, failure }: SimulationResult): void {
  if (values.trace) for (const line of trace) print(line)
  const end = failure ? `BROKEN ${failure.promise}: ${failure.detail}` : 'held'
  print(
    `seed ${seed} steps ${steps}: ${trace.length} turns, ${Math.round(virtualSeconds)} virtual s, ${digest}: ${end}`,
  )
}

function tellDifference(a: SimulationResult, b: SimulationResult): void {
  const index = a.trace.findIndex((line, at) => line !== b.trace[at])
  print(
    `seed ${a.seed} did not repeat; from line ${index}:\n  ${a.trace.slice(index - 2, index + 3).join('\n  ')}\n---`,
  )
  print(`  ${b.trace.slice(index - 2, index + 3).join('\n  ')}`)
  process.exitCode = 1
}
