import {
  type Comparison,
  compareFacts,
  createProjectFolder,
  createTestDatabase,
  Program,
  type ProgramResult,
  type ProjectFolder,
  type TestDatabase,
  waitUntil,
} from '@lockstep/testkit'
import pg from 'pg'
import { LOCKSTEP } from '../../kit/deployment.js'
import type { TestChain } from './chains.js'

export interface ChainJson {
  readonly chain: string
  readonly phase: string
  readonly reason: string | null
  readonly checkpoint: number | null
  readonly checkpointTime: string | null
  readonly head: number | null
  readonly lagBlocks: number | null
  readonly worker: string | null
}

export interface StatusJson {
  readonly epoch: number
  readonly chains: readonly ChainJson[]
  readonly rewind: { readonly rewindId: string; readonly waitingFor: readonly string[] } | null
}

export interface RunOptions {
  readonly env?: NodeJS.ProcessEnv
  /** Another config file than the project's. */
  readonly config?: string
}

export interface ProjectOptions {
  /** Over the settings that make tests quick. */
  readonly settings?: Readonly<Record<string, unknown>>
}

/** Quick, and still long enough for a machine with much else to do. */
const SETTINGS = {
  lease: { time: '6s' },
  rewind: { pollInterval: '300ms', searchTimeout: '5s', writeTimeout: '3s' },
  progressInterval: '5s',
}

/** For what takes seconds on a machine of its own. It may be very busy; this is against hangs. */
const PATIENCE_MS = 150_000

/** A user's project: a folder with a config, a database of its own, and the `lockstep` command run in it. */
export class Project {
  readonly #programs: Program[] = []
  #client: pg.Client | null = null

  private constructor(
    readonly chains: readonly TestChain[],
    readonly folder: ProjectFolder,
    readonly database: TestDatabase,
    readonly settings: Readonly<Record<string, unknown>>,
  ) {}

  static async create(chains: readonly TestChain[], options: ProjectOptions = {}): Promise<Project> {
    const database = await createTestDatabase({ name: 'e2e' })
    const settings = { ...SETTINGS, ...options.settings }
    const folder = await createProjectFolder(configOf(database.url, 'lockstep', chains, settings))
    return new Project(chains, folder, database, settings)
  }

  // ---- the command ------------------------------------------------------------------------------------------------

  lockstep(words: readonly string[], options: RunOptions = {}): Program {
    const program = new Program({
      entry: LOCKSTEP,
      args: [...words, '--config', options.config ?? this.folder.config],
      cwd: this.folder.dir,
      env: { LOCKSTEP_LOG_FORMAT: 'json', NO_COLOR: '1', ...options.env },
    })
    this.#programs.push(program)
    return program
  }

  run(words: readonly string[], options: RunOptions = {}): Promise<ProgramResult> {
    return this.lockstep(words, options).ended()
  }

  /** @throws Error with what it said on standard error */
  async succeed(words: readonly string[], options: RunOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.run(words, options)
    if (code !== 0) throw new Error(`lockstep ${words.join(' ')} ended with ${code}: ${stderr}`)
    return stdout
  }

  async status(options: RunOptions = {}): Promise<StatusJson> {
    return JSON.parse(await this.succeed(['status', '--json'], options)) as StatusJson
  }

  async chainStatus(chain: string): Promise<ChainJson> {
    const found = (await this.status()).chains.find((each) => each.chain === chain)
    if (found === undefined) throw new Error(`status does not know ${chain}`)
    return found
  }

  /** One worker process, once it has its chain. */
  async worker(chain: string, options: RunOptions = {}): Promise<Program> {
    const worker = this.lockstep(['worker', chain], options)
    await worker.said(/lease was taken/, PATIENCE_MS)
    return worker
  }

  // ---- the database -----------------------------------------------------------------------------------------------

  async query<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
    this.#client ??= await connectTo(this.database.url)
    return (await this.#client.query<Row>(sql, values)).rows
  }

