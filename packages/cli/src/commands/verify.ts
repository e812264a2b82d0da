import { type ChainVerification, resolveMoment, type VerifiedRange, verifyChain } from '@lockstep/coordinator'
import {
  BadInputError,
  type Height,
  isChainKey,
  type LockstepError,
  parseMoment,
  height as toHeight,
} from '@lockstep/domain'
import {
  digestChain,
  readChains,
  readCheckpoint,
  readFrom,
  readGapsInWords,
  type TableDigest,
} from '@lockstep/store'
import { EXIT } from '../exit-codes.js'
import { describeGap } from '../print/status.js'
import { formatTable } from '../print/table.js'
import { type GlobalWords, openQuietLogger, type Session, withSession } from '../session.js'
import { listenForStop } from '../stop-signals.js'

export interface VerifyWords extends GlobalWords {
  readonly chain?: string
  readonly from?: string
  readonly json?: boolean
}

/** `lockstep verify`: is what is stored what the chains say? Exit code 1 where not. */
export async function verify(words: VerifyWords): Promise<void> {
  const from = words.from === undefined ? null : heightOf(words.from)
  if (from !== null && words.chain === undefined) {
    throw new BadInputError('--from is a height of one chain.', 'Name the chain with --chain.')
  }
  await withSession(words, openQuietLogger(words), async (session) => {
    if (words.chain !== undefined) await refuseUnaskable(session, words.chain, from)
    const { stop, dispose } = listenForStop(() => {})
    try {
      const results: ChainVerification[] = []
      for (const options of session.options.chains.filter(
        ({ chain }) => words.chain === undefined || chain === words.chain,
      )) {
        const source = session.sourceOf(options.chain)
        if (source === null) continue
        const onRange = (range: VerifiedRange): void => tellRange(words, options.chain, range)
        const result = await verifyChain({ db: session.db, source, options, from, onRange, signal: stop })
        for (const each of words.json ? [] : result.notCompared)
          process.stdout.write(`${options.chain}: ${each}\n`)
        results.push(result)
      }
      if (!words.json) await tellUnverified(session)
      process.stdout.write(`${words.json ? JSON.stringify(results, null, 2) : formatVerification(results)}\n`)
      if (results.some(({ problems, notCompared }) => problems.length + notCompared.length > 0))
        process.exitCode = EXIT.failed
    } finally {
      dispose()
    }
  })
}

/** Nothing to compare must not read as "agrees". */
async function refuseUnaskable(session: Session, word: string, from: Height | null): Promise<void> {
  const { db, options } = session
  const configured = options.chains.find(({ chain }) => chain === word)
  if (configured === undefined) {
    const registered = (await db.transaction(readChains)).some(({ chain }) => chain === word)
    throw registered ? chainWithoutNode(word) : unknownChain(word)
  }
  if (from === null) return
  const { chain } = configured
  const stored = (await db.transaction((tx) => readCheckpoint(tx, chain)))?.height ?? null
  if (stored !== null && from <= stored) return
  throw new BadInputError(
    stored === null
      ? `Nothing is stored of ${chain} yet, so there is nothing to verify from ${from} on.`
      : `There is nothing to verify from ${from} on: ${chain} is stored up to ${stored}.`,
    stored === null ? 'See "lockstep status".' : `Give --from a height up to ${stored}.`,
  )
}

/** Chains with data and without nodes. */
async function tellUnverified({ db, options }: Session): Promise<void> {
  const known = new Set(options.chains.map(({ chain }) => chain))
  for (const { chain } of await db.transaction(readChains)) {
    if (!known.has(chain)) process.stdout.write(`${chain}: it is not in the config, so it was not verified\n`)
  }
}

function tellRange(
  words: VerifyWords,
  chain: string,
  { from, to, blocks, events, problems }: VerifiedRange,
): void {
  if (words.json) return
  for (const problem of problems) process.stdout.write(`${chain}: ${problem}\n`)
  if (process.stderr.isTTY)
    process.stderr.write(`${chain}: ${from} to ${to}: ${blocks} blocks, ${events} events\n`)
}

