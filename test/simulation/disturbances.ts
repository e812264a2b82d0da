import type { TimeUs } from '@lockstep/domain'
import { branch } from './model-chain.js'
import type { NodeState } from './model-source.js'
import type { Random } from './random.js'
import type { SimulatedProcess } from './simulated-process.js'
import type { ChainPlace, World } from './world.js'

/** What the environment, and the people in it, can do. Each returns what it did, or null where it could not. */
type Disturb = (world: World, random: Random) => string | null | Promise<string | null>

interface Disturbance {
  readonly name: string
  /** How often, beside the others. */
  readonly weight: number
  readonly disturb: Disturb
}

const DISTURBANCES: readonly Disturbance[] = [
  { name: 'extend', weight: 14, disturb: extend },
  { name: 'fork', weight: 6, disturb: fork },
  { name: 'node', weight: 4, disturb: changeNode },
  { name: 'rewind', weight: 8, disturb: rewind },
  { name: 'cancel', weight: 1.5, disturb: cancel },
  { name: 'again', weight: 1.5, disturb: again },
  { name: 'pause', weight: 0.8, disturb: pause },
  { name: 'resume', weight: 3, disturb: resume },
  { name: 'kill', weight: 5, disturb: kill },
  { name: 'freeze', weight: 5, disturb: freeze },
  { name: 'sleeper', weight: 2, disturb: sleeper },
  { name: 'leave', weight: 1, disturb: leave },
  { name: 'second worker', weight: 2, disturb: secondWorker },
  { name: 'cut session', weight: 4, disturb: cutSession },
  { name: 'lose answer', weight: 4, disturb: loseAnswer },
  { name: 'cut off', weight: 1.5, disturb: cutOff },
  { name: 'cut listeners', weight: 2, disturb: cutListeners },
  { name: 'retire', weight: 0.4, disturb: retire },
  { name: 'register', weight: 0.6, disturb: register },
  { name: 'coordinator', weight: 2, disturb: startCoordinator },
  { name: 'time', weight: 6, disturb: passTime },
  { name: 'speeds', weight: 8, disturb: shuffleSpeeds },
]

/**
 * Each seed has a mixture of its own: some disturbances often, some never. One that has everything at once hides what
 * needs two of a kind in a row.
 */
export function mixtureOf(random: Random): (world: World) => Promise<void> {
  const mixture = DISTURBANCES.map((each) => ({
    ...each,
    weight: each.weight * (random.chance(0.25) ? 0 : random.pick([0.3, 1, 1, 3])),
  }))
  return async (world) => {
    const chosen = world.random.weighted(mixture, (each) => each.weight) ?? mixture[0]
    await world.scheduler.settle()
    const what = await chosen?.disturb(world, world.random)
    if (what != null) world.scheduler.log(`-- ${chosen?.name}: ${what}`)
  }
}

const CHAIN_HEIGHT_MAX = 70

function extend({ chains }: World, random: Random): string | null {
  const { model } = random.pick(chains)
  if (model.head.ref.height > CHAIN_HEIGHT_MAX) return null
  model.extend(random.pick([1, 1, 1, 2, 3, 10]))
  return `${model.chain} to ${model.head.ref.height}`
}

function fork({ chains }: World, random: Random): string | null {
  const { model } = random.pick(chains)
  if (random.chance(0.15)) {
    model.forkBack()
    return `${model.chain} back to the branch it had left, at ${model.head.ref.height}`
  }
  const depth = Math.min(random.pick([1, 1, 2, 3, 5, 9]), model.depthMax)
  if (depth === 0) return null
  model.fork(depth, Math.max(0, depth + random.pick([-1, 0, 1, 1, 3])))
  return `${model.chain} by ${depth}, to ${model.head.ref.height}`
}

function changeNode({ chains, scheduler }: World, random: Random): string {
  const { node, model } = random.pick(chains)
  const states: NodeState[] = [
    { is: 'well' },
    { is: 'well' },
    { is: 'down' },
    { is: 'hanging', until: scheduler.now + random.pick([500, 4000, 20_000]) },
    { is: 'behind', by: random.between(1, 12) },
    { is: 'stale' },
    { is: 'forgetful' },
    { is: 'malformed' },
    { is: 'pruned', keeps: random.between(0, 10) },
    { is: 'of another chain' },
  ]
  node.state = random.pick(states)
  return `${model.chain} is ${node.state.is}`
}

function rewind(world: World, random: Random): string {
  const timestamp =
    random.chance(0.3) && world.lastMoment !== null ? world.lastMoment : momentOf(world, random)
  const hold = random.chance(0.1)
  const follow = random.chance(0.4)
  world.requestRewind({ timestamp, reason: null, who: 'operator', ...(hold && { hold }) }, follow)
  const again = random.chance(0.2)
  if (again) world.scheduler.after(null, random.pick([5, 15, 40]), () => world.cancelAndAskAgain())
  return `to ${timestamp}${hold ? ', held' : ''}${follow ? ', followed' : ''}${again ? ', and then again' : ''}`
}

