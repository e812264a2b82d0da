import { randomBytes } from 'node:crypto'
import { chmod, chown, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isCode, pidExists } from './postmaster-pid.js'

/**
 * Makes a folder that is complete or absent: `fill` makes it as `whole` inside a room of its own, from where it is
 * renamed. A process that dies in the middle leaves only the room, which the next one clears away. Of two that make
 * the same folder at once the faster one's stays.
 */
export async function makeFolderWhole(
  folder: string,
  fill: (whole: string, room: string) => Promise<void>,
): Promise<void> {
  await removeLeftovers(folder)
  const room = `${folder}.new-${process.pid}-${randomBytes(4).toString('hex')}`
  try {
    await mkdir(room, { mode: 0o700 })
    await fill(join(room, 'whole'), room)
    await rename(join(room, 'whole'), folder).catch((error: unknown) => {
      if (!isCode(error, 'ENOTEMPTY') && !isCode(error, 'EEXIST')) throw error
    })
  } finally {
    await remove(room)
  }
}

async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(dirname(folder))) {
    const maker = name.startsWith(`${basename(folder)}.new-`) ? /\.new-(\d+)-[0-9a-f]+$/.exec(name) : null
    if (maker === null || pidExists(Number(maker[1]))) continue
    // A program that the dead process had started may still be writing there: if it outlasts these tries, the next
    // start clears up.
    await remove(join(dirname(folder), name)).catch(() => {})
  }
}

const remove = (folder: string): Promise<void> => rm(folder, { recursive: true, force: true, maxRetries: 10 })

/**
 * Makes the folders that are missing on the way, open for entering to everybody whatever the umask, and, made by
 * root inside a folder of somebody else, given to that owner, so that they do not get in the way later.
 */
export async function makeFolders(folder: string): Promise<void> {
  if ((await stat(folder).catch(() => null)) !== null) return
  await makeFolders(dirname(folder))
  await mkdir(folder).catch((error: unknown) => {
    if (!isCode(error, 'EEXIST')) throw error
  })
  const above = await stat(dirname(folder))
  await chmod(folder, 0o755)
  if (process.getuid?.() === 0) await chown(folder, above.uid, above.gid)
}
