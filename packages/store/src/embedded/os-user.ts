import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, realpath, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'

/** An account of the operating system, as numbers: what `spawn` takes and what file modes speak of. */
export interface OsUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

export const weAreRoot = (): boolean => process.getuid?.() === 0

/**
 * PostgreSQL refuses to run as root, so root lends it another account: the owner of the data where there are some
 * (PostgreSQL insists on that one), else `postgres`, else `nobody`. Null: we are an ordinary user and run it as
 * ourselves. Undefined: root on a machine that has neither account.
 */
export async function serverUser(dataDir: string): Promise<OsUser | null | undefined> {
  if (!weAreRoot()) return null
  const owner = await stat(dataDir).catch(() => null)
  if (owner !== null && owner.uid !== 0) return { name: `uid ${owner.uid}`, uid: owner.uid, gid: owner.gid }
  return (await lookUp('postgres')) ?? (await lookUp('nobody')) ?? undefined
}

/** By `id`, which asks every source of accounts that the machine has; Node itself knows only the current one. */
async function lookUp(name: string): Promise<OsUser | null> {
  const id = async (flag: string) => Number((await promisify(execFile)('id', [flag, name])).stdout.trim())
  try {
    const [uid, gid] = [await id('-u'), await id('-g')]
    return uid > 0 && gid >= 0 ? { name, uid, gid } : null
  } catch {
    return null
  }
}

export interface Permission {
  readonly read?: boolean
  readonly write?: boolean
}

/**
 * Whether `user` (null: we ourselves) can enter this folder, and every folder above it, and has the permission asked
 * for on the folder itself. For another user the mode bits are read: root's own `access` says yes to everything.
 * Supplementary groups do not count, since `spawn` with a uid drops them.
 */
export async function canEnter(
  folder: string,
  user: OsUser | null,
  permission: Permission = {},
): Promise<boolean> {
  try {
    const real = await realpath(folder)
    if (user === null) {
      const { R_OK, W_OK, X_OK } = constants
      await access(real, X_OK | (permission.read ? R_OK : 0) | (permission.write ? W_OK : 0))
      return true
    }
    const wanted = 1 | (permission.read ? 4 : 0) | (permission.write ? 2 : 0)
    if (!(await modeAllows(real, user, wanted))) return false
    for (let above = dirname(real); ; above = dirname(above)) {
      if (!(await modeAllows(above, user, 1))) return false
      if (above === dirname(above)) return true
    }
  } catch {
    return false
  }
}

/** As the kernel judges: the first class that fits decides, also where a later one would allow more. */
async function modeAllows(path: string, user: OsUser, wanted: number): Promise<boolean> {
  const { mode, uid, gid } = await stat(path)
  const shift = uid === user.uid ? 6 : gid === user.gid ? 3 : 0
  return ((mode >> shift) & wanted) === wanted
}

/** Whether a plain file can be read by `user`; its folder is judged by `canEnter`. */
export async function canRead(file: string, user: OsUser | null): Promise<boolean> {
  try {
    if (user !== null) return await modeAllows(file, user, 4)
    await access(file, constants.R_OK)
    return true
  } catch {
    return false
  }
}
