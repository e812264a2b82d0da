import type { ServedBlock, ServedChain } from './served-chain.js'

/** What one node shows of its chain. */
export class NodeView implements ServedChain {
  constructor(
    readonly chain: ServedChain,
    private readonly lowered: number,
    private readonly lowest: number,
    private readonly hidden: ReadonlySet<number>,
  ) {}

  get chainId(): number {
    return this.chain.chainId
  }

  get head(): ServedBlock {
    return (
      this.chain.at(Math.max(this.chain.first.number, this.chain.head.number - this.lowered)) ??
      this.chain.head
    )
  }

  get first(): ServedBlock {
    return this.chain.at(Math.max(this.lowest, this.chain.first.number)) ?? this.chain.first
  }

  get finalized(): number | null {
    return this.#lower(this.chain.finalized)
  }

  get safe(): number | null {
    return this.#lower(this.chain.safe)
  }

  at(height: number): ServedBlock | null {
    return this.#show(this.chain.at(height))
  }

  byHash(hash: string): ServedBlock | null {
    return this.#show(this.chain.byHash(hash))
  }

  byTransaction(txHash: string): ServedBlock | null {
    return this.#show(this.chain.byTransaction(txHash))
  }

  onBlock(listener: (block: ServedBlock) => void): () => void {
    return this.chain.onBlock(listener)
  }

  snapshot(): ServedChain {
    return new NodeView(this.chain.snapshot(), this.lowered, this.lowest, this.hidden)
  }

  #lower(height: number | null): number | null {
    return height === null || height - this.lowered < this.chain.first.number ? null : height - this.lowered
  }

  #show(block: ServedBlock | null): ServedBlock | null {
    if (block === null || block.number > this.head.number || block.number < this.lowest) return null
    return this.hidden.has(block.number) ? null : block
  }
}