  async count(sql: string, values: unknown[] = []): Promise<number> {
    return Number((await this.query<{ count: string }>(`select count(*) from ${sql}`, values))[0]?.count)
  }

  /** Chains whose checkpoint has reached the height, from the database: cheaper than a `status` process. */
  async reached(heights: Readonly<Record<string, number>>): Promise<void> {
    await waitUntil(
      `checkpoints at ${JSON.stringify(heights)}`,
      async () => {
        const rows = await this.query<{ chain: string; height: string | null }>(
          'select chain, height from checkpoint',
        )
        const at = new Map(rows.map((row) => [row.chain, row.height === null ? -1 : Number(row.height)]))
        return Object.entries(heights).every(([chain, height]) => (at.get(chain) ?? -1) >= height)
      },
      PATIENCE_MS,
    )
  }

  released(): Promise<unknown> {
    return waitUntil(
      'the release',
      async () => {
        return (await this.count(`_global where key like 'rewind%'`)) === 0
      },
      PATIENCE_MS,
    )
  }

  /** All rows of all tables (partitions through their table), as text, save those named. */
  async dump(without: readonly string[] = []): Promise<Record<string, string[]>> {
    const tables = await this.query<{ name: string }>(
      `select c.relname as name from pg_class c where c.relnamespace = 'lockstep'::regnamespace
         and c.relkind in ('r', 'p') and not c.relispartition order by 1`,
    )
    const dump: Record<string, string[]> = {}
    for (const { name } of tables.filter((table) => !without.includes(table.name))) {
      const rows = await this.query<{ row: string }>(
        `select to_jsonb(t)::text as row from lockstep."${name}" t order by 1`,
      )
      dump[name] = rows.map(({ row }) => row)
    }
    return dump
  }

  // ---- the proof --------------------------------------------------------------------------------------------------

  /** Indexes the same chains into another schema, up to where this deployment is. */
  async indexAfresh(): Promise<void> {
    const rows = await this.query<{ chain: string; height: string }>('select chain, height from checkpoint')
    const heights = new Map(rows.map(({ chain, height }) => [chain, Number(height)]))
    const config = await this.folder.write(
      'fresh.yaml',
      configOf(this.database.url, 'fresh', this.chains, this.settings, heights),
    )
    const indexer = this.lockstep(['start'], { config })
    await waitUntil(
      'the fresh index',
      async () => {
        const exists = await this.query<{ there: boolean }>(
          `select to_regclass('fresh.chain_status') is not null as there`,
        )
        if (exists[0]?.there !== true) return false
        return (await this.count(`fresh.chain_status where phase = 'finished'`)) === this.chains.length
      },
      PATIENCE_MS,
    )
    await indexer.stop()
  }

  /** Row by row; see promise 1 of the design. */
  compareWithFresh(): Promise<Comparison> {
    const { url } = this.database
    return compareFacts({ url, schema: 'lockstep' }, { url, schema: 'fresh' })
  }

  /** Ends what still runs, save `others`. */
  async stopAll(others: readonly Program[] = []): Promise<void> {
    const running = this.#programs.filter((each) => each.result === null && !others.includes(each))
    await Promise.all(running.map((each) => each.stop()))
  }

  async close(): Promise<void> {
    await this.stopAll()
    await this.#client?.end()
    await this.database.drop()
    await this.folder.remove()
  }
}

export const configOf = (
  url: string,
  schema: string,
  chains: readonly TestChain[],
  settings: Readonly<Record<string, unknown>>,
  ends?: ReadonlyMap<string, number>,
): object => ({
  database: { url, schema, readSchema: `${schema}_views` },
  ...settings,
  chains: Object.fromEntries(
    chains.map(({ name, config }) => [
      name,
      { ...config, ...(ends?.has(name) && { endHeight: ends.get(name) }) },
    ]),
  ),
})

async function connectTo(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {}) // the query under way rejects as well
  await client.connect()
  await client.query(`set search_path to lockstep; set time zone 'UTC'`)
  return client
}