function formatVerification(results: readonly ChainVerification[]): string {
  const rows = results.map((each) => [
    each.chain,
    `${each.from} to ${each.to ?? '—'}`,
    String(each.blocks),
    String(each.events),
    describeResult(each),
  ])
  return formatTable(['CHAIN', 'HEIGHTS', 'BLOCKS', 'EVENTS', 'RESULT'], rows, new Set([2, 3]))
}

function describeResult({ problems, notCompared }: ChainVerification): string {
  if (problems.length > 0) return `${problems.length} PROBLEMS`
  return notCompared.length > 0 ? 'NOT WHOLE YET' : 'agrees with the chain'
}

export interface DigestWords extends GlobalWords {
  readonly chain?: string
  readonly to?: string
  readonly json?: boolean
}

/** `lockstep digest`: one number per chain and table, equal in two databases that hold the same. */
export async function digest(words: DigestWords): Promise<void> {
  const moment = words.to === undefined || /^\d+$/.test(words.to) ? null : parseMoment(words.to)
  const height = words.to !== undefined && moment === null ? heightOf(words.to) : null
  await withSession(words, openQuietLogger(words), async (session) => {
    const { db } = session
    const time = moment && (await resolveMoment(db, moment, session.sourceOf))
    const registered = (await db.transaction(readChains)).filter(
      ({ chain }) => words.chain === undefined || chain === words.chain,
    )
    if (registered.length === 0) throw unknownChain(words.chain ?? '')
    const digests: TableDigest[] = []
    for (const { chain } of registered)
      digests.push(...(await digestChain(db, chain, await upTo(session, chain, height, time))))
    process.stdout.write(`${words.json ? JSON.stringify(digests, null, 2) : formatDigests(digests)}\n`)
    if (!words.json) await tellGaps(db, digests)
  })
}

/** Numbers of a chain with a gap tell nothing yet. */
async function tellGaps(db: Session['db'], digests: readonly TableDigest[]): Promise<void> {
  const told = new Set(digests.map(({ chain }) => chain))
  for (const gap of await db.transaction(readGapsInWords))
    if (told.has(gap.chain)) process.stdout.write(`${gap.chain}: ${describeGap(gap)}\n`)
}

/** The last height that counts: the checkpoint, or what was asked for below it. */
async function upTo(
  { db }: Session,
  chain: Parameters<typeof readCheckpoint>[1],
  height: Height | null,
  time: Parameters<typeof readFrom>[2] | null,
): Promise<Height | null> {
  return db.transaction(async (tx) => {
    const checkpoint = (await readCheckpoint(tx, chain))?.height ?? null
    if (checkpoint === null) return null
    if (height !== null) return Math.min(height, checkpoint) as Height
    const late = time === null ? null : await readFrom(tx, chain, time)
    if (late === null) return checkpoint
    return late.height === 0 ? null : ((late.height - 1) as Height)
  })
}

const formatDigests = (digests: readonly TableDigest[]): string =>
  formatTable(
    ['CHAIN', 'TABLE', 'UP TO', 'ROWS', 'DIGEST'],
    digests.map((each) => [each.chain, each.table, String(each.to ?? '—'), String(each.rows), each.digest]),
    new Set([2, 3]),
  )

function heightOf(word: string): Height {
  try {
    return toHeight(word)
  } catch {
    throw new BadInputError(`"${word}" is no height.`, 'Give a whole number.')
  }
}

const chainWithoutNode = (chain: string): LockstepError =>
  new BadInputError(
    `${chain} is not in this config, so there is no node to ask.`,
    'Use the config that has it, or compare two databases with "lockstep digest".',
  )

const unknownChain = (chain: string): LockstepError =>
  new BadInputError(
    `There is no chain "${chain}".`,
    `See "lockstep status"${isChainKey(chain) ? '' : '; keys are lower-case letters, digits, _ and -'}.`,
  )
