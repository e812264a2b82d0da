import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LockstepOptions } from '@lockstep/config'
import { coordinate, superviseWorker } from '@lockstep/coordinator'
import { type ChainKey, DatabaseUnavailableError } from '@lockstep/domain'
import { type Database, Listener, startEmbeddedPostgres } from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'
import { createSource } from '@lockstep/worker'
import { faultFromEnvironment } from '../faults.js'
import { type GlobalWords, openDatabase, openLogger, projectDirOf, readConfig } from '../session.js'
import { listenForStop } from '../stop-signals.js'
import { prepareIndexes, prepareSchema } from './migrate.js'

/** How long workers may take to finish their batch and leave. */
const GRACE_MS = 20_000
const ENTRY = fileURLToPath(new URL('../main.js', import.meta.url))

/** `lockstep start`: everything on this machine, until a signal. */
export async function start(words: GlobalWords): Promise<void> {
  const options = readConfig(words)
  const logger = openLogger(words)
  const now = new AbortController()
  const { stop, dispose } = listenForStop(
    (signal) => logger.info({ signal }, 'stop was asked for; workers finish their batch'),
    () => now.abort(), // a worker that hangs would outlive us
  )
  try {
    await withServer(options, logger, async (url, serverGone) => {
      const db = openDatabase(options, url, logger)
      try {
        await prepareSchema(db, options, logger)
        await runAll({ words, options, db, logger, now: now.signal, stop, serverGone })
      } finally {
        await db.close()
      }
    })
  } finally {
    dispose()
  }
}

/** Gives the database's address, and for the embedded PostgreSQL what tells of its end: without it nothing can go on. */
async function withServer(
  options: LockstepOptions,
  logger: Logger,
  work: (url: string, gone: AbortSignal) => Promise<void>,
): Promise<void> {
  const gone = new AbortController()
  const { url } = options.database
  if (url !== null) return work(url, gone.signal)
  const server = await startEmbeddedPostgres({ projectDir: projectDirOf(options), logger })
  logger.info(
    {
      data: relative('.', server.dataDir) || server.dataDir,
      adopted: server.adopted,
      connect: psqlWords(server),
    },
    'no DATABASE_URL was set: the embedded PostgreSQL is used, its data are kept',
  )
  const watch = setInterval(() => {
    if (!isAlive(server.pid)) gone.abort(embeddedEnded(server.adopted))
  }, 1000)
  try {
    await work(server.url, gone.signal)
  } finally {
    clearInterval(watch)
    await server.stop()
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' // it runs, as another user
  }
}

const embeddedEnded = (adopted: boolean): DatabaseUnavailableError =>
  new DatabaseUnavailableError(
    'the embedded PostgreSQL',
    adopted ? 'the process that had started it has ended, and it with it.' : 'it has ended unexpectedly.',
    'Start again with "lockstep start"; what was committed is there.',
  )

/** How a person gets into the embedded PostgreSQL; the password stays in its file. */
function psqlWords({ url, dataDir }: { readonly url: string; readonly dataDir: string }): string {
  const { port, username, pathname } = new URL(url)
  return `PGPASSWORD=$(cat ${join(dirname(dataDir), 'password')}) psql -h 127.0.0.1 -p ${port} -U ${username} ${pathname.slice(1)}`
}

interface Run {
  readonly words: GlobalWords
  readonly options: LockstepOptions
  readonly db: Database
  readonly logger: Logger
  /** Aborts when everything has to end at once. */
  readonly now: AbortSignal
  readonly stop: AbortSignal
  readonly serverGone: AbortSignal
}

async function runAll({ words, options, db, logger, now, stop: asked, serverGone }: Run): Promise<void> {
  // One part that fails ends the others: half of a start would look like a whole one.
  const failed = new AbortController()
  const stop = AbortSignal.any([asked, serverGone, failed.signal])
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
    env: { ...process.env, LOCKSTEP_FAULT: undefined }, // a fault is this process's own, see faults.ts
  }
  const indexes = prepareIndexes(db, options, logger, stop)
  const sources = new Map(options.chains.map((chain) => [chain.chain, createSource(chain, logger)]))
  try {
    const parts = [
      ...options.chains.map(({ chain }) =>
        superviseWorker(chain, { command, db, logger, graceMs: GRACE_MS, now }, stop),
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
            onStep: faultFromEnvironment(process.env),
          },
        },
        stop,
      ),
    ]
    for (const part of parts) part.catch((error: unknown) => failed.abort(error))
    await Promise.allSettled(parts)
  } finally {
    await indexes
    await Promise.all([...sources.values()].map((source) => source.close()))
    await listener.close()
  }
  logger.info('everything was stopped')
  if (failed.signal.aborted) throw failed.signal.reason
  if (serverGone.aborted && !asked.aborted) throw serverGone.reason
}
