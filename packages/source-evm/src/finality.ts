import type { EvmChainOptions } from '@lockstep/config'
import { type ChainTip, type Height, height } from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { CallFailure } from './call-failure.js'
import type { Endpoint } from './endpoint.js'
import { parseHeader } from './parse-header.js'

const METHOD = 'eth_getBlockByNumber'

/**
 * Head and finalized height. What was final stays so: a node that is behind, a tag that fails for once or a head
 * that fell does not lower it.
 */
export class FinalityReader {
  #greatest: Height | null = null
  #warned = false

  constructor(
    private readonly options: EvmChainOptions,
    private readonly logger: Logger,
  ) {}

  async readTip(node: Endpoint, scope: AbortSignal): Promise<ChainTip> {
    const { finality } = this.options
    const [latest, finalized] = await Promise.all([
      node.call({ method: METHOD, params: ['latest', false] }, scope),
      finality.by === 'tag' ? this.#readTag(node, finality.tag, scope) : null,
    ])
    const head = parseHeader(node, METHOD, latest).ref
    this.#raise(finality.by === 'depth' ? head.height - finality.depth : finalized)
    return { head, finalized: this.#greatest }
  }

  #raise(candidate: number | null): void {
    if (candidate === null || candidate < 0) return
    if (this.#greatest === null || candidate > this.#greatest) this.#greatest = height(candidate)
  }

  /** Null where the node refuses the tag or has no such block yet; other failures are the node's. */
  async #readTag(node: Endpoint, tag: string, scope: AbortSignal): Promise<Height | null> {
    try {
      const answer = await node.call({ method: METHOD, params: [tag, false] }, scope)
      if (answer !== null) return parseHeader(node, METHOD, answer).ref.height
      this.#warnOnce(node, tag, 'it has no such block')
    } catch (error) {
      if (!(error instanceof CallFailure) || error.facts.code === null) throw error
      this.#warnOnce(node, tag, error.reason)
    }
    return null
  }

  #warnOnce(node: Endpoint, tag: string, reason: string): void {
    if (this.#warned) return
    this.#warned = true
    const { chain } = this.options
    this.logger.warn({ chain, endpoint: node.name, tag, reason }, 'finality tag was not answered')
  }
}
