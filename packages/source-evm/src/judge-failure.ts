import type { CallFailure } from './call-failure.js'

/*
 * What a refusal means. Nodes agree neither on codes nor on words: the same "too many blocks at once" comes as
 * -32600, -32602, -32000, -32005, as HTTP 413, as a time-out, or as a code that means something else elsewhere.
 * So: code and words together, the certain signs before the vague ones.
 */

/** The node has less of the chain than was asked for. */
const BEHIND =
  /beyond current head|unfinalized|header not found|unknown block|block not found|after last accepted/i

/** We are asked to slow down; fewer blocks at once would only mean more requests. */
const THROTTLED =
  /compute units|rate.?limit|too many requests|(requests?|calls?|credits?) (per|\/) ?(second|sec|minute|day)|throughput|quota|capacity exceeded|daily request/i

/** What we sent is wrong, whatever the width. */
const WRONG_REQUEST = /invalid block range|cannot specify both|invalid argument \d|missing value/i

const TOO_WIDE = [
  /\brange\b.*\b(too (large|wide|big|long)|limit|exceed|max|allowed|should work|greater than|less than)/i,
  /\b(limit|exceed|max|too (large|wide|big|many)|up to|more than|reduce|smaller|narrow|shorter)\w*\b.*\b(range|distance|blocks?|results?|logs?|response)\b/i,
  /\b(results?|logs?|response|blocks?)\b.*\b(too (large|many|big)|exceed|limit)/i,
  /try with this block range/i,
  /(query|request|execution).{0,20}(time.?out|timed out)|took too long/i,
  // Said by nodes also for outages and throttling. Narrowing costs a few requests and ends at one block, while
  // waiting would never end where it was the width.
  /^(.*\| )?limit exceeded/i,
  /no backend is currently healthy/i,
]

const THROTTLED_CODES = new Set([429, -32007]) // some nodes put the HTTP status into the JSON-RPC code
const UNSUPPORTED_CODES = new Set([-32601, -32004]) // method not found; method not supported (EIP-1474)
const PRUNED_CODE = 4444 // geth and others since EIP-4444: "pruned history unavailable"

/** Fewer blocks at once may be answered. */
export function isRangeRefusal({ facts }: CallFailure): boolean {
  if (facts.timedOut || facts.tooLarge) return true
  if (facts.status === 413 || facts.status === 504 || facts.status === 408) return true
  if (facts.code === null && !isClientError(facts.status)) return false
  if (isThrottledFacts(facts) || BEHIND.test(facts.words) || WRONG_REQUEST.test(facts.words)) return false
  return TOO_WIDE.some((words) => words.test(facts.words))
}

/** A refusal in plain text instead of JSON-RPC. */
const isClientError = (status: number | null): boolean => status !== null && status >= 400 && status < 500

/** The width that the node itself proposes: "this block range should work: [0x123c9b2, 0x123cba5]". */
export function suggestedWidth({ facts }: CallFailure): number | null {
  const match = /\[\s*(0x[0-9a-f]+)\s*,\s*(0x[0-9a-f]+)\s*\]/i.exec(facts.words)
  if (match === null) return null
  const width = Number(match[2]) - Number(match[1]) + 1
  return Number.isSafeInteger(width) && width > 0 ? width : null
}

/** The node is to be left alone for a while. */
export const isThrottled = ({ facts }: CallFailure): boolean =>
  facts.status === 429 || facts.retryAfterMs !== null || isThrottledFacts(facts)

const isThrottledFacts = (facts: CallFailure['facts']): boolean =>
  facts.status === 429 ||
  (facts.code !== null && THROTTLED_CODES.has(facts.code)) ||
  THROTTLED.test(facts.words)

/** A smaller batch may be answered. */
export const isBatchRefusal = ({ facts }: CallFailure): boolean =>
  facts.status === 413 ||
  facts.tooLarge ||
  /batch|Expected \d+ responses|response too large/i.test(facts.words) ||
  (facts.status === 400 && facts.code === null)

/** One item of a batch failed for the moment; the others are good. */
export const isWorthAskingAgain = (failure: CallFailure): boolean =>
  isThrottled(failure) ||
  failure.facts.code === -32005 ||
  /busy|try again|overloaded/i.test(failure.facts.words)

/** The node does not have this method. */
export const isUnsupported = ({ facts }: CallFailure): boolean =>
  (facts.code !== null && UNSUPPORTED_CODES.has(facts.code)) ||
  /method .*(not (found|supported|available|exist|whitelisted)|disabled)|unsupported method/i.test(
    facts.words,
  )

/** The node once had the height and threw it away. */
export const isPruned = ({ facts }: CallFailure): boolean =>
  facts.code === PRUNED_CODE ||
  /pruned|history.{0,30}not available|required historical state/i.test(facts.words)

/** The node has not come so far yet. */
export const isBehind = ({ facts }: CallFailure): boolean => BEHIND.test(facts.words)
