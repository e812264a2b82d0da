import type { ChainKey } from '@lockstep/domain'
import { readTables } from '@lockstep/testkit'
import { heal } from './disturbances.js'
import { canonical, freshTables, lastHeight } from './fresh.js'
import { at } from './model-chain.js'
import { type Picture, takePicture } from './picture.js'
import { PromiseBroken } from './promises.js'
import type { RewindBook } from './rewind-book.js'
import { SCHEMA, type SimulatedServer } from './simulated-server.js'
import type { World } from './world.js'

/** Virtual time in which a deployment that nobody disturbs has to be done with everything. */
const PATIENCE_MS = 20 * 60_000
/** A guard against a circle in which no time passes. */
const TURNS_MAX = 60_000
/** How often, in virtual time, it is seen to that everybody is there. */
const LOOK_AGAIN_MS = 5000
/** How often the picture is looked at, in turns. */
const LOOK_EVERY = 25

/**
 * The environment stops disturbing and whatever died is started again: now every rewind must end by itself (promise 3),
 * and when all chains are at their heads the tables must be those of a fresh index (promise 1).
 */
export async function calmDown(
  world: World,
  server: SimulatedServer,
  book: RewindBook,
  failed: () => boolean,
): Promise<void> {
  const { scheduler } = world
  scheduler.log('-- quiet')
  scheduler.speeds.even()
  scheduler.book.noticeLoss = 0
  for (const process of world.living) {
    world.thaw(process)
    process.cutOffUntil = 0
  }
  for (const place of world.chains) {
    heal(place)
    place.model.outgrow()
  }
  for (const place of world.chains.filter(() => world.random.chance(0.15))) place.retired = true
  world.register(world.chains)
  const deadline = scheduler.now + PATIENCE_MS
  let look = scheduler.now
  for (let turn = 0; !failed(); turn++) {
    if (turn % LOOK_EVERY === 0) {
      const picture = await takePicture(server)
      if (isIdle(world, picture)) break
      if (scheduler.now > deadline || turn > TURNS_MAX) throw notDone(world, picture)
      if (scheduler.now >= look) {
        await startWhatIsMissing(world, server, picture)
        look = scheduler.now + LOOK_AGAIN_MS
      }
    }
    if (!(await scheduler.step(0))) throw notDone(world, await takePicture(server))
  }
  if (failed()) return
  await compareWithFresh(world, server)
  await book.check(server)
}

async function startWhatIsMissing(world: World, server: SimulatedServer, { paused }: Picture): Promise<void> {
  const { rows } = await server.observer.query<{ chain: ChainKey }>(
    `select chain from chain_status where phase = 'stopped'`,
  )
  for (const { model } of world.chains) {
    const worker = world.workerOf(model.chain)
    if (worker && rows.some(({ chain }) => chain === model.chain)) await world.kill(worker) // as who reads its advice
    const place = world.chains.find((each) => each.model === model)
    if (place && !place.retired && !world.workerOf(model.chain)) world.startWorker(place)
  }
  if (!world.coordinator) world.startCoordinator()
  if (paused && world.operators.size === 0) world.resume()
}

function isIdle(world: World, { lock, paused, chains, openRewinds }: Picture): boolean {
  if (lock !== null || paused || openRewinds.length > 0 || world.operators.size > 0) return false
  return world.chains.every(({ model, retired }) => {
    if (retired) return true
    const last = lastHeight(model)
    const expected = last === null ? null : at(model.head, last)
    return (
      chains.has(model.chain) &&
      (chains.get(model.chain)?.checkpoint?.hash ?? null) === (expected?.ref.hash ?? null)
    )
  })
}

function notDone(world: World, picture: Picture): PromiseBroken {
  const chains = world.chains.map(({ model }) => {
    const stored = picture.chains.get(model.chain)
    const own = stored?.own ? `, to rewind from ${stored.own.from}` : ''
    return `${model.chain} at ${stored?.checkpoint?.height ?? 'its start'} of ${lastHeight(model)}${own}`
  })
  const held = [picture.lock && 'a rewind runs', picture.paused && 'paused'].filter(Boolean).join(', ')
  return new PromiseBroken(
    'always released',
    `${[held, ...chains, ...picture.openRewinds].filter(Boolean).join('; ')}`,
  )
}

async function compareWithFresh(world: World, server: SimulatedServer): Promise<void> {
  const stored = await readTables({ url: server.url, schema: SCHEMA })
  const followed = world.chains.filter(({ retired }) => !retired).map(({ model }) => model)
  const fresh = freshTables(followed)
  const isFollowed = ({ chain }: { chain: ChainKey }) => followed.some((model) => model.chain === chain)
  for (const table of ['event', 'block', 'checkpoint'] as const) {
    const rows = (stored.get(table) ?? []).map((row) => JSON.parse(row) as { chain: ChainKey })
    const is = rows.filter(isFollowed).map((row) => JSON.stringify(canonical(row)))
    const should = fresh[table]
    const extra = is.find((row) => !should.includes(row))
    const missing = should.find((row) => !is.includes(row))
    if (is.length === should.length && extra === undefined && missing === undefined) continue
    throw new PromiseBroken(
      'same as fresh',
      `${table}: extra ${extra ?? 'none'}, missing ${missing ?? 'none'}`,
    )
  }
  world.scheduler.log(`-- same as fresh: ${fresh.event.length} events, ${fresh.block.length} blocks`)
}
