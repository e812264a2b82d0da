import type { ChainKey, Height } from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'

/** What logs were seen to lack. */
type LogOddity = 'no transaction index' | 'no transaction hash' | 'transaction not listed in its block'

/** What of a chain's answers is lived with. One warning for each kind: a chain that has it has it in every block. */
export class OddityLog {
  readonly #warned = new Set<string>()

  constructor(
    private readonly chain: ChainKey,
    private readonly logger: Logger,
  ) {}

  keptLog(oddity: LogOddity, height: Height): void {
    this.#warnOnce(oddity, 'odd log was kept', height)
  }

  /** No receipts and no other endpoint told whether a block without logs has none. */
  acceptedUnconfirmed(height: Height): void {
    this.#warnOnce(
      'no logs where the bloom filter may hold some',
      'empty answer was accepted unconfirmed',
      height,
    )
  }

  #warnOnce(oddity: string, message: string, height: Height): void {
    if (this.#warned.has(oddity)) return
    this.#warned.add(oddity)
    this.logger.warn({ chain: this.chain, height, oddity }, message)
  }
}
