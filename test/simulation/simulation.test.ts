/*
 * Goal: the promises of docs/design.md hold whatever the order of events; and a seed replays exactly, so that what it
 * finds can be looked at.
 * Method: the simulation of this folder: whole deployments in one process, on a real PostgreSQL, under one scheduler.
 * A few seeds here; `npm run simulate` runs as many as wanted.
 */
import { createTestDatabase } from '@lockstep/testkit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SEEDS } from './seeds.js'
import { prepareDatabase, simulate } from './simulate.js'
import { SimulatedServer } from './simulated-server.js'

let database: Awaited<ReturnType<typeof createTestDatabase>>
let server: SimulatedServer

beforeAll(async () => {
  database = await createTestDatabase({ name: 'simulation' })
  await prepareDatabase(database.url)
  server = await SimulatedServer.open(database.url)
})

afterAll(async () => {
  await server?.close()
  await database?.drop()
})

describe('every promise holds', () => {
  test.each([101, 102, 103, 104])('with seed %i', async (seed) => {
    expect((await simulate(server, { seed, steps: 40 })).failure).toBeNull()
  })

  test.each(SEEDS)('with seed $seed, which found: $found', async ({ seed, steps }) => {
    expect((await simulate(server, { seed, steps })).failure).toBeNull()
  })
})

test('a seed replays exactly', async () => {
  const once = await simulate(server, { seed: 107, steps: 25 })
  const again = await simulate(server, { seed: 107, steps: 25 })
  const other = await simulate(server, { seed: 108, steps: 25 })
  expect(again.trace).toEqual(once.trace)
  expect(again.digest).toBe(once.digest)
  expect(other.digest).not.toBe(once.digest)
})
