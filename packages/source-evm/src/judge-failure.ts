import type { CallFailure, FailureFacts } from './call-failure.js'

/*
 * What a refusal means. Nodes agree neither on codes nor on words: the same "too many blocks at once" comes as
 * -32600, -32602, -32000, -32005, as HTTP 413, as a time-out, or as a code that means something else elsewhere.
 * So one table of status, code and words together, the certain signs before the vague ones; the first row that fits
 * decides.
 *
 * | means         | what is done                                                                                  |
 * | ------------- | --------------------------------------------------------------------------------------------- |
 * | throttled     | the endpoint is left alone for its Retry-After, else for a growing delay; others are asked       |
 * | busy          | an item of a batch is asked again after a growing delay; else another endpoint                 |
 * | too_wide      | a log query is narrowed, a batch is halved; else another endpoint                              |
 * | pruned        | an endpoint that keeps the height is asked; where none does, the chain stops and names it      |
 * | unsupported   | another method where there is one                                                             |
 * | behind        | another endpoint                                                                              |
 * | wrong_request | another endpoint: nodes also refuse what is right                                             |
 * | failed        | another endpoint; this one is left last in the order for a growing delay                        |
 *
 * Where no endpoint has the answer the worker tries again, with growing delays and jitter of its own.
 */
export type Meaning =
  | 'throttled'
  | 'busy'
  | 'too_wide'
  | 'pruned'
  | 'unsupported'
  | 'behind'
  | 'wrong_request'
  | 'failed'

interface Row {
  readonly means: Meaning
  /** HTTP statuses. */
  readonly status?: readonly number[]
  /** JSON-RPC codes. */
  readonly code?: readonly number[]
  readonly words?: RegExp
}

const TABLE: readonly Row[] = [
  // 413: too large; 408 and 504: it took too long. Less at once is the cure, whatever the page says.
  { means: 'too_wide', status: [413, 408, 504] },
  // Some nodes put the HTTP status into the code; -32007 is "request limit reached" of one provider.
  { means: 'throttled', status: [429], code: [429, -32007] },
  // Fewer blocks at once would only mean more requests, so before all that speaks of limits.
  {
    means: 'throttled',
    words:
      /compute units|rate.?limit|too many requests|(requests?|calls?|credits?) (per|\/) ?(second|sec|minute|day)|throughput|quota|capacity exceeded|daily request/i,
  },
  // 4444: "pruned history unavailable", of geth and others since EIP-4444.
  {
    means: 'pruned',
    code: [4444],
    words: /pruned|history.{0,30}not available|required historical state/i,
  },
  // Method not found; method not supported (EIP-1474).
  {
    means: 'unsupported',
    code: [-32601, -32004],
    words: /method .*(not (found|supported|available|exist|whitelisted)|disabled)|unsupported method/i,
  },
  {
    means: 'behind',
    words:
      /beyond current head|unfinalized|header not found|unknown block|block not found|after last accepted/i,
  },
  {
    means: 'wrong_request',
    words: /invalid block range|cannot specify both|invalid argument \d|missing value/i,
  },
  {
    means: 'too_wide',
    words:
      /\brange\b.*\b(too (large|wide|big|long)|limit|exceed|max|allowed|should work|greater than|less than)/i,
  },
  {
    means: 'too_wide',
    words:
      /\b(limit|exceed|max|too (large|wide|big|many)|up to|more than|reduce|smaller|narrow|shorter)\w*\b.*\b(range|distance|blocks?|results?|logs?|response)\b/i,
  },
  {
    means: 'too_wide',
    words: /\b(results?|logs?|response|blocks?)\b.*\b(too (large|many|big)|exceed|limit)/i,
  },
  { means: 'too_wide', words: /try with this block range/i },
  { means: 'too_wide', words: /(query|request|execution).{0,20}(time.?out|timed out)|took too long/i },
  // Said by nodes also for outages and throttling. Narrowing costs a few requests and ends at one block, while
  // waiting would never end where it was the width.
  { means: 'too_wide', words: /^(.*\| )?limit exceeded/i },
  { means: 'too_wide', words: /no backend is currently healthy/i },
  // -32005 without words that say more: "limit exceeded" (EIP-1474), of whatever.
  {
    means: 'busy',
    status: [502, 503],
    code: [-32005],
    words: /busy|try again|overloaded|starting up|warming up/i,
  },
]

export function judge({ facts }: CallFailure): Meaning {
  if (facts.timedOut || facts.tooLarge) return 'too_wide'
  return (
    TABLE.find((row) => fits(row, facts))?.means ?? (facts.retryAfterMs === null ? 'failed' : 'throttled')
  )
}

function fits({ means, status, code, words }: Row, facts: FailureFacts): boolean {
  if (facts.status !== null && status?.includes(facts.status)) return true
  if (facts.code !== null && code?.includes(facts.code)) return true
  // The page of a gateway that is down speaks of limits and time-outs too, and not of our query.
  if (means === 'too_wide' && facts.code === null && !isClientError(facts.status)) return false
  return words?.test(facts.words) ?? false
}

/** A refusal in plain text instead of JSON-RPC. */
const isClientError = (status: number | null): boolean => status !== null && status >= 400 && status < 500

/** Fewer blocks at once may be answered. */
export const isRangeRefusal = (failure: CallFailure): boolean => judge(failure) === 'too_wide'

/** The width that the node itself proposes: "this block range should work: [0x123c9b2, 0x123cba5]". */
export function suggestedWidth({ facts }: CallFailure): number | null {
  const match = /\[\s*(0x[0-9a-f]+)\s*,\s*(0x[0-9a-f]+)\s*\]/i.exec(facts.words)
  if (match === null) return null
  const width = Number(match[2]) - Number(match[1]) + 1
  return Number.isSafeInteger(width) && width > 0 ? width : null
}

/** The node is to be left alone for a while. */
export const isThrottled = (failure: CallFailure): boolean =>
  judge(failure) === 'throttled' || failure.facts.retryAfterMs !== null

/** A smaller batch may be answered. */
export const isBatchRefusal = ({ facts }: CallFailure): boolean =>
  facts.status === 413 ||
  facts.tooLarge ||
  /batch|Expected \d+ responses|response too large/i.test(facts.words) ||
  (facts.status === 400 && facts.code === null)

/** One item of a batch failed for the moment; the others are good. */
export const isWorthAskingAgain = (failure: CallFailure): boolean =>
  isThrottled(failure) || judge(failure) === 'busy' || failure.facts.code === -32005

/** The node does not have this method. */
export const isUnsupported = (failure: CallFailure): boolean => judge(failure) === 'unsupported'

/** The node once had the height and threw it away. */
export const isPruned = (failure: CallFailure): boolean => judge(failure) === 'pruned'

/** The node has not come so far yet. */
export const isBehind = (failure: CallFailure): boolean => judge(failure) === 'behind'
