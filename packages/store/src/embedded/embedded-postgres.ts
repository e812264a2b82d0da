import { DatabaseUnavailableError, describeError } from '@lockstep/domain'
import { type Logger, silentLogger } from '@lockstep/telemetry'
import { makeFolders } from './aside.js'
import { embeddedBinaries } from './binaries.js'
import { ensureCluster, ensurePassword } from './cluster.js'
import { openServer } from './open-server.js'
import { locate, type Place, unusable } from './place.js'
import { Watchdog } from './watchdog.js'

export interface EmbeddedPostgresOptions {
  /** The folder that holds `.lockstep`. */
  readonly projectDir: string
  /** Left out or 0: any free one; other processes find the server by `findEmbeddedPostgres`. */
  readonly port?: number
  /** No care for crashes of the machine: for data that are thrown away. */
  readonly fast?: boolean
  /** Whether the server may outlive this process; else none stays behind, also after a kill -9. */
  readonly keepRunning?: boolean
  readonly logger?: Logger
}

export interface EmbeddedPostgres {
  /** Holds the password. */
  readonly url: string
  readonly dataDir: string
  readonly pid: number
  /** Whether another process had started it. */
  readonly adopted: boolean
  /** Stops the server and closes all its connections; one that was adopted is left to its owner. */
  stop(): Promise<void>
}

/**
 * The PostgreSQL of a project: made where there is none, started where it does not run, adopted where it does. Its
 * data stay between runs.
 *
 * @throws DatabaseUnavailableError whatever went wrong, with the server's own last lines where it has said any
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const place = await locate(options.projectDir)
  try {
    return await startAt(place, options)
  } catch (error) {
    if (error instanceof DatabaseUnavailableError) throw error
    throw unusable(place.home, `${describeError(error)}.`, 'Look at free space and permissions there.', error)
  }
}

async function startAt(place: Place, options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { home, dataDir, user } = place
  const { port = 0, fast = false, keepRunning = false, logger = silentLogger() } = options
  if (place.elsewhere && user !== null) {
    logger.info(
      { home, user: user.name },
      'kept the embedded PostgreSQL outside the project, where its user can enter',
    )
  }
  await makeFolders(home)
  const password = await ensurePassword(home)
  const binaries = await embeddedBinaries(user, home)
  await ensureCluster({ dataDir, binaries, user, password, fast })
  const watchdog = keepRunning ? null : new Watchdog(dataDir, null)
  const server = await openServer({ home, dataDir, binaries, user, port, fast, watchdog, logger }, password)
  logger.info(
    { dataDir, pid: server.pid, adopted: server.adopted, version: binaries.version },
    'started the embedded PostgreSQL',
  )
  return { ...server, dataDir }
}
