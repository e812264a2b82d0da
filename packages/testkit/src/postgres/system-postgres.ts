import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startTemporaryPostgres, type TemporaryPostgres } from '@lockstep/store'

/** The folder with this machine's own PostgreSQL programs of that major version; null where it has none. */
export async function findSystemPostgres(major: number): Promise<string | null> {
  for (const binDir of [...usualPlaces(major), ...(await placeOfPgConfig(major))]) {
    if ((await isProgram(join(binDir, 'initdb'))) && (await isProgram(join(binDir, 'postgres'))))
      return binDir
  }
  return null
}

/** Debian, Red Hat, Homebrew. */
const usualPlaces = (major: number): readonly string[] => [
  `/usr/lib/postgresql/${major}/bin`,
  `/usr/pgsql-${major}/bin`,
  `/opt/homebrew/opt/postgresql@${major}/bin`,
  `/usr/local/opt/postgresql@${major}/bin`,
]

async function placeOfPgConfig(major: number): Promise<readonly string[]> {
  try {
    const { stdout } = await promisify(execFile)('pg_config', ['--version', '--bindir'])
    const [version = '', binDir = ''] = stdout.split('\n')
    return version.startsWith(`PostgreSQL ${major}.`) ? [binDir] : []
  } catch {
    return []
  }
}

const isProgram = (path: string): Promise<boolean> =>
  access(path, constants.X_OK).then(
    () => true,
    () => false,
  )

/** A temporary server of that major version, for tests of what must work on all of them; null where it cannot be had. */
export async function startSystemPostgres(options: {
  readonly major: number
}): Promise<TemporaryPostgres | null> {
  const binDir = await findSystemPostgres(options.major)
  return binDir === null ? null : startTemporaryPostgres({ binDir })
}