/** Mostly a moment near a head; of a block, or just beside it. */
function momentOf({ chains }: World, random: Random): TimeUs {
  const { model } = random.pick(chains)
  const blocks = branch(model.head, 0)
  const back = random.chance(0.85) ? random.below(Math.min(12, blocks.length)) : random.below(blocks.length)
  const time = blocks[blocks.length - 1 - back]?.ref.time ?? model.head.ref.time
  return (time + random.pick([0n, 0n, 0n, -1n, 1n])) as TimeUs
}

function cancel(world: World): string {
  world.cancelRewind()
  return 'asked for'
}

function again(world: World): string {
  world.cancelAndAskAgain()
  return 'cancelled, and asked for with the same T'
}

function pause(world: World): string {
  world.pause()
  return 'asked for'
}

function resume(world: World): string {
  world.resume()
  return 'asked for'
}

async function kill(world: World, random: Random): Promise<string | null> {
  const victim = pickLiving(world, random)
  if (victim === null) return null
  const chain = world.workers.get(victim)
  await world.kill(victim)
  if (random.chance(0.4)) world.surrenderLeasesOf(victim)
  if (chain !== undefined && random.chance(0.8)) world.restartLater(chain)
  return victim.name
}

function freeze(world: World, random: Random): string | null {
  const victim = pickLiving(world, random)
  if (victim === null || victim.frozen) return null
  const lease = world.options.leaseMs
  world.freeze(victim, random.pick([50, lease / 2, lease * 1.1, lease * 3, lease * 8]), random.chance(0.4))
  return victim.name
}

/** A worker sleeps past its lease, and its successor gets no further than it did: only the token tells them apart. */
async function sleeper(world: World, random: Random): Promise<string | null> {
  const victim = random.pick(livingWorkers(world).filter((worker) => !worker.frozen))
  const place = world.chains.find(({ model }) => victim && model.chain === world.workers.get(victim))
  if (victim === undefined || place === undefined) return null
  const { leaseMs } = world.options
  const { now } = world.scheduler
  world.freeze(victim, leaseMs * 1.6, false)
  place.node.state = { is: 'hanging', until: now + leaseMs * 1.8 }
  world.startWorker(place)
  for (let turn = 0; turn < 200 && world.scheduler.now < now + leaseMs * 1.6; turn++)
    await world.scheduler.step(0.3)
  return victim.name
}

function leave(world: World, random: Random): string | null {
  const worker = random.pick(livingWorkers(world))
  if (worker === undefined) return null
  world.stop(worker)
  return worker.name
}

function secondWorker(world: World, random: Random): string {
  return world.startWorker(random.pick(world.chains)).name
}

async function cutSession(world: World, random: Random): Promise<string | null> {
  const session = random.pick(world.living.flatMap((process) => world.scheduler.sessionsOf(process)))
  if (session === undefined) return null
  await world.scheduler.cutSession(session)
  return `of ${session.process.name}`
}

async function loseAnswer(world: World, random: Random): Promise<string | null> {
  const session = random.pick(world.living.flatMap((process) => world.scheduler.sessionsOf(process)))
  if (session === undefined) return null
  await world.scheduler.cutAnswer(session)
  return `to ${session.process.name}`
}

function cutOff(world: World, random: Random): string | null {
  const victim = pickLiving(world, random)
  if (victim === null) return null
  victim.cutOffUntil = world.scheduler.now + random.pick([300, 2000, 12_000])
  return victim.name
}

async function cutListeners({ scheduler }: World, random: Random): Promise<string> {
  scheduler.book.noticeLoss = random.pick([0, 0, 0.3, 1])
  for (const listening of [...scheduler.book.listening]) await listening.end()
  return `from now on ${scheduler.book.noticeLoss} of the notices are lost`
}

function retire(world: World, random: Random): string {
  const place = random.pick(world.chains)
  place.retired = !place.retired
  if (!place.retired) world.restartLater(place.model.chain)
  for (const worker of livingWorkers(world)) {
    if (place.retired && world.workers.get(worker) === place.model.chain) world.stop(worker)
  }
  return `${place.model.chain} ${place.retired ? 'left' : 'came back into'} the config`
}

function register(world: World): string {
  world.register(world.chains)
  return 'again, as each start does'
}

function startCoordinator(world: World): string | null {
  if (world.coordinator) return null
  world.startCoordinator()
  return 'started'
}

function shuffleSpeeds(world: World): null {
  world.scheduler.speeds.shuffle(world.living)
  return null
}

/** Mostly little time passes between two steps; leases and time-outs end where much does. */
async function passTime({ scheduler, options }: World, random: Random): Promise<string> {
  const until = scheduler.now + options.leaseMs * random.pick([0.2, 0.6, 1.2, 3])
  for (let turn = 0; turn < 150 && scheduler.now < until; turn++) await scheduler.step(0.3)
  return 'has passed'
}

const livingWorkers = (world: World): SimulatedProcess[] =>
  [...world.workers.keys()].filter((process) => process.alive)

const pickLiving = (world: World, random: Random): SimulatedProcess | null => {
  const living = world.living
  return living.length === 0 ? null : random.pick(living)
}

/** Nothing is the matter any more. */
export function heal(place: ChainPlace): void {
  place.node.state = { is: 'well' }
  place.retired = false
}
