import { describeError, jsonText } from '@lockstep/domain'
import { HttpRequestError, ResponseBodyTooLargeError, RpcRequestError, TimeoutError } from 'viem'

/** One call of one node that gave no result: what is known of why, free of secrets. */
export class CallFailure extends Error {
  override readonly name = 'CallFailure'
  constructor(
    readonly method: string,
    /** One clause for people. */
    readonly reason: string,
    readonly facts: FailureFacts,
  ) {
    super(`${method}: ${reason}`)
  }
}

export interface FailureFacts {
  /** The JSON-RPC error's code; null where the failure is below JSON-RPC. */
  readonly code: number | null
  /** The HTTP status of a refusal; null where the answer was 2xx or there was none. */
  readonly status: number | null
  /** No answer within the request's time. */
  readonly timedOut: boolean
  /** The answer was longer than we read. */
  readonly tooLarge: boolean
  /** The node's own `Retry-After`. */
  readonly retryAfterMs: number | null
  /** What the node said (message and nested data), for judging by words; the beginning, where it said very much. */
  readonly words: string
}

const REASON_CHARS_MAX = 240 // a node may answer with a whole HTML page
const WORDS_CHARS_MAX = 4000 // judging takes time by the square of it

/**
 * What viem threw, as facts. viem has a class per code and wraps the same refusal differently by transport and
 * status, so nothing is read from the class but from what the chain of causes carries.
 */
export function readFailure(method: string, error: unknown, redact: (text: string) => string): CallFailure {
  const chain = causesOf(error)
  const timedOut = chain.some((each) => each instanceof TimeoutError)
  const tooLarge = chain.some((each) => each instanceof ResponseBodyTooLargeError)
  const rpc = chain.find((each) => each instanceof RpcRequestError)
  const http = rpc ?? chain.find((each) => each instanceof HttpRequestError)
  const facts: FailureFacts = {
    code: rpc?.code ?? null,
    status: http?.status ?? null,
    timedOut,
    tooLarge,
    retryAfterMs: readRetryAfter(http?.headers),
    words: wordsOf(chain),
  }
  return new CallFailure(method, redact(reasonOf(facts, rpc, chain)).slice(0, REASON_CHARS_MAX), facts)
}

function reasonOf(facts: FailureFacts, rpc: RpcRequestError | undefined, chain: readonly unknown[]): string {
  if (facts.timedOut) return 'no answer within the time limit'
  if (facts.tooLarge) return 'the answer was too large'
  if (rpc !== undefined) return `error ${rpc.code}: ${rpc.details}${withStatus(facts)}`
  if (facts.status !== null) return `HTTP ${facts.status}`
  if (chain.at(-1) instanceof SyntaxError) return 'the answer was not JSON' // V8 would quote its beginning
  return describeError(chain.at(-1)) // the innermost: "connect ECONNREFUSED ...", where viem says "HTTP request failed"
}

const withStatus = (facts: FailureFacts): string => (facts.status === null ? '' : ` (HTTP ${facts.status})`)

function causesOf(error: unknown): unknown[] {
  const chain: unknown[] = []
  for (let each = error; each !== undefined && each !== null && !chain.includes(each); each = causeOf(each)) {
    chain.push(each)
  }
  return chain
}

const causeOf = (error: unknown): unknown =>
  typeof error === 'object' && error !== null && 'cause' in error ? error.cause : undefined

/** The node's words only: viem's own messages quote our request, whose `fromBlock` would pass for a hint. */
function wordsOf(chain: readonly unknown[]): string {
  const words: string[] = []
  for (const each of chain) {
    if (typeof each !== 'object' || each === null) continue
    if ('details' in each && typeof each.details === 'string') words.push(each.details)
    else if ('message' in each && typeof each.message === 'string') words.push(each.message)
    if ('data' in each && each.data !== undefined) words.push(jsonText(each.data))
  }
  return [...new Set(words)].join(' | ').slice(0, WORDS_CHARS_MAX)
}

/** `Retry-After` as RFC 9110 section 10.2.3 has it: seconds or an HTTP date. */
function readRetryAfter(headers: Headers | undefined): number | null {
  const text = headers?.get('retry-after')
  if (text === null || text === undefined) return null
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return Number.isFinite(ms) && ms > 0 ? ms : null
}
