/*
 * Goal: the promises hold for real processes too: killed, frozen, started twice, with rewinds by the real command.
 * Method: one schedule of the seed's choice; `npm run simulate -- --processes` runs as many as wanted.
 */
import { expect, test } from 'vitest'
import { simulateProcesses } from './processes.js'

test('after a schedule of kills, freezes, forks and rewinds the tables are those of a fresh index', async () => {
  const { failure, schedule } = await simulateProcesses(3, 20)
  expect(failure, schedule.join('\n')).toBeNull()
})
