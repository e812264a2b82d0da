import { setTimeout as sleep } from 'node:timers/promises'
import type { EndpointOptions } from '@lockstep/config'
import { type ChainKey, type Height, HeightPrunedError, MalformedAnswerError } from '@lockstep/domain'
import { redactUrl } from '@lockstep/telemetry'
import PQueue from 'p-queue'
import { createPublicClient, http, type PublicClient } from 'viem'
import { CallFailure, readFailure } from './call-failure.js'
import { growingDelayMs } from './growing-delay.js'
import { isBatchRefusal, isWorthAskingAgain } from './judge-failure.js'
import { LogWidth } from './log-width.js'
import { redactSecretsOf } from './redact-secrets.js'

/** One call: a method and its positional parameters. */
export interface Call {
  readonly method: string
  readonly params: readonly unknown[]
}

// Half of the hundred calls that public nodes allow at most in a batch; a node that takes fewer is found out.
const BATCH_CALLS_MAX = 50
const ITEM_ATTEMPTS_MAX = 4 // with the delays below: what is asked again waits up to 1.75 s in all
const ITEM_RETRY = { firstMs: 250, mostMs: 1_000 }
// Three times what the receipts of a full block of 36 million gas take; longer log queries are narrowed.
const ANSWER_BYTES_MAX = 32 * 1024 * 1024

/** One node: sends calls over viem and remembers what the node was found to allow. */
export class Endpoint {
  /** For people and logs: no credentials, no path. */
  readonly name: string
  /** How many blocks a log query may span here. */
  readonly logWidth = new LogWidth()
  /** False once the node said that it has no `eth_getBlockReceipts`. */
  hasBlockReceipts = true
  readonly #chain: ChainKey
  readonly #single: PublicClient
  readonly #batched: PublicClient
  readonly #redact: (text: string) => string
  /** What is under way here, and waits for its turn: HTTP requests, a batch being one. */
  readonly #queue: PQueue
  readonly #limited: boolean
  #batchMax: number

  constructor(
    chain: ChainKey,
    { url, requestsPerSecond, requestsAtOnce }: EndpointOptions,
    timeoutMs: number,
  ) {
    const rate =
      requestsPerSecond === null ? {} : { intervalCap: requestsPerSecond, interval: 1_000, strict: true }
    this.#chain = chain
    this.#queue = new PQueue({ concurrency: requestsAtOnce, ...rate })
    this.#limited = requestsPerSecond !== null
    this.#batchMax = Math.min(BATCH_CALLS_MAX, requestsPerSecond ?? BATCH_CALLS_MAX)
    this.name = redactUrl(url)
    this.#redact = redactSecretsOf(url)
    // viem retries by code alone and with the whole batch; who to ask again is decided here and by the worker.
    const transport = { retryCount: 0, timeout: timeoutMs, maxResponseBodySize: ANSWER_BYTES_MAX }
    this.#single = createPublicClient({ transport: http(url, transport), cacheTime: 0 })
    this.#batched = createPublicClient({ transport: http(url, { ...transport, batch: true }), cacheTime: 0 })
  }

  /** @throws CallFailure; `signal`'s reason where it is aborted */
  call(call: Call, signal: AbortSignal): Promise<unknown> {
    return this.#inTurn(1, () => this.#send(this.#single, call, signal), signal)
  }

  /**
   * The results in the order of the calls, sent in batches as large as the node takes. Where some items of a batch
   * fail for the moment, those alone are sent again.
   *
   * @throws CallFailure of the first item that stays without a result
   */
  async callMany(calls: readonly Call[], signal: AbortSignal): Promise<unknown[]> {
    const results: unknown[] = new Array(calls.length)
    let open = [...calls.keys()]
    let refusals = 0 // in a row
    while (open.length > 0) {
      const batch = open.slice(0, this.#batchMax)
      const failures = await this.#callBatch(calls, batch, results, signal)
      refusals = failures.size > 0 ? refusals + 1 : 0
      if (failures.size > 0) await this.#prepareAgain(failures, batch.length, refusals, signal)
      open = [...failures.keys(), ...open.slice(batch.length)]
    }
    return results
  }

  /** The error for an answer that cannot be used. */
  malformed(method: string, problem: string): MalformedAnswerError {
    return new MalformedAnswerError(this.#chain, this.name, method, this.#redact(problem))
  }

  pruned(height: Height, lowest: Height | null = null): HeightPrunedError {
    return new HeightPrunedError(this.#chain, this.name, height, lowest)
  }

  /** Fills in results; gives the failures by index. */
  async #callBatch(
    calls: readonly Call[],
    batch: readonly number[],
    results: unknown[],
    signal: AbortSignal,
  ): Promise<Map<number, CallFailure>> {
    const client = batch.length > 1 ? this.#batched : this.#single
    const failures = new Map<number, CallFailure>()
    const send = async (index: number): Promise<void> => {
      try {
        results[index] = await this.#send(client, calls[index] as Call, signal)
      } catch (error) {
        if (!(error instanceof CallFailure)) throw error
        failures.set(index, error)
      }
    }
    await this.#inTurn(batch.length, () => Promise.all(batch.map(send)), signal)
    return failures
  }

  /** Shrinks the batch or waits, as the failures want it; throws where asking again is of no use. */
  async #prepareAgain(
    failures: ReadonlyMap<number, CallFailure>,
    size: number,
    refusals: number,
    signal: AbortSignal,
  ): Promise<void> {
    const all = [...failures.values()]
    if (size > 1 && all.every(isBatchRefusal)) {
      this.#batchMax = Math.max(1, Math.floor(size / 2))
      return
    }
    const hopeless = all.find((failure) => !isWorthAskingAgain(failure)) ?? all[0]
    const mayWait =
      refusals < ITEM_ATTEMPTS_MAX && all.every((each) => isWorthAskingAgain(each) && !isWhole(each))
    if (!mayWait) throw hopeless
    await sleep(growingDelayMs(refusals, ITEM_RETRY), undefined, { signal })
  }

  /** One HTTP request, when it is its turn. Under a rate limit each call in it counts, as it does for those who set one. */
  async #inTurn<T>(calls: number, request: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const idle = async () => {}
    for (let more = 1; this.#limited && more < calls; more++) {
      this.#queue.add(idle, { signal }).catch(() => {}) // aborted, as the request itself is
    }
    try {
      return await this.#queue.add(request, { signal })
    } catch (error) {
      signal.throwIfAborted()
      throw error
    }
  }

  async #send(client: PublicClient, { method, params }: Call, signal: AbortSignal): Promise<unknown> {
    signal.throwIfAborted()
    try {
      // The result is `unknown` on purpose: viem's types say what a node should answer, not what it does.
      const request = client.request as (call: unknown, options: { signal: AbortSignal }) => Promise<unknown>
      return await request({ method, params }, { signal })
    } catch (error) {
      signal.throwIfAborted()
      throw readFailure(method, error, this.#redact)
    }
  }
}

/** The whole HTTP request was refused: the next endpoint is asked, rather than this one again. */
const isWhole = ({ facts }: CallFailure): boolean => facts.status !== null
