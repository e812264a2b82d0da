import {
  type ChainKey,
  describeError,
  jsonText,
  MalformedAnswerError,
  RpcUnavailableError,
} from '@lockstep/domain'
import { redactText, redactUrl } from '@lockstep/telemetry'
import { RequestSlots } from './request-slots.js'
import { RpcErrorAnswer } from './rpc-error-answer.js'

interface Request {
  readonly jsonrpc: '2.0'
  readonly id: number
  readonly method: string
  readonly params: object
}

export interface RequestLimits {
  /** How long one request may take. */
  readonly timeoutMs: number
  readonly requestsAtOnce: number
  /** Null: no limit. */
  readonly requestsPerSecond: number | null
  /** A longer answer is not read to its end. */
  readonly answerBytesMax: number
}

/** Longer than a node asks for by mistake, shorter than an operator's patience. */
const REST_MAX_MS = 10 * 60_000

/**
 * JSON-RPC over HTTP. cosmjs's `HttpClient` cannot be aborted, reads no JSON-RPC error out of an answer with status
 * 500 (0.34 nodes and some gateways send these), and quotes addresses with their secrets.
 *
 * @throws RpcUnavailableError, MalformedAnswerError, RpcErrorAnswer, or the reason of the aborted signal
 */
export class FetchRpcClient {
  /** For people and logs: without secrets. */
  readonly address: string
  readonly #url: string
  readonly #headers: Record<string, string>
  readonly #inFlight = new Set<AbortController>()
  readonly #slots: RequestSlots
  /** By `performance.now()`: until then the node wants to be left alone. */
  #restUntil = 0
  #closed = false

  constructor(
    readonly chain: ChainKey,
    url: string,
    readonly limits: RequestLimits,
  ) {
    this.#slots = new RequestSlots(limits.requestsAtOnce, limits.requestsPerSecond)
    this.address = redactUrl(url)
    const { href, authorization } = withoutCredentials(url)
    this.#url = href
    this.#headers = { 'content-type': 'application/json', ...authorization }
  }

  /** @returns the `result` of the answer */
  async execute(request: Request, signal?: AbortSignal): Promise<unknown> {
    const { status, body } = await this.#slots.hold(signal, () => this.#post(JSON.stringify(request), signal))
    return this.#read(request, status, body)
  }

  /** Rejects what is in flight and all that comes later. */
  disconnect(): void {
    this.#closed = true
    for (const controller of this.#inFlight) controller.abort()
  }

  async #post(body: string, signal: AbortSignal | undefined): Promise<{ status: number; body: string }> {
    if (this.#closed) throw this.unavailable('the source was closed')
    signal?.throwIfAborted()
    const restMs = Math.ceil(this.#restUntil - performance.now())
    if (restMs > 0) throw this.unavailable(`it asked to be left alone for another ${restMs} ms`)
    // Not AbortSignal.any: on Node 20 it leaks a little for each request under a signal that lives as long as a worker.
    const controller = new AbortController()
    const abort = () => controller.abort()
    let timedOut = false
    const timer = setTimeout(() => {
      timedOut = true
      controller.abort()
    }, this.limits.timeoutMs)
    signal?.addEventListener('abort', abort)
    this.#inFlight.add(controller)
    try {
      const response = await fetch(this.#url, {
        method: 'POST',
        body,
        headers: this.#headers,
        signal: controller.signal,
      })
      this.#restUntil = Math.max(this.#restUntil, performance.now() + restOf(response))
      return { status: response.status, body: await this.#readBody(response) }
    } catch (error) {
      signal?.throwIfAborted()
      if (this.#closed) throw this.unavailable('the source was closed')
      if (timedOut) throw this.unavailable(`no answer within ${this.limits.timeoutMs} ms`)
      if (error instanceof RpcUnavailableError) throw error
      throw this.unavailable(reasonOf(error), error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      this.#inFlight.delete(controller)
    }
  }

  /** Not `text()`, which would hold whatever comes. */
  async #readBody(response: Response): Promise<string> {
    const { answerBytesMax } = this.limits
    const chunks: Uint8Array[] = []
    let bytes = 0
    for await (const chunk of response.body ?? []) {
      bytes += chunk.length
      if (bytes > answerBytesMax) throw this.unavailable(`its answer is longer than ${answerBytesMax} bytes`)
      chunks.push(chunk)
    }
    return Buffer.concat(chunks).toString('utf8')
  }

  #read(request: Request, status: number, body: string): unknown {
    const answer = parsedObject(body)
    if (answer !== null && typeof answer.error === 'object' && answer.error !== null)
      throw errorAnswer(answer.error)
    if (status >= 400) throw this.unavailable(`HTTP status ${status}`)
    if (answer === null) throw this.malformed(request.method, 'it is no JSON object')
    if (answer.id !== request.id) throw this.malformed(request.method, 'its id is not that of the request')
    if (answer.result === undefined)
      throw this.malformed(request.method, 'it has neither a result nor an error')
    return answer.result
  }

  unavailable(reason: string, cause?: unknown): RpcUnavailableError {
    return new RpcUnavailableError(this.chain, this.address, redactText(reason), cause)
  }

  malformed(method: string, problem: string): MalformedAnswerError {
    return new MalformedAnswerError(this.chain, this.address, method, redactText(problem))
  }
}

/** Milliseconds of rest that a refusal asks for (RFC 9110, 10.2.3: seconds, or a date). */
function restOf({ status, headers }: { readonly status: number; readonly headers: Headers }): number {
  const given = headers.get('retry-after')
  if (given === null || (status !== 429 && status !== 503)) return 0
  const ms = /^\d+$/.test(given) ? Number(given) * 1000 : Date.parse(given) - Date.now()
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(ms, 0), REST_MAX_MS)
}

/** fetch refuses addresses with a user and password: they become a header. */
function withoutCredentials(url: string): { href: string; authorization: Record<string, string> } {
  const parsed = new URL(url)
  const { username, password } = parsed
  if (username === '' && password === '') return { href: url, authorization: {} }
  parsed.username = ''
  parsed.password = ''
  const token = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString(
    'base64',
  )
  return { href: parsed.href, authorization: { authorization: `Basic ${token}` } }
}

function parsedObject(body: string): Record<string, unknown> | null {
  try {
    const parsed: unknown = JSON.parse(body)
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
      ? (parsed as Record<string, unknown>)
      : null
  } catch {
    return null
  }
}

function errorAnswer(error: object): RpcErrorAnswer {
  const { code, message, data } = error as { code?: unknown; message?: unknown; data?: unknown }
  const words = [message, data].filter((part) => part !== undefined && part !== null && part !== '')
  const text = words.map((part) => (typeof part === 'string' ? part : jsonText(part))).join(': ')
  return new RpcErrorAnswer(typeof code === 'number' ? code : 0, redactText(text))
}

/** fetch says only "fetch failed"; the reason is its cause. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return describeError(cause)
}
