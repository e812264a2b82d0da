import { type ChainKey, describeError, jsonText } from '@lockstep/domain'
import { type Logger, redactText, redactUrl } from '@lockstep/telemetry'
import { WebSocket } from 'ws'
import { pause } from './pause.js'

/*
 * A node's NewBlock events over a websocket. They are hints only: what a node announces is asked for, and polling goes
 * on whether it announces or not. Three ways to end are all the same here: the connection drops, the node refuses, or
 * nothing comes any more. The last is the common one (a proxy that forgot us, a node that dropped a slow reader without
 * a word), so silence ends a connection, also that of a halted chain, and a new one is opened, ever later.
 *
 * Not cosmjs's client: it connects again after it was closed, does not subscribe again then, and hides the socket.
 */

/** Longer than the block time of any chain that is in use, so that silence means something. */
export const SILENT_AFTER_MS = 30_000
const HANDSHAKE_MS = 10_000
const REOPEN_FIRST_MS = 500
const REOPEN_MAX_MS = 60_000
/** Events carry the whole block with its results. */
const MESSAGE_BYTES_MAX = 256 * 2 ** 20

const SUBSCRIBE = { jsonrpc: '2.0', id: 1, method: 'subscribe', params: { query: "tm.event='NewBlock'" } }

export interface HeadSubscriptionDependencies {
  readonly logger: Logger
  readonly silentAfterMs: number
  /** Called for each announcement. */
  readonly announced: () => void
}

export class HeadSubscription {
  /** For people and logs: without secrets. */
  readonly address: string
  readonly #url: string
  readonly #ended = new AbortController()
  #failures = 0
  #reason: string | null = null

  constructor(
    readonly chain: ChainKey,
    url: string,
    readonly deps: HeadSubscriptionDependencies,
  ) {
    this.address = redactUrl(url)
    this.#url = withPath(url)
    void this.#run()
  }

  /** Why nothing is announced now; null: announcements come. */
  get trouble(): string | null {
    return this.#reason === null ? null : `${this.address} announces no heads: ${this.#reason}`
  }

  close(): void {
    this.#ended.abort()
  }

  async #run(): Promise<void> {
    const { signal } = this.#ended
    while (!signal.aborted) {
      const reason = await this.#listen(signal)
      if (signal.aborted) return
      this.#noteEnd(reason)
      const waitMs = Math.min(REOPEN_MAX_MS, REOPEN_FIRST_MS * 2 ** (this.#failures - 1))
      await pause(waitMs, signal).catch(() => {}) // an abort ends the loop
    }
  }

  /** The first end of a series, and then ever fewer. */
  #noteEnd(reason: string): void {
    this.#reason = reason
    this.#failures += 1
    if (!Number.isInteger(Math.log2(this.#failures))) return
    const { chain, address } = this
    this.deps.logger.warn(
      { chain, endpoint: address, reason },
      'announcements of heads ended: polling goes on',
    )
  }

  /** Resolves with the reason when the connection is over. */
  #listen(signal: AbortSignal): Promise<string> {
    return new Promise((resolve) => {
      const { silentAfterMs } = this.deps
      const socket = new WebSocket(this.#url, {
        handshakeTimeout: HANDSHAKE_MS,
        maxPayload: MESSAGE_BYTES_MAX,
      })
      const over = (reason: string) => {
        clearTimeout(silence)
        signal.removeEventListener('abort', close)
        socket.terminate()
        resolve(redactText(reason))
      }
      const close = () => over('it was closed')
      const silence = setTimeout(() => over(`nothing came for ${silentAfterMs} ms`), silentAfterMs)
      signal.addEventListener('abort', close, { once: true })
      socket.on('open', () => socket.send(JSON.stringify(SUBSCRIBE)))
      socket.on('message', (data: unknown) => {
        const message = messageOf(data)
        if (message === 'announcement') {
          silence.refresh()
          this.#heard()
        } else if (message !== 'other') over(message.refusal)
      })
      socket.on('error', (error: unknown) => over(describeError(error)))
      socket.on('close', () => over('the connection was dropped'))
    })
  }

  #heard(): void {
    if (this.#reason !== null) {
      const { chain, address } = this
      this.deps.logger.info({ chain, endpoint: address }, 'announcements of heads came again')
    }
    this.#reason = null
    this.#failures = 0
    this.deps.announced()
  }
}

/** CometBFT answers at this path; an address without any means it. */
function withPath(url: string): string {
  const parsed = new URL(url)
  if (parsed.pathname === '/') parsed.pathname = '/websocket'
  return parsed.href
}

/** The first answer says that the subscription was taken, or why not; each later one is an event. */
function messageOf(data: unknown): 'announcement' | 'other' | { readonly refusal: string } {
  let message: unknown
  try {
    message = JSON.parse(String(data))
  } catch {
    return 'other'
  }
  if (typeof message !== 'object' || message === null) return 'other'
  const { error, result } = message as { readonly error?: unknown; readonly result?: unknown }
  if (error !== undefined && error !== null) return { refusal: `it refused: ${jsonText(error)}` }
  return typeof result === 'object' && result !== null && 'data' in result ? 'announcement' : 'other'
}
