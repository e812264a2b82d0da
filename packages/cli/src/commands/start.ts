import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LockstepOptions } from '@lockstep/config'
import { coordinate, superviseWorker } from '@lockstep/coordinator'
import type { ChainKey } from '@lockstep/domain'
import { type Database, Listener, startEmbeddedPostgres } from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'
import { createSource } from '@lockstep/worker'
import { type GlobalWords, openDatabase, openLogger, projectDirOf, readConfig } from '../session.js'
import { listenForStop } from '../stop-signals.js'
import { prepareSchema } from './migrate.js'

/** How long workers may take to finish their batch and leave. */
const GRACE_MS = 20_000
const ENTRY = fileURLToPath(new URL('../main.js', import.meta.url))

/** `lockstep start`: everything on this machine, until a signal. */
export async function start(words: GlobalWords): Promise<void> {
  const options = readConfig(words)
  const logger = openLogger(words)
  const database = await openServer(options, logger)
  try {
    const db = openDatabase(options, database.url, logger)
    try {
      await prepareSchema(db, options, logger)
      await runAll(words, options, db, logger)
    } finally {
      await db.close()
    }
  } finally {
    await database.stop()
  }
}

async function openServer(
  options: LockstepOptions,
  logger: Logger,
): Promise<{ url: string; stop(): Promise<void> }> {
  const { url } = options.database
  if (url !== null) return { url, stop: async () => {} }
  const server = await startEmbeddedPostgres({ projectDir: projectDirOf(options), logger })
  logger.info(
    {
      data: relative('.', server.dataDir) || server.dataDir,
      adopted: server.adopted,
      connect: psqlWords(server),
    },
    'no DATABASE_URL was set: the embedded PostgreSQL is used, its data are kept',
  )
  return server
}

/** How a person gets into the embedded PostgreSQL; the password stays in its file. */
function psqlWords({ url, dataDir }: { readonly url: string; readonly dataDir: string }): string {
  const { port, username, pathname } = new URL(url)
  return `PGPASSWORD=$(cat ${join(dirname(dataDir), 'password')}) psql -h 127.0.0.1 -p ${port} -U ${username} ${pathname.slice(1)}`
}

async function runAll(
  words: GlobalWords,
  options: LockstepOptions,
  db: Database,
  logger: Logger,
): Promise<void> {
  const now = new AbortController()
  const { stop, dispose } = listenForStop(
    (signal) => logger.info({ signal }, 'stop was asked for; workers finish their batch'),
    () => now.abort(), // a worker that hangs would outlive us
  )
  const listener = Listener.open(db)
  const command = {
    entry: ENTRY,
    args: (chain: ChainKey) => [
      'worker',
      chain,
      '--config',
      options.file,
      ...(words.logLevel === undefined ? [] : ['--log-level', words.logLevel]),
      '--log-format',
      words.logFormat,
    ],
    env: process.env,
  }
  const sources = new Map(options.chains.map((chain) => [chain.chain, createSource(chain, logger)]))
  try {
    await Promise.all([
      ...options.chains.map(({ chain }) =>
        superviseWorker(chain, { command, db, logger, graceMs: GRACE_MS, now: now.signal }, stop),
      ),
      coordinate(
        {
          db,
          listener,
          logger,
          leaseMs: options.lease.timeMs,
          pollMs: options.rewind.pollMs,
          carryOut: {
            leaseMs: options.lease.timeMs,
            timeoutMs: options.rewind.searchTimeoutMs,
            sourceOf: (chain) => sources.get(chain) ?? null,
            logger,
          },
        },
        stop,
      ),
    ])
  } finally {
    dispose()
    await Promise.all([...sources.values()].map((source) => source.close()))
    await listener.close()
  }
  logger.info('everything was stopped')
}
