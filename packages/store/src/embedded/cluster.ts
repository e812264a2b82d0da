import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, link, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { describeError, type LockstepError } from '@lockstep/domain'
import { makeFolderWhole } from './aside.js'
import { asUser, type Binaries } from './binaries.js'
import type { OsUser } from './os-user.js'
import { unusable } from './place.js'
import { isCode } from './postmaster-pid.js'

/** The role that owns the embedded server, and its database. */
export const LOCKSTEP = 'lockstep'

export interface ClusterPlan {
  readonly dataDir: string
  readonly binaries: Binaries
  readonly user: OsUser | null
  readonly password: string
  /** For data that need not survive a crash. */
  readonly fast: boolean
}

/** Makes the data folder by `initdb`, whole or not at all; one of another major version is refused. */
export async function ensureCluster(plan: ClusterPlan): Promise<void> {
  const major = await majorOf(plan.dataDir)
  if (major === null) return createCluster(plan)
  if (major !== plan.binaries.major) throw wrongMajor(plan, major)
}

/** Null: no data there. */
async function majorOf(dataDir: string): Promise<number | null> {
  try {
    return Number((await readFile(join(dataDir, 'PG_VERSION'), 'utf8')).trim())
  } catch (error) {
    if (isCode(error, 'ENOENT')) return null
    throw unusable(dirname(dataDir), `its data cannot be read: ${describeError(error)}.`, ownerHint, error)
  }
}

const ownerHint = 'Run Lockstep as the user who ran it before in this project, or as root.'

function wrongMajor(plan: ClusterPlan, major: number): LockstepError {
  const home = dirname(plan.dataDir)
  return unusable(
    home,
    `its data are of PostgreSQL ${major}, and this Lockstep brings PostgreSQL ${plan.binaries.version}.`,
    `Move ${plan.dataDir} away and let Lockstep index again, or set DATABASE_URL to a PostgreSQL ${major} that ` +
      'serves those data.',
  )
}

async function createCluster(plan: ClusterPlan): Promise<void> {
  try {
    await makeFolderWhole(plan.dataDir, async (whole, room) => {
      const passwordFile = join(room, 'password')
      await writeFile(passwordFile, plan.password, { mode: 0o600 })
      if (plan.user !== null) {
        await chown(passwordFile, plan.user.uid, plan.user.gid)
        await chown(room, plan.user.uid, plan.user.gid) // initdb wants to make its folder itself
      }
      await initdb(plan, whole, passwordFile)
    })
  } catch (error) {
    throw unusable(
      dirname(plan.dataDir),
      `the data folder could not be made: ${initdbSays(error)}`,
      'Look at free space and permissions there, or set DATABASE_URL to a PostgreSQL of your own.',
      error,
    )
  }
}

async function initdb(plan: ClusterPlan, dataDir: string, passwordFile: string): Promise<void> {
  const make = (locale: string) =>
    promisify(execFile)(
      join(plan.binaries.binDir, 'initdb'),
      [
        ...['-D', dataDir, '-U', LOCKSTEP, `--pwfile=${passwordFile}`, '--auth=scram-sha-256'],
        ...['--encoding=UTF8', `--locale=${locale}`, '--no-instructions'],
        ...(plan.fast ? ['--no-sync'] : []),
      ],
      { cwd: dirname(dataDir), env: serverEnvironment(), ...asUser(plan.user) },
    )
  try {
    await make('C.UTF-8')
  } catch (error) {
    // Not every system has it. C sorts the same, and only knows no upper and lower case beyond ASCII.
    if (!initdbSays(error).includes('locale')) throw error
    await rm(dataDir, { recursive: true, force: true })
    await make('C')
  }
}

function initdbSays(error: unknown): string {
  const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
  return stderr === '' ? describeError(error) : stderr
}

/** Nothing of ours: PG… variables and foreign libraries would change what the programs do. English, to be read. */
export const serverEnvironment = (): NodeJS.ProcessEnv => ({
  PATH: '/usr/local/bin:/usr/bin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
})

/**
 * The password, made where there is none yet. Written aside and linked, so that of two processes that begin at once
 * both go on with the same one.
 */
export async function ensurePassword(home: string): Promise<string> {
  const file = passwordFile(home)
  const aside = `${file}.new-${process.pid}-${randomBytes(4).toString('hex')}`
  try {
    await writeFile(aside, randomBytes(18).toString('base64url'), { mode: 0o600, flag: 'wx' })
    await link(aside, file)
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error
  } finally {
    await rm(aside, { force: true })
  }
  return readPassword(home)
}

const passwordFile = (home: string): string => join(home, 'password')

export async function readPassword(home: string): Promise<string> {
  try {
    return (await readFile(passwordFile(home), 'utf8')).trim()
  } catch (error) {
    throw unusable(home, `its password cannot be read: ${describeError(error)}.`, ownerHint, error)
  }
}

export const urlOf = (port: number, password: string, database: string = LOCKSTEP): string =>
  `postgres://${LOCKSTEP}:${password}@127.0.0.1:${port}/${database}`
