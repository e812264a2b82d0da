import { AsyncLocalStorage } from 'node:async_hooks'
import type { RpcClient } from '@cosmjs/tendermint-rpc'
import { type ChainKey, describeError, MalformedAnswerError, RpcUnavailableError } from '@lockstep/domain'
import { redactText, redactUrl } from '@lockstep/telemetry'
import { RpcErrorAnswer } from './rpc-error-answer.js'

type Request = Parameters<RpcClient['execute']>[0]
type Response = Awaited<ReturnType<RpcClient['execute']>>

/**
 * cosmjs's `RpcClient` over HTTP. Its own `HttpClient` cannot be aborted, reads no JSON-RPC error out of an answer
 * with status 500 (0.34 nodes and some gateways send these), and quotes addresses with their secrets.
 *
 * @throws RpcUnavailableError, MalformedAnswerError, RpcErrorAnswer, or the reason of the aborted signal
 */
export class FetchRpcClient implements RpcClient {
  /** For people and logs: without secrets. */
  readonly address: string
  readonly #url: string
  readonly #headers: Record<string, string>
  readonly #inFlight = new Set<AbortController>()
  #closed = false

  constructor(
    readonly chain: ChainKey,
    url: string,
    readonly timeoutMs: number,
  ) {
    this.address = redactUrl(url)
    const { href, authorization } = withoutCredentials(url)
    this.#url = href
    this.#headers = { 'content-type': 'application/json', ...authorization }
  }

  /** cosmjs's clients pass no signal on; it reaches `execute` through the call's async context. */
  static withSignal<T>(signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> {
    return signalOfCall.run(signal, call)
  }

  // A property, since cosmjs types it so; the arrow keeps `this`.
  readonly execute = async (request: Request): Promise<Response> => {
    const { status, body } = await this.#post(JSON.stringify(request), signalOfCall.getStore())
    return this.#read(request, status, body)
  }

  /** Rejects what is in flight and all that comes later. */
  readonly disconnect = (): void => {
    this.#closed = true
    for (const controller of this.#inFlight) controller.abort()
  }

  async #post(body: string, signal: AbortSignal | undefined): Promise<{ status: number; body: string }> {
    if (this.#closed) throw this.unavailable('the source was closed')
    signal?.throwIfAborted()
    // Not AbortSignal.any: on Node 20 it leaks a little for each request under a signal that lives as long as a worker.
    const controller = new AbortController()
    const abort = () => controller.abort()
    let timedOut = false
    const timer = setTimeout(() => {
      timedOut = true
      controller.abort()
    }, this.timeoutMs)
    signal?.addEventListener('abort', abort)
    this.#inFlight.add(controller)
    try {
      const response = await fetch(this.#url, {
        method: 'POST',
        body,
        headers: this.#headers,
        signal: controller.signal,
      })
      return { status: response.status, body: await response.text() }
    } catch (error) {
      signal?.throwIfAborted()
      if (this.#closed) throw this.unavailable('the source was closed')
      if (timedOut) throw this.unavailable(`no answer within ${this.timeoutMs} ms`)
      throw this.unavailable(reasonOf(error), error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      this.#inFlight.delete(controller)
    }
  }

  #read(request: Request, status: number, body: string): Response {
    const answer = parsedObject(body)
    if (answer !== null && typeof answer.error === 'object' && answer.error !== null)
      throw errorAnswer(answer.error)
    if (status >= 400) throw this.unavailable(`HTTP status ${status}`)
    if (answer === null) throw this.malformed(request.method, 'it is no JSON object')
    if (answer.id !== request.id) throw this.malformed(request.method, 'its id is not that of the request')
    if (answer.result === undefined)
      throw this.malformed(request.method, 'it has neither a result nor an error')
    return { jsonrpc: '2.0', id: request.id, result: answer.result }
  }

  unavailable(reason: string, cause?: unknown): RpcUnavailableError {
    return new RpcUnavailableError(this.chain, this.address, redactText(reason), cause)
  }

  malformed(method: string, problem: string): MalformedAnswerError {
    return new MalformedAnswerError(this.chain, this.address, method, redactText(problem))
  }
}

const signalOfCall = new AsyncLocalStorage<AbortSignal | undefined>()

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
  const text = words.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))).join(': ')
  return new RpcErrorAnswer(typeof code === 'number' ? code : 0, redactText(text))
}

/** fetch says only "fetch failed"; the reason is its cause. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return describeError(cause)
}
