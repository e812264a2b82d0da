import type { Height } from './scalars.js'

/** A child and the block that it is indexed from. */
export interface KnownChild {
  readonly contract: string
  readonly address: string
  readonly height: Height
}

/**
 * The children of a chain's factories that its facts tell of. Belongs to a checkpoint: after going back it is read anew
 * from the database, never taken back in memory.
 */
export class KnownChildren {
  readonly #starts = new Map<string, Map<string, Height>>()

  constructor(children: Iterable<KnownChild> = []) {
    for (const child of children) this.add(child)
  }

  /** Told of twice, a child counts from the lower block on. */
  add({ contract, address, height }: KnownChild): void {
    const starts = this.#starts.get(contract) ?? new Map<string, Height>()
    this.#starts.set(contract, starts)
    const known = starts.get(address)
    if (known === undefined || height < known) starts.set(address, height)
  }

  /** The block it is indexed from; null: no such child. */
  startOf(contract: string, address: string): Height | null {
    return this.#starts.get(contract)?.get(address) ?? null
  }

  /** In the order in which they became known. */
  addressesOf(contract: string): string[] {
    return [...(this.#starts.get(contract)?.keys() ?? [])]
  }

  /** These and more, as a copy: while a range is read, its own children come on top. */
  with(more: Iterable<KnownChild>): KnownChildren {
    const all = new KnownChildren(more)
    for (const [contract, starts] of this.#starts)
      for (const [address, height] of starts) all.add({ contract, address, height })
    return all
  }
}
