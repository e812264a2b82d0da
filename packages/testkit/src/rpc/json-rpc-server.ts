import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** Thrown by a handler: becomes the `error` member of that call's response. */
export class RpcFault extends Error {
  override readonly name = 'RpcFault'
  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(message)
  }
}

/** Thrown by a handler: the whole HTTP request that the call came in fails so. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure'
  constructor(readonly fault: HttpFault) {
    super(`answered with ${fault.kind}`)
  }
}

/** Answers one call. What it returns is the `result`; `undefined` is sent as null. */
export type RpcHandler = (method: string, params: unknown) => unknown

/** One call as it came, batch items singly. */
export interface RpcCall {
  readonly method: string
  /** A list or an object; of a GET an object of strings. */
  readonly params: unknown
}

/** What happens to a whole HTTP request instead of an answer. */
export type HttpFault =
  | { readonly kind: 'drop' }
  | { readonly kind: 'hang' }
  | {
      readonly kind: 'status'
      readonly status: number
      readonly body?: string
      readonly headers?: Readonly<Record<string, string>>
    }
  | { readonly kind: 'error'; readonly code: number; readonly message: string; readonly data?: unknown }

interface Wire {
  readonly jsonrpc: '2.0'
  readonly id: unknown
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
}

const REQUESTS_KEPT_MAX = 100_000 // a test's log of calls; older ones go, so that a long run does not grow for ever

/**
 * A JSON-RPC 2.0 server over HTTP on a free port of the loopback address: single calls and batches by POST, and
 * CometBFT's `GET /method?name=value`. It knows no method; the handler does. Every way of failing that a real
 * node was seen to have can be asked for.
 */
export class JsonRpcServer {
  /** Every call that came, refused ones included, oldest first. */
  readonly calls: RpcCall[] = []
  /** HTTP requests so far: a batch is one. */
  httpRequests = 0
  /** Each answer waits this long. */
  latencyMs = 0
  /** A batch of more calls gets HTTP 413; 0: every batch, also of one call. */
  batchMax = Number.POSITIVE_INFINITY
  /** Decides for each HTTP request whether it fails, after `failNext` had its turn; null: it is answered. */
  disturb: (calls: readonly RpcCall[]) => HttpFault | null = () => null

  readonly #handler: RpcHandler
  readonly #server: Server
  #faults: { left: number; readonly fault: HttpFault }[] = []

  constructor(handler: RpcHandler) {
    this.#handler = handler
    this.#server = createServer((request, response) => void this.#serve(request, response))
  }

  /** Starts to listen; `port` brings a stopped server back where it was. Resolves with `http://127.0.0.1:<port>`. */
  async start(port = 0): Promise<string> {
    this.#server.listen(port, '127.0.0.1')
    await once(this.#server, 'listening')
    return this.url
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** For WebSocket upgrades on the same port. */
  get httpServer(): Server {
    return this.#server
  }

  /** The next `times` HTTP requests fail so. Several calls queue up. */
  failNext(times: number, fault: HttpFault): void {
    this.#faults.push({ left: times, fault })
  }

  /** Ends every open connection now; what is in flight gets no answer. */
  dropConnections(): void {
    this.#server.closeAllConnections()
  }

  /** How often the method was called. */
  countOf(method: string): number {
    return this.calls.filter((call) => call.method === method).length
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      this.httpRequests += 1
      const parsed =
        request.method === 'GET' ? parseUri(request.url ?? '/') : parseBody(await readBody(request))
      if (parsed === null) return send(response, 200, failure(null, -32700, 'parse error'))
      const items = Array.isArray(parsed) ? parsed : [parsed]
      const calls = items.map(callOf)
      this.#record(calls)
      if (this.latencyMs > 0) await sleep(this.latencyMs)
      const fault = this.#faultFor(calls, Array.isArray(parsed))
      if (fault !== null) return applyFault(fault, parsed, request, response)
      const answers = await Promise.all(items.map((item) => this.#answer(item)))
      const broken = answers.find((answer) => answer instanceof HttpFailure)
      if (broken !== undefined) return applyFault(broken.fault, parsed, request, response)
      send(response, 200, Array.isArray(parsed) ? answers : answers[0])
    } catch {
      request.socket.destroy() // the client went away, or a handler broke: no answer is the honest one
    }
  }

  #record(calls: readonly RpcCall[]): void {
    this.calls.push(...calls)
    if (this.calls.length > REQUESTS_KEPT_MAX) this.calls.splice(0, this.calls.length - REQUESTS_KEPT_MAX)
  }

  #faultFor(calls: readonly RpcCall[], isBatch: boolean): HttpFault | null {
    const next = this.#faults[0]
    if (next !== undefined) {
      next.left -= 1
      if (next.left <= 0) this.#faults.shift()
      return next.fault
    }
    if (isBatch && calls.length > this.batchMax)
      return { kind: 'status', status: 413, body: '<html>413 Too Large</html>' }
    return this.disturb(calls)
  }

  async #answer(item: unknown): Promise<Wire | HttpFailure> {
    const { method, params } = callOf(item)
    const id = idOf(item)
    try {
      return { jsonrpc: '2.0', id, result: (await this.#handler(method, params)) ?? null }
    } catch (error) {
      if (error instanceof HttpFailure) return error
      if (error instanceof RpcFault) return failure(id, error.code, error.message, error.data)
      return failure(id, -32603, error instanceof Error ? error.message : String(error))
    }
  }
}

function applyFault(
  fault: HttpFault,
  parsed: unknown,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  if (fault.kind === 'drop') request.socket.destroy()
  else if (fault.kind === 'status') {
    response.writeHead(fault.status, { 'content-type': 'text/html', ...fault.headers }).end(fault.body ?? '')
  } else if (fault.kind === 'error') {
    const answerTo = (item: unknown): Wire => failure(idOf(item), fault.code, fault.message, fault.data)
    send(response, 200, Array.isArray(parsed) ? parsed.map(answerTo) : answerTo(parsed))
  }
}

const failure = (id: unknown, code: number, message: string, data?: unknown): Wire => ({
  jsonrpc: '2.0',
  id,
  error: data === undefined ? { code, message } : { code, message, data },
})

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

const field = (item: unknown, name: string): unknown =>
  typeof item === 'object' && item !== null ? (item as Record<string, unknown>)[name] : undefined

const callOf = (item: unknown): RpcCall => ({
  method: String(field(item, 'method')),
  params: field(item, 'params') ?? [],
})

const idOf = (item: unknown): unknown => field(item, 'id') ?? null

/** `/block?height=5` as CometBFT reads it; quotes around a value are its mark of a string and are dropped. */
function parseUri(url: string): unknown {
  const { pathname, searchParams } = new URL(url, 'http://localhost')
  const params = Object.fromEntries(
    [...searchParams].map(([name, value]) => [name, value.replace(/^"(.*)"$/, '$1')]),
  )
  return { id: -1, method: pathname.slice(1), params }
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  return Buffer.concat(parts).toString('utf8')
}
