import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import {
  BLOCKER_NAMES,
  followRewind,
  leaveCutHints,
  planRewind,
  type RewindPlan,
  type RewindProgress,
  resolveMoment,
} from '@lockstep/coordinator'
import {
  BadInputError,
  type ChainKey,
  formatTimeShort,
  type Moment,
  parseMoment,
  RequestRefusedError,
} from '@lockstep/domain'
import { type RequestAnswer, requestRewind } from '@lockstep/rewind'
import { type Blocker, Listener } from '@lockstep/store'
import { EXIT } from '../exit-codes.js'
import { faultFromEnvironment } from '../faults.js'
import { againWhereLost } from '../lost-session.js'
import { FollowView } from '../print/follow-view.js'
import { formatBlockers, formatPlan, formatSummary, planJson, progressJson } from '../print/rewind.js'
import { type GlobalWords, openQuietLogger, type Session, whoAmI, withSession } from '../session.js'
import { listenForStop } from '../stop-signals.js'

/** How often the follower looks, where no notification comes. */
const FOLLOW_MS = 500

export interface RewindWords extends GlobalWords {
  readonly to?: string
  readonly yes?: boolean
  readonly dryRun?: boolean
  readonly hold?: boolean
  readonly force: readonly string[]
  readonly detach?: boolean
  readonly json?: boolean
  readonly reason?: string
}

/** `lockstep rewind --to <when>`: plan, question, request, and following to the end. */
export async function rewind(words: RewindWords): Promise<void> {
  const moment = momentOf(words)
  refuseUnknownBlockers(words.force)
  await withSession(words, openQuietLogger(words), async (session) => {
    const { options, db, sourceOf } = session
    const timestamp = await againWhereLost(() => resolveMoment(db, moment, sourceOf))
    const planOptions = {
      sourceOf,
      optionsOf: (chain: ChainKey) => options.chains.find((each) => each.chain === chain) ?? null,
      timeoutMs: options.rewind.searchTimeoutMs,
    }
    const plan = await againWhereLost(() => planRewind(db, timestamp, planOptions))
    refuseUnknownChains(words.force, plan)
    if (words.dryRun) return print(words, formatPlan(plan), { plan: planJson(plan) })
    if (!words.json) process.stdout.write(`${formatPlan(plan)}\n\n`)
    refuseBlockers(plan, words.force)
    if (!words.yes) await ask(plan)
    await carryThrough(words, session, plan)
  })
}

/** What can be told wrong from the words alone, before any connection. */
function momentOf(words: RewindWords): Moment {
  if (words.to === undefined) {
    throw new BadInputError(
      'A rewind needs the moment to go back to.',
      'Give it with --to: a time with its zone, -2h, <chain>:<height> … ("lockstep rewind --help" lists the forms).',
    )
  }
  if (words.json && !words.yes && !words.dryRun) {
    throw new BadInputError(
      'With --json nobody can be asked.',
      'Add --yes to rewind without a question, or --dry-run to see the plan.',
    )
  }
  return parseMoment(words.to)
}

/** A `--force` that forces nothing is a slip, and would leave its writer believing that something was forced. */
function refuseUnknownBlockers(forced: readonly string[]): void {
  const known: readonly string[] = BLOCKER_NAMES
  const unknown = forced.find((word) => !known.includes(blockerOf(word)))
  if (unknown === undefined) return
  throw new BadInputError(
    `"--force ${unknown}" names no blocker.`,
    `Nothing was changed. Use one of ${known.join(', ')}, or one for a single chain: <chain>:${known[0]}.`,
  )
}

function refuseUnknownChains(forced: readonly string[], plan: RewindPlan): void {
  const known: readonly string[] = plan.chains.map(({ chain }) => chain)
  const unknown = forced.find((word) => word !== blockerOf(word) && !known.includes(chainOf(word)))
  if (unknown === undefined) return
  throw new BadInputError(
    `"--force ${unknown}" names a chain that this rewind does not have.`,
    `Nothing was changed. Its chains are ${known.join(', ')}.`,
  )
}

/** `refetch`, of `refetch` and of `osmosis:refetch`. */
const blockerOf = (word: string): string => word.slice(word.indexOf(':') + 1)
const chainOf = (word: string): string => word.slice(0, word.indexOf(':'))

