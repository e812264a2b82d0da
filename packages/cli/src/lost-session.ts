import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseUnavailableError } from '@lockstep/domain'

/** Some two seconds in all: a server that ended one session takes the next; one that is down is told soon. */
const PAUSES_MS: readonly number[] = [100, 500, 1500]

/**
 * Runs work that may be run twice, and again where the database was lost under it: a server ends sessions for passing
 * reasons (its own time-outs on a busy machine, a failover), and none of them is a reason to leave an operator without
 * an answer in the middle of a rewind.
 */
export async function againWhereLost<T>(work: () => Promise<T>): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof DatabaseUnavailableError)) throw error
      await sleep(pauseMs)
    }
  }
  return work()
}
