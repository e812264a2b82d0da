import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ChainOptions } from '@lockstep/config'
import { verifyChain } from '@lockstep/coordinator'
import { silentLogger } from '@lockstep/telemetry'
import { createSource } from '@lockstep/worker'
import { expect } from 'vitest'
import type { Stage } from '../worker/scene.js'

const DATA = process.env.LOCKSTEP_REAL_DATA ?? ''

/** Whether the recordings of that kind are there; says so where they are not. */
export function recorded(kind: 'evm' | 'cosmos' | 'reorg'): boolean {
  const there = DATA !== '' && existsSync(join(DATA, kind))
  if (!there) console.log(`LOCKSTEP_REAL_DATA has no ${kind} recordings: they are not replayed`)
  return there
}

export const recording = (...parts: readonly string[]): string => join(DATA, ...parts)

/**
 * Indexes a chain of any kind up to its end by a real worker, and proves by `lockstep verify` that what is stored is
 * what the node says. Nothing here asks what kind it is.
 */
export async function replay(stage: Stage, options: ChainOptions): Promise<void> {
  const worker = stage.work(options)
  const finished = async () => (await stage.status(options.chain))?.phase === 'finished'
  await stage.until(`${options.chain} to be finished`, finished, 170_000)
  await worker.stop()
  await expectVerified(stage, options)
}

/** `lockstep verify` finds nothing, over all blocks and events that are stored of the chain. */
export async function expectVerified(stage: Stage, options: ChainOptions): Promise<void> {
  const source = createSource(options, silentLogger())
  try {
    const verified = await verifyChain({ db: stage.db, source, options, from: null })
    expect(verified.problems).toEqual([])
    const [events] = await stage.list('select count(*) from event where chain = $1', [options.chain])
    expect(verified.events).toBe(events)
  } finally {
    await source.close()
  }
}
