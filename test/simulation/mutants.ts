/*
 * npm run mutants -- [--seeds 100] [--steps 60] [--only <part of a name>] [--shielded]
 *
 * Shows that the simulation finds bugs: breaks the protocol on purpose, one way at a time, in a copy of the packages,
 * and runs seeds on it until a promise is broken. A mutant that survives is a hole in the simulation: ends with 1.
 */
import { spawn } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { startTemporaryPostgres } from '@lockstep/store'
import pg from 'pg'
import ts from 'typescript'
import { type Change, MUTATIONS, type Mutation, SHIELDED } from './mutations.js'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

interface Verdict {
  readonly mutation: Mutation
  /** Null: it survived. */
  readonly caughtBy: { readonly seed: number; readonly promise: string } | null
}

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '100' },
    steps: { type: 'string', default: '60' },
    only: { type: 'string', default: '' },
    shielded: { type: 'boolean', default: false },
  },
})

const print = (text: string): void => void process.stdout.write(`${text}\n`)

const copy = await mkdtemp(join(tmpdir(), 'lockstep-mutants-'))
const postgres = await startTemporaryPostgres()
try {
  await copyRepository(copy)
  const verdicts: Verdict[] = []
  for (const mutation of (values.shielded ? SHIELDED : MUTATIONS).filter(({ name }) =>
    name.includes(values.only),
  )) {
    const verdict = await tryMutation(mutation, verdicts.length)
    verdicts.push(verdict)
    print(describeVerdict(verdict))
  }
  await provePlainCopy(Math.max(...verdicts.map(({ caughtBy }) => caughtBy?.seed ?? 0)))
  const survivors = verdicts.filter(({ caughtBy }) => caughtBy === null)
  print(`${verdicts.length} mutants, ${survivors.length} survived`)
  process.exitCode = survivors.length === 0 ? 0 : 1
} finally {
  await postgres.stop()
  await rm(copy, { recursive: true, force: true, maxRetries: 5 })
}

/** Own packages, everything else of `node_modules` by link. */
async function copyRepository(to: string): Promise<void> {
  for (const name of ['packages', 'migrations', 'config', 'test/simulation', 'package.json'])
    await cp(join(ROOT, name), join(to, name), { recursive: true, verbatimSymlinks: true })
  await mkdir(join(to, 'node_modules/@lockstep'), { recursive: true })
  for (const name of await readdir(join(ROOT, 'node_modules'))) {
    if (name !== '@lockstep') await symlink(join(ROOT, 'node_modules', name), join(to, 'node_modules', name))
  }
  for (const name of await readdir(join(to, 'packages')))
    await symlink(join(to, 'packages', name), join(to, 'node_modules/@lockstep', name))
}

async function tryMutation(mutation: Mutation, index: number): Promise<Verdict> {
  const undo: (() => Promise<void>)[] = []
  try {
    for (const change of mutation.changes) undo.push(await apply(change))
    const database = await createDatabase(`mutant_${index}`)
    return { mutation, caughtBy: await runSeeds(database, Number(values.seeds)) }
  } finally {
    for (const each of undo.reverse()) await each()
  }
}

/** What caught the mutants must be the mutations: without one, the same seeds find nothing. */
async function provePlainCopy(lastSeed: number): Promise<void> {
  const found = await runSeeds(await createDatabase('plain'), lastSeed + 1 - Number(values.seed))
  if (found !== null) throw new Error(`seed ${found.seed} breaks without a mutation: ${found.promise}`)
  print(`without a mutation the same seeds, up to ${lastSeed}, break nothing`)
}

/** Changes source and build alike. */
async function apply({ file, search, replace }: Change): Promise<() => Promise<void>> {
  const source = join(copy, 'packages', file)
  const built = source.replace('/src/', '/dist/').replace(/\.ts$/, '.js')
  const [before, builtBefore] = await Promise.all([readFile(source, 'utf8'), readFile(built, 'utf8')])
  const places = before.split(search).length - 1
  if (places !== 1) throw new Error(`${file} has ${places} places for this mutation, not one: ${search}`)
  const after = before.replace(search, () => replace)
  await writeFile(source, after)
  const { outputText } = ts.transpileModule(after, {
    compilerOptions: {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.ESNext,
      verbatimModuleSyntax: true,
    },
  })
  await writeFile(built, outputText)
  return async () => {
    await writeFile(source, before)
    await writeFile(built, builtBefore)
  }
}

async function createDatabase(name: string): Promise<string> {
  const admin = new pg.Client({ connectionString: postgres.url })
  await admin.connect()
  try {
    await admin.query(`create database ${name}`)
  } finally {
    await admin.end()
  }
  const url = new URL(postgres.url)
  url.pathname = `/${name}`
  return url.href
}

async function runSeeds(database: string, seeds: number): Promise<Verdict['caughtBy']> {
  const main = join(copy, 'test/simulation/main.ts')
  const words = ['--seed', values.seed, '--seeds', String(seeds), '--steps', values.steps, '--until-broken']
  const child = spawn(process.execPath, ['--import', 'tsx', main, ...words, '--database', database], {
    cwd: dirname(main),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  const broken = /^seed (\d+) .*BROKEN ([^:]+): (.*)$/m.exec(text)
  if (broken === null && code !== 0)
    throw new Error(`the simulation itself failed, with ${code}: ${text.slice(-1000)}`)
  return broken ? { seed: Number(broken[1]), promise: `${broken[2]}: ${broken[3]?.slice(0, 100)}` } : null
}

function describeVerdict({ mutation, caughtBy }: Verdict): string {
  const end = caughtBy ? `caught by seed ${caughtBy.seed}: ${caughtBy.promise}` : 'SURVIVED'
  return `${mutation.name.padEnd(56)} ${end}`
}
