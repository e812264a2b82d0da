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

  pass(): Promise<void> {
    this.#arrive()
    return this.#opened
  }

  open(): void {
    this.#open()
  }
}
