/*
 * What the simulation itself needs of real time, taken before the simulated processes get theirs exchanged.
 */

const realImmediate = setImmediate
const realTimeout = setTimeout
const realClear = clearTimeout

/** Real milliseconds after which a statement is asked whether it waits for a lock: most have ended by then. */
const MOMENT_MS = 3

/** All that is ready to run in this Node process has run. */
export const drain = (): Promise<void> => new Promise((resolve) => realImmediate(resolve))

/** Until all of them have ended, or a moment has passed. */
export async function soon(ended: readonly Promise<void>[]): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const moment = new Promise<void>((resolve) => {
    timer = realTimeout(resolve, MOMENT_MS)
  })
  await Promise.race([Promise.all(ended), moment])
  realClear(timer)
}
