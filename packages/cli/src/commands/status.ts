import { setTimeout as sleep } from 'node:timers/promises'
import { readStatusView } from '@lockstep/coordinator'
import { createLogUpdate } from 'log-update'
import { formatStatus, statusJson } from '../print/status.js'
import { type GlobalWords, openQuietLogger, withSession } from '../session.js'
import { listenForStop } from '../stop-signals.js'

export interface StatusWords extends GlobalWords {
  readonly watch?: boolean
  readonly json?: boolean
}

const WATCH_MS = 1000

/** `lockstep status`: from the database alone, so it works from anywhere. */
export async function status(words: StatusWords): Promise<void> {
  const format = words.json
    ? (view: Parameters<typeof statusJson>[0]) => JSON.stringify(statusJson(view), null, words.watch ? 0 : 2)
    : formatStatus
  await withSession(words, openQuietLogger(words), async ({ db }) => {
    if (!words.watch) {
      process.stdout.write(`${format(await readStatusView(db))}\n`)
      return
    }
    const { stop, dispose } = listenForStop(() => {})
    const onTerminal = process.stdout.isTTY && !words.json
    const update = createLogUpdate(process.stdout)
    while (!stop.aborted) {
      const text = format(await readStatusView(db))
      if (onTerminal) update(text)
      else process.stdout.write(`${text}\n${words.json ? '' : '\n'}`)
      await sleep(WATCH_MS, undefined, { signal: stop }).catch(() => {})
    }
    update.done()
    dispose()
  })
}
