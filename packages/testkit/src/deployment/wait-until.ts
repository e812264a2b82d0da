import { setTimeout as sleep } from 'node:timers/promises'

/** Asks again until the answer is neither null nor false. @throws Error that names `what` after `timeoutMs` */
export async function waitUntil<T>(
  what: string,
  ask: () => Promise<T | null | false> | T | null | false,
  timeoutMs = 60_000,
  everyMs = 50,
): Promise<T> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const answer = await ask()
    if (answer !== null && answer !== false) return answer
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`)
    await sleep(everyMs)
  }
}
