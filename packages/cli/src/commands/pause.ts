import { formatTimeShort } from '@lockstep/domain'
import { pause as pauseAll, resume as resumeAll } from '@lockstep/rewind'
import { type GlobalWords, openQuietLogger, whoAmI, withSession } from '../session.js'

export interface PauseWords extends GlobalWords {
  readonly reason?: string
}

/** `lockstep pause`: nobody fetches or writes until `lockstep resume`. */
export async function pause(words: PauseWords): Promise<void> {
  await withSession(words, openQuietLogger(words), async ({ db }) => {
    await pauseAll(db, { who: whoAmI(), reason: words.reason ?? null })
    process.stdout.write('Paused: nothing is fetched or written. End it with "lockstep resume".\n')
  })
}

/** `lockstep resume`. */
export async function resume(words: GlobalWords): Promise<void> {
  await withSession(words, openQuietLogger(words), async ({ db }) => {
    const { who, since } = await resumeAll(db)
    process.stdout.write(`Resumed: the pause by ${who} since ${formatTimeShort(since)} is over.\n`)
  })
}
