import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@lockstep/telemetry'
import { describeBinaries, embeddedBinaries } from './binaries.js'
import { ensureCluster, ensurePassword } from './cluster.js'
import { openServer } from './open-server.js'
import { canEnter, type OsUser, serverUser } from './os-user.js'
import { unusable } from './place.js'
import { Watchdog } from './watchdog.js'

export interface TemporaryPostgresOptions {
  /** The folder with `initdb` and `postgres`; left out: those of the embedded PostgreSQL. */
  readonly binDir?: string
}

export interface TemporaryPostgres {
  /** Holds the password; the role may create databases. */
  readonly url: string
  readonly pid: number
  /** As the server says it: `18.4`. */
  readonly version: string
  readonly home: string
  /** Stops the server and removes all that was there. */
  stop(): Promise<void>
}

/** A PostgreSQL for tests and demonstrations: fast, and gone with this process, also after a kill -9. */
export async function startTemporaryPostgres(
  options: TemporaryPostgresOptions = {},
): Promise<TemporaryPostgres> {
  const user = await serverUser('')
  if (user === undefined) {
    throw unusable(
      tmpdir(),
      'PostgreSQL refuses root, and there is neither a user "postgres" nor "nobody".',
      'Use another user.',
    )
  }
  const home = await makeHome(user)
  const dataDir = join(home, 'data')
  const watchdog = new Watchdog(dataDir, home)
  const remove = () => rm(home, { recursive: true, force: true, maxRetries: 5 })
  try {
    const binaries = await (options.binDir === undefined
      ? embeddedBinaries(user, home)
      : describeBinaries(options.binDir, user))
    const password = await ensurePassword(home)
    await ensureCluster({ dataDir, binaries, user, password, fast: true })
    const plan = { home, dataDir, binaries, user, port: 0, fast: true, watchdog, logger: silentLogger() }
    const server = await openServer(plan, password)
    const stop = async () => {
      await server.stop()
      await remove()
    }
    return { url: server.url, pid: server.pid, version: binaries.version, home, stop }
  } catch (error) {
    await remove()
    watchdog.dismiss()
    throw error
  }
}

/** In the folder for temporary files; that of root may be closed to the server's user. */
async function makeHome(user: OsUser | null): Promise<string> {
  for (const base of [tmpdir(), '/tmp', '/var/tmp']) {
    if (!(await canEnter(base, user)) || !(await canEnter(base, null, { write: true }))) continue
    const home = await mkdtemp(join(base, 'lockstep-pg-'))
    await chmod(home, 0o711)
    return home
  }
  throw unusable(
    tmpdir(),
    'no folder for temporary files can be used.',
    'Set TMPDIR to a folder where one can write.',
  )
}
