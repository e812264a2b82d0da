import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startTemporaryPostgres } from '@lockstep/store'
import {
  type Comparison,
  compareFacts,
  createProjectFolder,
  Program,
  type ProjectFolder,
  runProgram,
  waitUntil,
} from '@lockstep/testkit'
import { type DemoChain, startCosmosChain, startEvmChain } from './chains.js'

/*
 * `npm run demo`: real nodes, real processes, one rewind, and the proof that its result is what a fresh index holds.
 * It tells its story in numbered steps; lines with `│` are what the program itself prints.
 */

const ENTRY = fileURLToPath(new URL('../../cli/bin/lockstep.js', import.meta.url))

/** How far the chains come before the rewind, and how far back it goes. */
const INDEX_SECONDS = 12
const REWIND_SECONDS = 7

const cleanUp: (() => Promise<unknown>)[] = []

export const say = (text: string): void => void process.stdout.write(`${text}\n`)
const quote = (line: string): void => say(`  │ ${line}`)

/** @returns the exit code: 0 where both indexes are equal */
export async function demo(): Promise<number> {
  say('1. Starting PostgreSQL (embedded), two EVM chains and a Cosmos chain')
  const postgres = await startTemporaryPostgres()
  cleanUp.push(() => postgres.stop())
  say(`     PostgreSQL ${postgres.version}, in a folder of its own`)
  const chains = await startChains()
  for (const chain of chains) say(`     ${chain.name}: ${chain.kind}`)

  const project = await createProjectFolder(configOf(postgres.url, 'lockstep', chains), postgres.home)
  cleanUp.push(() => project.remove())
  say('\n2. lockstep start: one worker process per chain')
  const indexer = lockstep(project, ['start'], quote)
  await indexer.said(/lease was taken/)
  await sleep(INDEX_SECONDS * 1000)
  say('\n3. lockstep status')
  await run(project, ['status'])

  say(`\n4. lockstep rewind --to -${REWIND_SECONDS}s: every chain goes back to the same moment`)
  const rewind = await run(project, ['rewind', '--to', `-${REWIND_SECONDS}s`, '--yes', '--reason', 'demo'])
  if (rewind !== 0) throw new Error(`the rewind ended with code ${rewind}`)

  say('\n5. All chains fetch again, up to their heads')
  await sleep(6000)
  await Promise.all(chains.map((chain) => chain.quiet()))
  await waitUntil('all chains at their heads', () => atHead(project), 40_000, 500)
  await run(project, ['status'])
  await indexer.stop()

  say('\n6. The same chains, indexed afresh into another schema')
  const heights = await readHeights(project)
  const fresh = await project.write('fresh.yaml', configOf(postgres.url, 'fresh', chains, heights))
  await indexAfresh(project, fresh)

  say('\n7. Both, row by row')
  const comparison = await compareFacts(
    { url: postgres.url, schema: 'lockstep' },
    { url: postgres.url, schema: 'fresh' },
  )
  return report(comparison)
}

async function startChains(): Promise<DemoChain[]> {
  const starts = [startEvmChain('alpha', 1001, 1), startEvmChain('beta', 1002, 2), startCosmosChain('gamma')]
  const settled = await Promise.allSettled(starts)
  const chains = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  for (const chain of chains) cleanUp.push(() => chain.quiet().then(() => chain.stop()))
  const failed = settled.find((each) => each.status === 'rejected')
  if (failed) throw failed.reason
  return chains
}

const configOf = (
  url: string,
  schema: string,
  chains: readonly DemoChain[],
  ends?: ReadonlyMap<string, number>,
): object => ({
  database: { url, schema, readSchema: `${schema}_views` },
  progressInterval: '4s',
  chains: Object.fromEntries(
    chains.map(({ name, config }) => [name, { ...config, ...(ends && { endHeight: ends.get(name) }) }]),
  ),
})

function lockstep(project: ProjectFolder, words: readonly string[], onLine: (line: string) => void): Program {
  const program = new Program({
    entry: ENTRY,
    args: [...words, ...(words.includes('--config') ? [] : ['--config', project.config])],
    env: { LOCKSTEP_LOG_FORMAT: 'pretty', NO_COLOR: '1' },
    onLine,
  })
  cleanUp.push(() => program.stop())
  return program
}

async function run(project: ProjectFolder, words: readonly string[]): Promise<number | null> {
  const { code, stderr } = await lockstep(project, words, quote).ended()
  if (code !== 0) quote(stderr)
  return code
}

interface StatusJson {
  readonly chains: readonly {
    chain: string
    phase: string
    checkpoint: number | null
    lagBlocks: number | null
  }[]
}

async function readStatus(config: string): Promise<StatusJson['chains']> {
  const { code, stdout, stderr } = await runProgram({
    entry: ENTRY,
    args: ['status', '--json', '--config', config],
  })
  if (code !== 0) throw new Error(stderr)
  return (JSON.parse(stdout) as StatusJson).chains
}

async function atHead({ config }: ProjectFolder): Promise<boolean> {
  return (await readStatus(config)).every(
    ({ phase, lagBlocks }) => phase === 'live' && lagBlocks !== null && lagBlocks <= 1,
  )
}

async function readHeights({ config }: ProjectFolder): Promise<Map<string, number>> {
  return new Map((await readStatus(config)).map(({ chain, checkpoint }) => [chain, checkpoint ?? 0]))
}

async function indexAfresh(project: ProjectFolder, config: string): Promise<void> {
  const startedAt = Date.now()
  const indexer = lockstep(project, ['start', '--config', config, '--log-level', 'warn'], quote)
  const finished = async () => (await readStatus(config).catch(() => [])).map(({ phase }) => phase)
  await indexer.said(/(?:)/)
  await waitUntil(
    'the fresh index',
    async () => {
      const phases = await finished()
      return phases.length > 0 && phases.every((phase) => phase === 'finished')
    },
    60_000,
    300,
  )
  await indexer.stop()
  say(`     done in ${((Date.now() - startedAt) / 1000).toFixed(1)} s`)
}

function report({ rows, differences }: Comparison): number {
  for (const [table, count] of Object.entries(rows)) say(`     ${table}: ${count} rows`)
  if (differences.length === 0 && (rows.event ?? 0) > 0) {
    say('\nEqual: after the rewind and catching up, the tables hold exactly what a fresh index holds.')
    return 0
  }
  say('\nDIFFERENT:')
  for (const { table, onlyInFirst, onlyInSecond } of differences) {
    for (const row of onlyInFirst.slice(0, 5)) say(`     ${table}, only after the rewind: ${row}`)
    for (const row of onlyInSecond.slice(0, 5)) say(`     ${table}, only in the fresh index: ${row}`)
  }
  return 1
}

/** Ends what was started, newest first; each failure is told. */
export async function cleanAll(): Promise<void> {
  for (const clean of cleanUp.splice(0).reverse()) {
    await clean().catch((error: unknown) => say(`cleaning up failed: ${String(error)}`))
  }
}
