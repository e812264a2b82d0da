import { setTimeout as sleep } from 'node:timers/promises'
import { describeError } from '@lockstep/domain'
import { readPassword, urlOf } from './cluster.js'
import { locateData, unusable } from './place.js'
import { type PostmasterPid, readLivePostmaster } from './postmaster-pid.js'

export type FoundPostgres =
  | { readonly down: false; readonly url: string; readonly dataDir: string; readonly pid: number }
  /** `exists`: there are data, from an earlier run. */
  | { readonly down: true; readonly dataDir: string; readonly exists: boolean }

/** Somebody is just starting it; after this long it counts as down, and the caller says how to start it. */
const STARTING_MS = 10_000

/** The project's embedded PostgreSQL, for commands that use it where it runs and do not start it. */
export async function findEmbeddedPostgres(projectDir: string): Promise<FoundPostgres> {
  const { home, dataDir, exists } = await locateData(projectDir)
  const live = await readReadyPostmaster(home, dataDir)
  if (live?.port == null) return { down: true, dataDir, exists }
  return { down: false, url: urlOf(live.port, await readPassword(home)), dataDir, pid: live.pid }
}

async function readReadyPostmaster(home: string, dataDir: string): Promise<PostmasterPid | null> {
  const deadlineMs = Date.now() + STARTING_MS
  try {
    for (;;) {
      const live = await readLivePostmaster(dataDir)
      if (live === null || live.ready) return live
      if (Date.now() > deadlineMs) return null
      await sleep(100)
    }
  } catch (error) {
    const hint = 'Run this command as the user who runs "lockstep start", or as root.'
    throw unusable(home, `its data folder cannot be read: ${describeError(error)}.`, hint, error)
  }
}
