import { describeError, jsonText } from '@lockstep/domain'
import { type Logger, redactUrl } from '@lockstep/telemetry'
import { WebSocket } from 'ws'
import { growingDelayMs } from './growing-delay.js'
import { redactSecretsOf } from './redact-secrets.js'

/** Opened anew so soon after a failure: a subscription is a hint, and polling goes on meanwhile. */
const REOPEN = { firstMs: 1_000, mostMs: 60_000 }
/** An upgrade that is not answered by then is given up. */
const HANDSHAKE_MS = 10_000
/** A header has some hundred bytes, on some chains with lists of validators in it. */
const MESSAGE_BYTES_MAX = 1024 * 1024
/** So many moves of the head, seen by polling, that were not announced: the subscription is silent. */
const UNHEARD_MOVES_MAX = 3

const CHAIN_ID = 1
const SUBSCRIBE = 2

export interface HeadSubscriptionOptions {
  readonly chain: string
  /** Decimal digits. */
  readonly chainId: string
  readonly url: string
  readonly logger: Logger
  readonly onHead: () => void
}

/**
 * `eth_subscribe` to new heads at one node, opened anew whenever it ends.
 *
 * A connection can be lost without a word, and a node can accept a subscription and forget it. Silence alone proves
 * nothing, for a chain may stand still; so it is held against what polling sees: a head that moves three times
 * without an announcement ends the subscription.
 */
export class HeadSubscription {
  /** For people and logs: no credentials, no path. */
  readonly #name: string
  readonly #redact: (text: string) => string
  #socket: WebSocket | null = null
  #reopen: NodeJS.Timeout | undefined
  /** Since the last announcement: an open connection that delivers nothing is no success. */
  #failures = 0
  #trouble: string | null = null
  /** The greatest head that polling saw. */
  #polled: number | null = null
  #unheardMoves = 0
  #lastHash: unknown = null

  constructor(private readonly options: HeadSubscriptionOptions) {
    this.#name = redactUrl(options.url)
    this.#redact = redactSecretsOf(options.url)
  }

  /** For people: what is wrong with it; null: nothing. */
  get trouble(): string | null {
    return this.#trouble === null ? null : `${this.#name} announces no heads: ${this.#trouble}`
  }

  open(): void {
    this.#unheardMoves = 0
    try {
      const socket = new WebSocket(this.options.url, {
        handshakeTimeout: HANDSHAKE_MS,
        maxPayload: MESSAGE_BYTES_MAX,
        perMessageDeflate: false,
      })
      this.#socket = socket
      this.#listen(socket)
    } catch (error) {
      this.#failed(error) // an address that is none for `ws`, such as one with a #fragment
    }
  }

  close(): void {
    clearTimeout(this.#reopen)
    this.#leave()
  }

  /** Polling saw this head. */
  sawHead(height: number): void {
    if (this.#polled !== null && height > this.#polled) this.#unheardMoves += 1
    this.#polled = Math.max(height, this.#polled ?? height)
    if (this.#socket !== null && this.#unheardMoves >= UNHEARD_MOVES_MAX) {
      this.#failed(`the head moved to ${height}, and it said nothing`)
    }
  }

  #listen(socket: WebSocket): void {
    const ifCurrent =
      <T extends unknown[]>(react: (...args: T) => void) =>
      (...args: T): void => {
        if (socket === this.#socket) react(...args)
      }
    socket.on(
      'open',
      ifCurrent(() => this.#ask(socket)),
    )
    socket.on(
      'message',
      ifCurrent((data) => this.#read(String(data))),
    )
    socket.on(
      'error',
      ifCurrent((error) => this.#failed(error)),
    )
    socket.on(
      'close',
      ifCurrent((code) => this.#failed(`the connection was closed (${code})`)),
    )
  }

  #ask(socket: WebSocket): void {
    const send = (id: number, method: string, params: readonly string[]) =>
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
    send(CHAIN_ID, 'eth_chainId', []) // a hint of another chain would do no harm, but nobody would find the mistake
    send(SUBSCRIBE, 'eth_subscribe', ['newHeads'])
  }

  #read(text: string): void {
    const { id, method, result, error, params } = parseMessage(text)
    const isRefusal = error !== undefined && error !== null // some send it beside a result, as null
    if (isRefusal) this.#failed(`it refused: ${jsonText(error)}`)
    else if (id === CHAIN_ID) this.#checkChain(result)
    else if (method === 'eth_subscription') this.#announced(params)
    else if (id !== SUBSCRIBE) this.#failed('it sent what is no answer')
  }

  #checkChain(reported: unknown): void {
    const { chainId } = this.options
    const isQuantity = typeof reported === 'string' && /^0x[0-9a-f]+$/i.test(reported)
    if (isQuantity && BigInt(reported).toString() === chainId) return
    const said = isQuantity ? BigInt(reported).toString() : 'unknown'
    this.#failed(`it is of chain ${said}, but the config says ${chainId}`)
  }

  #announced(params: Fields): void {
    this.#unheardMoves = 0
    this.#failures = 0
    if (this.#trouble !== null) this.options.logger.info(this.#fields, 'head subscription recovered')
    this.#trouble = null
    const { hash } = fieldsOf(params.result)
    if (hash !== undefined && hash === this.#lastHash) return // some announce each head twice
    this.#lastHash = hash
    this.options.onHead()
  }

  /** Logs when the state changes, as endpoints do. */
  #failed(why: unknown): void {
    this.#leave()
    this.#failures += 1
    const reason = this.#redact(typeof why === 'string' ? why : describeError(why)).slice(0, 240)
    if (this.#trouble === null)
      this.options.logger.warn({ ...this.#fields, reason }, 'head subscription failed')
    this.#trouble = reason
    clearTimeout(this.#reopen)
    this.#reopen = setTimeout(() => this.open(), growingDelayMs(this.#failures, REOPEN))
  }

  /** Not `close()`: that would wait for a node that may be gone. */
  #leave(): void {
    const socket = this.#socket
    this.#socket = null
    socket?.terminate()
  }

  get #fields() {
    return { chain: this.options.chain, endpoint: this.#name }
  }
}

type Fields = Readonly<Record<string, unknown>>

interface Message {
  readonly id?: unknown
  readonly method?: unknown
  readonly result?: unknown
  readonly error?: unknown
  readonly params: Fields
}

/** What is not JSON is a message without fields, and thereby no answer. */
function parseMessage(text: string): Message {
  try {
    const { params, ...message } = fieldsOf(JSON.parse(text))
    return { ...message, params: fieldsOf(params) }
  } catch {
    return { params: {} }
  }
}

const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null ? (value as Fields) : {}
