/**
 * Goal: while a rewind runs, a chain that others wait for tells what its worker does, not more than is known of it.
 * Method: the rows of one chain, described without a database.
 */
import { chainKey, height, type TimeUs } from '@lockstep/domain'
import type { ChainStatus, RewindState } from '@lockstep/store'
import { expect, test } from 'vitest'
import { describeChain } from './describe-status.js'

const alpha = chainKey('alpha')
const lock = { rewindId: '566f151d-0000-4000-8000-000000000000', timestamp: 0n as TimeUs }
const row = { ...lock, chain: alpha, from: height(5), forkFrom: null, cutHint: null, generation: 1 }
const rewinding: RewindState = { lock, pause: null, waitingFor: [row], epoch: 1 }

const status: ChainStatus = {
  chain: alpha,
  phase: 'live',
  reason: null,
  headHeight: height(9),
  headTime: null,
  finalizedHeight: null,
  endHeight: null,
  blocksPerSecond: null,
  eventsPerSecond: null,
  backfillBlocksPerSecond: null,
  checkpointHeight: height(9),
  checkpointTime: null,
  startHeight: height(0),
  worker: 'holder',
  reportAgeSeconds: 0,
}

test.each<[phase: ChainStatus['phase'], worker: string | null, reason: string]>([
  ['live', 'holder', 'its worker has not begun'],
  ['rewinding', 'holder', 'its worker removes'],
  ['live', null, 'it has no worker; others carry it out'],
])('a chain whose worker was last %s (%s): %s', (phase, worker, reason) => {
  expect(describeChain({ ...status, phase, worker }, rewinding, 0n as TimeUs)).toMatchObject({
    phase: 'rewinding',
    reason,
  })
})
