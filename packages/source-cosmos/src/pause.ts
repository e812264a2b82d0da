import { setTimeout as sleep } from 'node:timers/promises'

/** Waits; rejects at once with the signal's own reason where it is aborted. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, signal === undefined ? {} : { signal })
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  }
}
