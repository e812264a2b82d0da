/*
 * npm run simulate -- --seed 1 --steps 80 [--seeds 100] [--trace] [--twice] [--until-broken] [--processes]
 *
 * Runs seeds one after the other and prints what each came to. Ends with 1 where a promise was broken.
 */
import { parseArgs } from 'node:util'
import { startTemporaryPostgres } from '@lockstep/store'
import { startPostgresForTests } from '@lockstep/testkit'
import { prepareDatabase, type SimulationResult, simulate } from './simulate.js'
import { SimulatedServer } from './simulated-server.js'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    steps: { type: 'string', default: '80' },
    seeds: { type: 'string', default: '1' },
    trace: { type: 'boolean', default: false },
    twice: { type: 'boolean', default: false },
    /** Stop at the first broken promise. */
    'until-broken': { type: 'boolean', default: false },
    /** A database to use, and to empty; left out: a temporary PostgreSQL. */
    database: { type: 'string' },
    /** Real processes; the seed gives the schedule. */
    processes: { type: 'boolean', default: false },
  },
})

const print = (text: string): void => void process.stdout.write(`${text}\n`)

const first = Number(values.seed)
const steps = Number(values.steps)
const failed: number[] = []
const startedAt = Date.now()
await (values.processes ? withProcesses() : inOneProcess())
const seconds = ((Date.now() - startedAt) / 1000).toFixed(0)
print(`${failed.length === 0 ? 'every promise held' : `broken by ${failed.join(', ')}`}, in ${seconds} s`)
if (failed.length > 0) process.exitCode = 1

async function inOneProcess(): Promise<void> {
  const postgres = values.database ? null : await startTemporaryPostgres()
  const url = values.database ?? postgres?.url ?? ''
  try {
    await prepareDatabase(url)
    const server = await SimulatedServer.open(url)
    for (let seed = first; seed < first + Number(values.seeds); seed++) {
      const result = await simulate(server, { seed, steps })
      report(result)
      if (result.failure) failed.push(seed)
      if (result.failure && values['until-broken']) break
      if (!values.twice) continue
      const again = await simulate(server, { seed, steps })
      if (again.digest !== result.digest) tellDifference(result, again)
    }
    await server.close()
  } finally {
    await postgres?.stop()
  }
}

async function withProcesses(): Promise<void> {
  const { simulateProcesses } = await import('./processes.js')
  const stop = stopOnSignals()
  const postgres = await startPostgresForTests({ databaseUrl: values.database, dockerHost: undefined })
  try {
    for (let seed = first; seed < first + Number(values.seeds); seed++) {
      const { schedule, failure, seconds } = await simulateProcesses(seed, steps, stop)
      if (stop.aborted) break
      if (values.trace) for (const line of schedule) print(line)
      print(`seed ${seed} steps ${steps}: ${seconds.toFixed(0)} s: ${failure ? `BROKEN ${failure}` : 'held'}`)
      if (failure) failed.push(seed)
      if (failure && values['until-broken']) break
    }
  } finally {
    await postgres.stop()
  }
  // Whatever the run was in the middle of is left there.
  if (stop.aborted) process.exit(130)
}

/** The first signal takes down what the run has started, folders too; the second ends this process at once. */
function stopOnSignals(): AbortSignal {
  const stop = new AbortController()
  const end = (): void => {
    if (stop.signal.aborted) process.exit(130)
    print('ending: processes and folders of the run are taken down')
    stop.abort()
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, end)
  return stop.signal
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
