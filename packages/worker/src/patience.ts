import type { ChainSource } from '@lockstep/domain'
import { WriteRefusedError } from '@lockstep/domain'
import { readRewindState } from '@lockstep/store'
import type { WorkerOptions } from './worker-options.js'

/*
 * How long a worker waits for anything: until a rewind or a pause is asked for. A node that hangs, or a quiet chain,
 * must not hold up all others; and since a notification may be lost, the rows are read at every `rewind.pollMs`.
 */

/**
 * The chain's nodes, whose answers are not waited for once a rewind or pause is asked for: the call then rejects with
 * `WriteRefusedError`, as the write would that it was made for.
 *
 * @param heard the listener's count from before the rewind state was read
 */
export const untilRewound = (worker: WorkerOptions, heard: number): ChainSource =>
  interruptibleSource(worker, heard, worker.source)

function interruptibleSource(worker: WorkerOptions, heard: number, source: ChainSource): ChainSource {
  return {
    chain: source.chain,
    check: (signal) => interruptible(worker, heard, signal, (each) => source.check(each)),
    tip: (signal) => interruptible(worker, heard, signal, (each) => source.tip(each)),
    header: (height, signal) => interruptible(worker, heard, signal, (each) => source.header(height, each)),
    block: (height, signal) => interruptible(worker, heard, signal, (each) => source.block(height, each)),
    range: (from, to, signal) => interruptible(worker, heard, signal, (each) => source.range(from, to, each)),
    asking: (wish) => interruptibleSource(worker, heard, source.asking(wish)),
    blockOfTransaction: (txHash, signal) =>
      interruptible(worker, heard, signal, (each) => source.blockOfTransaction(txHash, each)),
    onHead: (listener) => source.onHead(listener),
    trouble: () => source.trouble(),
    close: () => source.close(),
  }
}

async function interruptible<T>(
  worker: WorkerOptions,
  heard: number,
  signal: AbortSignal | undefined,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const abort = new AbortController()
  const answer = call(signal ? AbortSignal.any([signal, abort.signal]) : abort.signal).then((value) => ({
    value,
  }))
  answer.catch(() => {}) // an answer that fails after it was dropped concerns nobody
  try {
    for (let since = heard; ; ) {
      const woken = worker.listener.wait(since, worker.rewind.pollMs, abort.signal).then(() => null)
      const result = await Promise.race([answer, woken])
      if (result !== null) return result.value
      since = worker.listener.heard
      const { lock, pause } = await worker.db.transaction(readRewindState)
      if (lock || pause) throw new WriteRefusedError(lock ? 'rewind' : 'pause')
    }
  } finally {
    abort.abort()
  }
}

/** Rests for `ms`, but no longer than until a rewind or pause is asked for. */
export async function rest(
  worker: WorkerOptions,
  heard: number,
  ms: number,
  signal: AbortSignal,
): Promise<void> {
  const until = performance.now() + ms
  for (let since = heard; !signal.aborted; ) {
    const left = until - performance.now()
    if (left <= 0) return
    await worker.listener.wait(since, Math.min(left, worker.rewind.pollMs), signal)
    since = worker.listener.heard
    if (await isHeld(worker)) return
  }
}

/** A database that does not answer is the next step's trouble. */
const isHeld = (worker: WorkerOptions): Promise<boolean> =>
  worker.db.transaction(readRewindState).then(
    ({ lock, pause }) => lock !== null || pause !== null,
    () => false,
  )
