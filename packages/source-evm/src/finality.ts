import type { EvmChainOptions, FinalityTag } from '@lockstep/config'
import { type ChainTip, type Height, height } from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { CallFailure } from './call-failure.js'
import type { Endpoint } from './endpoint.js'
import { isWorthAskingAgain } from './judge-failure.js'
import { parseHeader } from './parse-header.js'

const METHOD = 'eth_getBlockByNumber'

/**
 * Head and finalized height. What was final stays so: a node that is behind, a tag that fails for once or a head
 * that fell does not lower it.
 *
 * Where a depth stands beside the tag it serves until the tag is answered for the first time, by any node of the
 * chain: from then on the chain is known to have the tag, and a depth that says more than it did would make final
 * what the chain may still take back.
 */
export class FinalityReader {
  #greatest: Height | null = null
  #warned = false
  /** Whether the tag was ever answered with a block. */
  #tagServes = false

  constructor(
    private readonly options: EvmChainOptions,
    private readonly logger: Logger,
  ) {}

  async readTip(node: Endpoint, scope: AbortSignal): Promise<ChainTip> {
    const { finality } = this.options
    const [latest, tagged] = await Promise.all([
      node.call({ method: METHOD, params: ['latest', false] }, scope),
      finality.by === 'depth' ? null : this.#readTag(node, finality.tag, scope),
    ])
    const head = parseHeader(node, METHOD, latest).ref
    this.#raise(tagged ?? this.#byDepth(head.height))
    return { head, finalized: this.#greatest }
  }

  #byDepth(head: Height): number | null {
    const { finality } = this.options
    return finality.by === 'tag' || this.#tagServes ? null : head - finality.depth
  }

  #raise(candidate: number | null): void {
    if (candidate === null || candidate < 0) return
    if (this.#greatest === null || candidate > this.#greatest) this.#greatest = height(candidate)
  }

  /**
   * Null where the node refuses the tag or has no such block yet. Other failures are the node's, and so is that it
   * has no time for us: whether it knows the tag is then still open.
   */
  async #readTag(node: Endpoint, tag: FinalityTag, scope: AbortSignal): Promise<Height | null> {
    try {
      const answer = await node.call({ method: METHOD, params: [tag, false] }, scope)
      if (answer !== null) {
        this.#tagServes = true
        return parseHeader(node, METHOD, answer).ref.height
      }
      this.#warnOnce(node, tag, 'it has no such block')
    } catch (error) {
      if (!(error instanceof CallFailure) || error.facts.code === null || isWorthAskingAgain(error))
        throw error
      this.#warnOnce(node, tag, error.reason)
    }
    return null
  }

  #warnOnce(node: Endpoint, tag: FinalityTag, reason: string): void {
    if (this.#warned) return
    this.#warned = true
    const { chain, finality } = this.options
    const depth = finality.by === 'both' && !this.#tagServes ? finality.depth : null
    const fields = { chain, endpoint: node.name, tag, reason, ...(depth !== null && { depthInstead: depth }) }
    this.logger.warn(fields, 'finality tag was not answered')
  }
}
