import { randomUUID } from 'node:crypto'
import { hostname, userInfo } from 'node:os'
import { basename, dirname, relative } from 'node:path'
import { type LockstepOptions, loadConfig } from '@lockstep/config'
import { BadInputError, type ChainKey, type ChainSource, DatabaseUnavailableError } from '@lockstep/domain'
import { checkSchema, Database, findEmbeddedPostgres } from '@lockstep/store'
import { createLogger, type Logger, type LogLevel } from '@lockstep/telemetry'
import { createSource } from '@lockstep/worker'

/** The options that every command has. */
export interface GlobalWords {
  readonly config: string
  /** Left out: `info` for what runs on and on, `error` for commands that answer with a sentence. */
  readonly logLevel?: string
  readonly logFormat: string
}

const LEVELS: readonly string[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** For `start` and `worker`, whose log lines are what they show: pretty for people at a terminal, JSON for programs. */
export const openLogger = (words: GlobalWords): Logger => createLogger(loggerOptions(words, 'info'))

/** For commands whose answer is on standard output: only what goes wrong beside it, on standard error. */
export const openQuietLogger = (words: GlobalWords): Logger =>
  createLogger({ ...loggerOptions(words, 'error'), destination: process.stderr })

function loggerOptions(
  words: GlobalWords,
  defaultLevel: LogLevel,
): { level: LogLevel; format: 'pretty' | 'json' } {
  const level = words.logLevel ?? defaultLevel
  if (!LEVELS.includes(level)) {
    throw new BadInputError(`"${level}" is no log level.`, `Use one of ${LEVELS.join(', ')}.`)
  }
  if (!['auto', 'pretty', 'json'].includes(words.logFormat)) {
    throw new BadInputError(`"${words.logFormat}" is no log format.`, 'Use auto, pretty or json.')
  }
  const format = words.logFormat === 'auto' ? (process.stdout.isTTY ? 'pretty' : 'json') : words.logFormat
  return { level: level as LogLevel, format: format as 'pretty' | 'json' }
}

export const readConfig = (words: GlobalWords): LockstepOptions =>
  loadConfig({ file: words.config, env: process.env })

/** The folder that the embedded PostgreSQL belongs to: the one that holds `config/`, else the config file's own. */
export function projectDirOf(options: LockstepOptions): string {
  const folder = dirname(options.file)
  return basename(folder) === 'config' ? dirname(folder) : folder
}

/** The database of the config, for commands that do not start one. */
export async function databaseUrl(options: LockstepOptions): Promise<string> {
  if (options.database.url !== null) return options.database.url
  const found = await findEmbeddedPostgres(projectDirOf(options))
  if (!found.down) return found.url
  throw new DatabaseUnavailableError(
    `${relative('.', found.dataDir) || found.dataDir} (embedded PostgreSQL)`,
    `it does not run${found.exists ? '' : ', and has never run'}.`,
    'Start it with "lockstep start", which runs it as long as it runs itself, or set DATABASE_URL to a PostgreSQL of your own.',
  )
}

/** Who holds leases: given by `lockstep start` to its workers, so that it can give back those of one that died. */
export const holderOf = (env: NodeJS.ProcessEnv): string => env.LOCKSTEP_HOLDER ?? randomUUID()

export function openDatabase(options: LockstepOptions, url: string, logger: Logger): Database {
  return new Database({
    url,
    schema: options.database.schema,
    holder: holderOf(process.env),
    writeTimeoutMs: options.rewind.writeTimeoutMs,
    logger,
  })
}

/** For the audit: user and machine. */
export function whoAmI(): string {
  const user = process.env.SUDO_USER ?? process.env.USER ?? userName()
  return `${user}@${hostname()}`
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}` // a container may run as a user without a name
  }
}

/** An open database whose tables fit, with the chains' nodes; closed again whatever happens. */
export async function withSession<T>(
  words: GlobalWords,
  logger: Logger,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const options = readConfig(words)
  const db = openDatabase(options, await databaseUrl(options), logger)
  const sources = new Map<ChainKey, ChainSource>()
  try {
    await checkSchema(db)
    return await work({ options, db, logger, sourceOf: (chain) => sourceOf(chain, options, sources, logger) })
  } finally {
    await Promise.all([...sources.values()].map((source) => source.close()))
    await db.close()
  }
}

export interface Session {
  readonly options: LockstepOptions
  readonly db: Database
  readonly logger: Logger
  /** Null for a chain that the config does not have. */
  readonly sourceOf: (chain: ChainKey) => ChainSource | null
}

function sourceOf(
  chain: ChainKey,
  options: LockstepOptions,
  open: Map<ChainKey, ChainSource>,
  logger: Logger,
): ChainSource | null {
  const chainOptions = options.chains.find((each) => each.chain === chain)
  if (chainOptions === undefined) return null
  const source = open.get(chain) ?? createSource(chainOptions, logger)
  open.set(chain, source)
  return source
}
