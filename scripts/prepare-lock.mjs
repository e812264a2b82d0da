import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 200
/** Longer than any preparation: by then the holder's pid may belong to another program. */
const HELD_MS_MAX = 30 * 60_000

/**
 * Runs `work` while no other process does, for those who start `npm test` twice at once. The lock is a file with the
 * holder's pid: one whose holder is dead is taken over. Where no file can be made, `work` runs without a lock: in a
 * read-only checkout there is nothing to spoil.
 */
export async function withLock(file, work) {
  let held = await take(file)
  const release = () => {
    if (held) rmSync(file, { force: true })
    held = false
  }
  process.on('exit', release) // a step that fails ends the process
  await work()
  release()
}

/** False: here no lock can be made. */
async function take(file) {
  for (let told = false; ; ) {
    const outcome = tryToTake(file)
    if (outcome !== 'held') return outcome === 'taken'
    const holder = read(file)
    if (holder !== '' && !isHolding(file, Number(holder))) {
      dropStale(file, holder)
      continue
    }
    if (!told) console.log(`prepare: waiting for process ${holder}, which prepares this folder`)
    told = true
    await sleep(POLL_MS)
  }
}

/** Written aside and linked, so that whoever sees the file sees the pid in it. */
function tryToTake(file) {
  const aside = `${file}.${process.pid}-${randomBytes(4).toString('hex')}`
  try {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(aside, String(process.pid))
    linkSync(aside, file)
    return 'taken'
  } catch (error) {
    return error.code === 'EEXIST' ? 'held' : 'impossible'
  } finally {
    rmSync(aside, { force: true })
  }
}

function isHolding(file, pid) {
  try {
    if (Date.now() - statSync(file).mtimeMs > HELD_MS_MAX) return false
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM' // a process of somebody else
  }
}

/** Moved, looked at, and put back where it is another's by now: a plain delete could hit the next holder's. */
function dropStale(file, judged) {
  const aside = `${file}.stale-${randomBytes(4).toString('hex')}`
  try {
    renameSync(file, aside)
    if (read(aside) !== judged) linkSync(aside, file)
  } catch {
    // another process was faster
  } finally {
    rmSync(aside, { force: true })
  }
}

function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
