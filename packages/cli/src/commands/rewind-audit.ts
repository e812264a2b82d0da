import { readHistory, readOneRewind, readStatusView } from '@lockstep/coordinator'
import { formatTimeShort } from '@lockstep/domain'
import { cancelRewind } from '@lockstep/rewind'
import { formatHistory, formatRewind, historyJson } from '../print/history.js'
import { type GlobalWords, openQuietLogger, withSession } from '../session.js'
import { positiveNumber } from '../words.js'

export interface AuditWords extends GlobalWords {
  readonly json?: boolean
}

/** `lockstep rewind cancel`. */
export async function rewindCancel(words: GlobalWords): Promise<void> {
  await withSession(words, openQuietLogger(words), async ({ db }) => {
    const { rewindId, timestamp } = await cancelRewind(db)
    process.stdout.write(
      `Rewind ${rewindId} to ${formatTimeShort(timestamp)} was cancelled: nothing was removed.\n`,
    )
  })
}

/** `lockstep rewind status`: the running one. */
export async function rewindStatus(words: AuditWords): Promise<void> {
  await withSession(words, openQuietLogger(words), async ({ db }) => {
    const view = await readStatusView(db)
    if (view.state.lock === null)
      return print(words, 'No rewind is running. "lockstep rewind history" shows earlier ones.', null)
    const history = await readOneRewind(db, view.state.lock.rewindId)
    const waiting = view.chains.filter(({ phase }) => phase === 'rewinding')
    const lines = waiting.map(({ chain, reason }) => `  ${chain}: ${reason}`)
    print(words, [formatRewind(history), '', 'Waiting for:', ...lines].join('\n'), {
      ...(historyJson(history) as object),
      waitingFor: waiting.map(({ chain }) => chain),
    })
  })
}

/** `lockstep rewind history`. */
export async function rewindHistory(words: AuditWords & { readonly limit: string }): Promise<void> {
  const limit = positiveNumber(words.limit, '--limit')
  await withSession(words, openQuietLogger(words), async ({ db }) => {
    const found = await readHistory(db, limit)
    print(words, formatHistory(found), found.map(historyJson))
  })
}

/** `lockstep rewind show <id>`. */
export async function rewindShow(id: string, words: AuditWords): Promise<void> {
  await withSession(words, openQuietLogger(words), async ({ db }) => {
    const found = await readOneRewind(db, id)
    print(words, formatRewind(found), historyJson(found))
  })
}

function print(words: AuditWords, text: string, json: unknown): void {
  process.stdout.write(`${words.json ? JSON.stringify(json, null, 2) : text}\n`)
}