/** Each blocker asks for its own `--force`, so that nobody waves through what was not read. */
function refuseBlockers(plan: RewindPlan, forced: readonly string[]): void {
  const open = plan.chains
    .flatMap((chain) => chain.blockers)
    .filter(({ chain, name }) => !forced.includes(name) && !forced.includes(`${chain}:${name}`))
  if (open.length === 0) return
  const names = [...new Set(open.map(({ name }) => `--force ${name}`))]
  throw new RequestRefusedError(
    `Not rewound: ${open.map(({ chain, because }) => `${chain}: ${because}`).join('; ')}.`,
    `Nothing was changed. Mend it, or go on all the same with ${names.join(' ')}.`,
    { blockers: open.map(({ chain, name }) => `${chain}:${name}`).join(' ') },
  )
}

async function carryThrough(words: RewindWords, session: Session, plan: RewindPlan): Promise<void> {
  const { db } = session
  const say = (line: string): void => {
    if (!words.json) process.stdout.write(`${line}\n`)
  }
  const request = {
    id: randomUUID(), // so that one whose answer was lost is known again
    timestamp: plan.timestamp,
    reason: words.reason ?? null,
    who: whoAmI(),
    hold: words.hold ?? false,
  }
  const onWait = (blockers: readonly Blocker[]): void => say(formatBlockers(blockers))
  const onStep = faultFromEnvironment(process.env)
  const answer = await againWhereLost(() => requestRewind(db, { request, onWait, onStep }))
  say(
    `Rewind ${answer.rewindId} to ${formatTimeShort(answer.timestamp)} was ${answer.outcome}: all chains pause.`,
  )
  await againWhereLost(() => leaveCutHints(db, plan))
  const asked = { plan: planJson(plan), rewind: answerJson(answer) }
  if (words.detach) return print(words, 'It goes on by itself. See "lockstep rewind status".', asked)
  const end = await follow(session, answer, words.json ? null : new FollowView(process.stdout, plan))
  if (end === null) return
  print(words, formatSummary(end), {
    ...asked,
    rewind: { outcome: answer.outcome, ...(progressJson(end) as object) },
  })
}

/** @returns null where the follower was interrupted; the rewind goes on */
async function follow(
  session: Session,
  answer: RequestAnswer,
  view: FollowView | null,
): Promise<RewindProgress | null> {
  const { options, db, logger, sourceOf } = session
  const listener = Listener.open(db)
  const { stop, dispose } = listenForStop(() => {})
  const carryOut = {
    leaseMs: options.lease.timeMs,
    timeoutMs: options.rewind.searchTimeoutMs,
    sourceOf,
    logger,
    onStep: faultFromEnvironment(process.env),
    signal: stop,
  }
  try {
    const onProgress = (progress: RewindProgress): void => view?.show(progress)
    const following = { listener, pollMs: FOLLOW_MS, carryOut, onProgress, signal: stop }
    return await againWhereLost(() => followRewind(db, answer.rewindId, following))
  } catch (error) {
    if (!stop.aborted) throw error
    process.stderr.write(
      `Not followed any more; rewind ${answer.rewindId} goes on by itself. Look at it with "lockstep rewind status".\n`,
    )
    process.exitCode = EXIT.interrupted
    return null
  } finally {
    view?.close()
    dispose()
    await listener.close()
  }
}

async function ask(plan: RewindPlan): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new BadInputError(
      'There is no terminal to ask at.',
      'Add --yes to rewind without a question, or --dry-run to see the plan only.',
    )
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  const words = await terminal.question(
    `Take ${plan.chains.length} chains back to ${formatTimeShort(plan.timestamp)}? [y/N] `,
  )
  terminal.close()
  if (!/^y(es)?$/i.test(words.trim())) throw new RequestRefusedError('Not rewound.', 'Nothing was changed.')
}

function print(words: RewindWords, text: string, json: unknown): void {
  process.stdout.write(`${words.json ? JSON.stringify(json, null, 2) : text}\n`)
}

const answerJson = (answer: RequestAnswer): unknown => ({
  ...answer,
  timestamp: formatTimeShort(answer.timestamp),
})
