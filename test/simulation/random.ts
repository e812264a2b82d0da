/** Numbers that depend on a seed alone (sfc32, seeded by splitmix32). */
export class Random {
  #a: number
  #b: number
  #c: number
  #counter = 1

  constructor(seed: number | string) {
    const next = splitmix32(typeof seed === 'number' ? seed >>> 0 : hash32(seed))
    this.#a = next()
    this.#b = next()
    this.#c = next()
    for (let warm = 0; warm < 12; warm++) this.#next32()
  }

  /** From 0 up to, but not including, 1. */
  next(): number {
    return this.#next32() / 2 ** 32
  }

  /** An integer from 0 up to, but not including, `n`. */
  below(n: number): number {
    return Math.floor(this.next() * n)
  }

  /** An integer from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(items: readonly [T, ...T[]] | readonly T[]): T {
    return items[this.below(items.length)] as T
  }

  /** One of the items, each as probable as its weight; null where all weigh nothing. */
  weighted<T>(items: readonly T[], weightOf: (item: T) => number): T | null {
    let rest = this.next() * items.reduce((sum, item) => sum + weightOf(item), 0)
    for (const item of items) {
      rest -= weightOf(item)
      if (rest < 0) return item
    }
    return null
  }

  /** Lower-case hex digits. */
  hex(digits: number): string {
    let text = ''
    while (text.length < digits) text += this.#next32().toString(16).padStart(8, '0')
    return text.slice(0, digits)
  }

  #next32(): number {
    const t = (this.#a + this.#b + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + t
    return t >>> 0
  }
}

function splitmix32(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x9e3779b9) | 0
    let t = state ^ (state >>> 16)
    t = Math.imul(t, 0x21f0aaad)
    t ^= t >>> 15
    t = Math.imul(t, 0x735a2d97)
    return (t ^ (t >>> 15)) | 0
  }
}

/** FNV-1a. */
function hash32(text: string): number {
  let hash = 0x811c9dc5
  for (const char of text) hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193)
  return hash >>> 0
}
