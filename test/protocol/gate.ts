/** Far longer than anything takes that a test does while somebody stands at a gate: for tests that have failed. */
const FORGOTTEN_MS = 60_000

/** Holds whoever comes to it until it is opened; from then on everybody passes. */
export class Gate {
  /** Resolves when somebody has come. */
  readonly reached: Promise<void>
  readonly #opened: Promise<void>
  #arrive: () => void = () => {}
  #open: () => void = () => {}

  constructor() {
    this.reached = new Promise((resolve) => {
      this.#arrive = resolve
    })
    this.#opened = new Promise((resolve) => {
      this.#open = resolve
    })
  }

  /** @throws Error where nobody opens it: so that what waits here ends with a test that failed meanwhile */
  async pass(): Promise<void> {
    this.#arrive()
    let timer: NodeJS.Timeout | undefined
    const forgotten = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('nobody opened the gate')), FORGOTTEN_MS)
    })
    await Promise.race([this.#opened, forgotten])
    clearTimeout(timer)
  }

  open(): void {
    this.#open()
  }
}
