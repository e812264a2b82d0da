import { formatTimeShort } from '@lockstep/domain'
import type { RewindState } from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'

/** "Every few seconds", for a person who watches. */
const LINE_MS = 3000

/** Says when a pause begins, whom it waits for, and when it ends. */
export class PauseLog {
  #since: number | null = null
  #nextLine = 0
  #rewindId: string | null = null

  constructor(readonly logger: Logger) {}

  /** @returns what is waited for, for the chain's status */
  tick(state: RewindState): string {
    const now = Date.now()
    const waitingFor = state.waitingFor.map((row) => row.chain)
    const rewindId = state.lock?.rewindId ?? null
    if (this.#since === null || rewindId !== this.#rewindId) {
      this.#since ??= now
      this.#rewindId = rewindId
      this.#nextLine = now + LINE_MS
      this.logger.info({ ...fields(state), waitingFor }, 'fetching was paused')
    } else if (now >= this.#nextLine) {
      this.#nextLine = now + LINE_MS
      this.logger.info(
        { ...fields(state), waitingFor, pausedSeconds: Math.round((now - this.#since) / 1000) },
        'fetching is still paused',
      )
    }
    return state.lock
      ? `rewind ${state.lock.rewindId}: waiting for ${waitingFor.join(', ')}`
      : `paused by ${state.pause?.who}`
  }

  /** 0 while nothing is paused. */
  get pausedMs(): number {
    return this.#since === null ? 0 : Date.now() - this.#since
  }

  end(): void {
    if (this.#since === null) return
    this.logger.info({ rewindId: this.#rewindId, pausedMs: Date.now() - this.#since }, 'fetching was resumed')
    this.#since = null
    this.#rewindId = null
  }
}

const fields = ({ lock, pause }: RewindState): Record<string, unknown> =>
  lock
    ? { rewindId: lock.rewindId, to: formatTimeShort(lock.timestamp) }
    : { pausedBy: pause?.who ?? null, reason: pause?.reason ?? null }
