import { readForks } from '@lockstep/coordinator'
import { BadInputError, isChainKey } from '@lockstep/domain'
import { forksJson, formatForks } from '../print/history.js'
import { type GlobalWords, openQuietLogger, withSession } from '../session.js'
import { positiveNumber } from '../words.js'

export interface ForksWords extends GlobalWords {
  readonly chain?: string
  readonly limit: string
  readonly json?: boolean
}

/** `lockstep forks`: what chains took back by themselves. */
export async function forks(words: ForksWords): Promise<void> {
  const limit = positiveNumber(words.limit, '--limit')
  const chain = words.chain ?? null
  if (chain !== null && !isChainKey(chain))
    throw new BadInputError(`"${chain}" is no chain's key.`, 'See "lockstep status".')
  await withSession(words, openQuietLogger(words), async ({ db }) => {
    const found = await readForks(db, chain, limit)
    process.stdout.write(`${words.json ? JSON.stringify(forksJson(found), null, 2) : formatForks(found)}\n`)
  })
}
