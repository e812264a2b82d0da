import { createInterface } from 'node:readline/promises'
import {
  followRewind,
  leaveCutHints,
  planRewind,
  type RewindPlan,
  type RewindProgress,
  resolveMoment,
} from '@lockstep/coordinator'
import { BadInputError, formatTimeShort, parseMoment, RequestRefusedError } from '@lockstep/domain'
import { type RequestAnswer, requestRewind } from '@lockstep/rewind'
import { Listener } from '@lockstep/store'
import { EXIT } from '../exit-codes.js'
import { formatChainDone, formatPlan, planJson, progressJson } from '../print/rewind.js'
import { type GlobalWords, openLogger, type Session, whoAmI, withSession } from '../session.js'
import { listenForStop } from '../stop-signals.js'

export interface RewindWords extends GlobalWords {
  readonly to: string
  readonly yes?: boolean
  readonly dryRun?: boolean
  readonly detach?: boolean
  readonly json?: boolean
  readonly reason?: string
}

/** `lockstep rewind --to <when>`: plan, question, request, and following to the end. */
export async function rewind(words: RewindWords): Promise<void> {
  const moment = parseMoment(words.to)
  if (words.json && !words.yes && !words.dryRun) {
    throw new BadInputError(
      'With --json nobody can be asked.',
      'Add --yes to rewind without a question, or --dry-run to see the plan.',
    )
  }
  await withSession(words, openLogger(words, process.stderr), async (session) => {
    const { options, db, sourceOf } = session
    const timestamp = await resolveMoment(db, moment, sourceOf)
    const plan = await planRewind(db, timestamp, { sourceOf, timeoutMs: options.rewind.searchTimeoutMs })
    if (words.dryRun) return print(words, formatPlan(plan), { plan: planJson(plan) })
    if (!words.json) process.stdout.write(`${formatPlan(plan)}\n\n`)
    if (!words.yes) await ask(plan)
    await carryThrough(words, session, plan)
  })
}

async function carryThrough(words: RewindWords, session: Session, plan: RewindPlan): Promise<void> {
  const { db } = session
  const say = (line: string): void => {
    if (!words.json) process.stdout.write(`${line}\n`)
  }
  const answer = await requestRewind(db, {
    request: { timestamp: plan.timestamp, reason: words.reason ?? null, who: whoAmI() },
    onWait: (blockers) =>
      say(
        `Waiting for writes in flight: ${blockers.map((each) => `${each.holder} (${each.transactionSeconds.toFixed(1)} s)`).join(', ')}`,
      ),
  })
  say(
    `Rewind ${answer.rewindId} to ${formatTimeShort(answer.timestamp)} was ${answer.outcome}: all chains pause.`,
  )
  await leaveCutHints(db, plan)
  if (words.detach)
    return print(words, 'It goes on by itself. See "lockstep status".', {
      plan: planJson(plan),
      rewind: answerJson(answer),
    })
  const end = await follow(session, answer, say)
  if (end === null) return
  print(words, 'All chains are back; fetching goes on.', {
    plan: planJson(plan),
    rewind: { outcome: answer.outcome, ...(progressJson(end) as object) },
  })
}

/** @returns null where the follower was interrupted; the rewind goes on */
async function follow(
  session: Session,
  answer: RequestAnswer,
  say: (line: string) => void,
): Promise<RewindProgress | null> {
  const { options, db, logger, sourceOf } = session
  const listener = Listener.open(db)
  const { stop, dispose } = listenForStop(() => {})
  const told = new Map<string, string>()
  try {
    return await followRewind(db, answer.rewindId, {
      listener,
      pollMs: options.rewind.pollMs,
      carryOut: {
        leaseMs: options.lease.timeMs,
        timeoutMs: options.rewind.searchTimeoutMs,
        sourceOf,
        logger,
        signal: stop,
      },
      onProgress: (progress) => tell(progress, told, say),
      signal: stop,
    })
  } catch (error) {
    if (!stop.aborted) throw error
    say(`Not followed any more; rewind ${answer.rewindId} goes on by itself. See "lockstep status".`)
    process.exitCode = EXIT.interrupted
    return null
  } finally {
    dispose()
    await listener.close()
  }
}

/** Each chain once, when it is back (and again where a deepening made it go further). */
function tell(progress: RewindProgress, told: Map<string, string>, say: (line: string) => void): void {
  for (const record of progress.done) {
    const line = formatChainDone(record)
    if (told.get(record.chain) === line) continue
    told.set(record.chain, line)
    const rest = progress.waitingFor.length === 0 ? '' : ` (waiting for ${progress.waitingFor.join(', ')})`
    say(`${line}${rest}`)
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
