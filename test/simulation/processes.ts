import { setTimeout as sleep } from 'node:timers/promises'
import { formatTime, parseTime, type TimeUs, timeFromSeconds } from '@lockstep/domain'
import {
  addressOf,
  type BlockWish,
  type CometBlockScript,
  type Program,
  SimulatedCometChain,
  SimulatedCometNode,
  SimulatedEvmNode,
  transferLog,
  waitUntil,
} from '@lockstep/testkit'
import type { TestChain } from '../e2e/kit/chains.js'
import { Project } from '../e2e/kit/project.js'
import { Random } from './random.js'

/*
 * The other kind of simulation: real processes (`lockstep worker`, `lockstep rewind`) on a real PostgreSQL and on
 * nodes over HTTP. The seed gives the schedule: who is killed, frozen or started, which chain forks, and what is asked
 * for, when. What comes of it in between is left to the machine, so a seed repeats its schedule, not its outcome.
 */

export interface ScheduleResult {
  readonly seed: number
  readonly schedule: readonly string[]
  readonly seconds: number
  /** What was not as it should be; null: all promises held. */
  readonly failure: string | null
}

const LEASE_MS = 4000
const SETTINGS = {
  lease: { time: `${LEASE_MS}ms` },
  rewind: { pollInterval: '300ms', searchTimeout: '2s', writeTimeout: '1s', takeOverAfter: '6s' },
}
/** A shared machine may be very slow; this is against hangs. */
const PATIENCE_MS = 240_000
const TOKEN = addressOf(0x70)
const ORIGIN_SECONDS = 1_700_000_000

/** A chain that grows and forks, however it is served. */
interface GrowingChain extends TestChain {
  readonly head: () => number
  readonly headTime: () => TimeUs
  extend(random: Random, count: number): void
  /** By `depth`, to one block more than it had. */
  fork(random: Random, depth: number): void
}

/** @param stop ends the run early; its processes, nodes and folder are taken down all the same */
export async function simulateProcesses(
  seed: number,
  steps: number,
  stop: AbortSignal = new AbortController().signal,
): Promise<ScheduleResult> {
  const startedAt = Date.now()
  const run = new ProcessRun(seed)
  let failure: string | null = null
  try {
    await run.start() // waited for also when it is to end: what is half made could not be taken down
    failure = await Promise.race([run.play(steps), aborted(stop)])
  } catch (error) {
    failure = (error as Error).message
  } finally {
    await run.end()
  }
  return { seed, schedule: run.schedule, seconds: (Date.now() - startedAt) / 1000, failure }
}

const aborted = (signal: AbortSignal): Promise<string> =>
  new Promise((resolve) => {
    const end = (): void => resolve('ended from outside')
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
  })

class ProcessRun {
  readonly schedule: string[] = []
  readonly #random: Random
  readonly #workers = new Map<string, Program>()
  readonly #frozen = new Set<Program>()
  readonly #commands: Promise<unknown>[] = []
  readonly #endings: Promise<void>[] = []
  readonly #problems: string[] = []
  #chains: GrowingChain[] = []
  #project: Project | null = null
  /** Nothing is started any more: what `play` still does after an early end comes to nothing. */
  #over = false

  constructor(readonly seed: number) {
    this.#random = new Random(`${seed}/processes`)
  }

  async start(): Promise<void> {
    const random = this.#random
    this.#chains = [
      await evmChain('alpha', 1001, random.pick([3, 12]), random),
      await evmChain('beta', 1002, random.pick([1, 6]), random),
      await cometChain('gamma', random),
    ]
    const onFork = random.pick(['rollback', 'rewind'])
    this.#project = await Project.create(this.#chains, { settings: { ...SETTINGS, onFork } })
    await this.#project.succeed(['migrate'])
    for (const { name } of this.#chains) this.#startWorker(name)
    await sleep(random.pick([300, 1500]))
  }

  async play(steps: number): Promise<string | null> {
    for (let step = 0; step < steps; step++) await this.disturb()
    return this.compareAfterQuiet()
  }

  async disturb(): Promise<void> {
    const random = this.#random
    const chain = random.pick(this.#chains)
    const act = random.weighted(ACTS, (each) => each.weight) ?? ACTS[0]
    const what = act?.act(this, chain, random)
    this.schedule.push(`${act?.name} ${chain.name}${what ? ` ${what}` : ''}`)
    await sleep(random.pick([0, 20, 100, 300, 700]))
  }

  kill(name: string): void {
    const worker = this.#workers.get(name)
    worker?.kill('SIGKILL')
    if (worker) this.#frozen.delete(worker)
    this.#workers.delete(name)
  }

  freeze(name: string): void {
    const worker = this.#workers.get(name)
    worker?.kill('SIGSTOP')
    if (worker) this.#frozen.add(worker)
  }

  thaw(): void {
    for (const worker of this.#frozen) worker.kill('SIGCONT')
    this.#frozen.clear()
  }

  /** Also a second one for a chain whose worker is frozen: it takes over when the lease ends. */
  startIfMissing(name: string): void {
    const worker = this.#workers.get(name)
    if (worker === undefined || worker.result !== null || this.#frozen.has(worker)) this.#startWorker(name)
  }

  rewind(to: TimeUs, more: readonly string[]): string {
    const when = formatTime(to)
    const force = ['no-worker', 'refetch', 'fork'].flatMap((blocker) => ['--force', blocker])
    this.#command(['rewind', '--to', when, '--yes', ...force, ...more], [0, 3])
    return [when, ...more].join(' ')
  }

  cancel(): void {
    this.#command(['rewind', 'cancel'], [0, 3])
  }

  async compareAfterQuiet(): Promise<string | null> {
    const project = this.#project as Project
    this.thaw()
    for (const chain of this.#chains) chain.extend(this.#random, 12) // above every head before
    await Promise.all(this.#commands)
    for (const { name } of this.#chains) this.startIfMissing(name)
    await waitUntil(
      'the release, and all chains at their heads',
      async () => {
        for (const { name } of this.#chains) this.startIfMissing(name)
        const held = await project.count(`_global where key <> 'epoch'`)
        const rows = await project.query<{ chain: string; height: string | null }>(
          'select chain, height from checkpoint',
        )
        const at = new Map(rows.map(({ chain, height }) => [chain, Number(height ?? -1)]))
        return held === 0 && this.#chains.every((chain) => at.get(chain.name) === chain.head())
      },
      PATIENCE_MS,
      200,
    ).catch(async (error: Error) => {
      throw new Error(`${error.message}; ${await this.#describe()}`)
    })
    await project.indexAfresh()
    const { differences } = await project.compareWithFresh()
    if (differences.length > 0) return `not as a fresh index: ${JSON.stringify(differences).slice(0, 1000)}`
    return this.#problems[0] ?? null
  }

  async end(): Promise<void> {
    this.#over = true
    this.thaw()
    await this.#project?.close()
    await Promise.all(this.#endings)
    await Promise.allSettled(this.#chains.map((chain) => chain.stop()))
  }

  /** For who looks into a failure. */
  async #describe(): Promise<string> {
    const project = this.#project as Project
    const rows = await project.query<{ row: string }>(
      `select 'left: ' || key || ' ' || value as row from _global where key <> 'epoch'
       union all select c.chain || ' at ' || coalesce(c.height, -1) || ', ' || coalesce(s.phase, 'never') || ' ' || coalesce(s.reason, '')
       from checkpoint c left join chain_status s using (chain)`,
    )
    const heads = this.#chains.map(({ name, head }) => `${name} has ${head()}`)
    return [...heads, ...rows.map(({ row }) => row)].join('; ')
  }

  #startWorker(name: string): void {
    if (this.#over) return
    const worker = (this.#project as Project).lockstep(['worker', name])
    this.#workers.set(name, worker)
    this.#endings.push(worker.ended().then(({ stderr, stdout }) => this.#judge(name, `${stdout}\n${stderr}`)))
  }

  /** Leases are lost here, and sessions ended; a broken promise of our own is never right. */
  #judge(name: string, output: string): void {
    const defect = /broken promise: .*|TypeError: .*|ReferenceError: .*|duplicate key .*/.exec(output)
    if (defect) this.#problems.push(`worker of ${name}: ${defect[0]}`)
  }

  #command(words: readonly string[], codes: readonly number[]): void {
    if (this.#over) return
    const ended = (this.#project as Project).run(words).then(({ code, stderr }) => {
      if (code !== null && !codes.includes(code))
        this.#problems.push(`lockstep ${words.join(' ')} ended with ${code}: ${stderr}`)
    })
    this.#commands.push(ended)
  }
}

interface Act {
  readonly name: string
  readonly weight: number
  readonly act: (run: ProcessRun, chain: GrowingChain, random: Random) => string | undefined
}

const ACTS: readonly Act[] = [
  { name: 'extend', weight: 6, act: extend },
  { name: 'fork', weight: 3, act: fork },
  { name: 'kill', weight: 3, act: (run, { name }) => quietly(run.kill(name)) },
  { name: 'freeze', weight: 2, act: (run, { name }) => quietly(run.freeze(name)) },
  { name: 'thaw', weight: 2, act: (run) => quietly(run.thaw()) },
  { name: 'start', weight: 6, act: (run, { name }) => quietly(run.startIfMissing(name)) },
  { name: 'rewind', weight: 3, act: rewind },
  { name: 'cancel', weight: 0.5, act: (run) => quietly(run.cancel()) },
  { name: 'wait', weight: 1, act: () => undefined },
]

/** Its name says all. */
const quietly = (_done: unknown): undefined => undefined

function extend(_: ProcessRun, chain: GrowingChain, random: Random): string {
  const count = random.between(1, 5)
  chain.extend(random, count)
  return `by ${count}`
}

function fork(_: ProcessRun, chain: GrowingChain, random: Random): string {
  const depth = random.between(1, 4)
  chain.fork(random, depth)
  return `by ${depth}`
}

function rewind(run: ProcessRun, chain: GrowingChain, random: Random): string {
  const back = BigInt(random.pick([0, 5, 20, 60])) * 1_000_000n
  return run.rewind((chain.headTime() - back) as TimeUs, random.chance(0.5) ? ['--detach'] : [])
}

// ---- chains -------------------------------------------------------------------------------------------------------

async function evmChain(name: string, chainId: number, step: number, random: Random): Promise<GrowingChain> {
  const node = new SimulatedEvmNode({ chainId, seed: chainId, blockTime: step, firstTime: ORIGIN_SECONDS })
  node.chain.finalizedDepth = 6
  const wishes = (from: Random, count: number): BlockWish[] =>
    Array.from({ length: count }, () => ({
      logs: Array.from({ length: from.pick([0, 1, 2]) }, () => {
        return transferLog({
          token: TOKEN,
          from: addressOf(0xa),
          to: addressOf(0xb),
          value: BigInt(from.below(1e6)),
        })
      }),
    }))
  node.chain.extend(wishes(random, 40))
  const url = await node.start()
  return {
    name,
    config: {
      kind: 'evm',
      chainId,
      rpc: [url],
      startHeight: 0,
      pollInterval: '200ms',
      contracts: {
        token: {
          address: TOKEN,
          abi: ['event Transfer(address indexed from, address indexed to, uint256 value)'],
          events: ['Transfer'],
        },
      },
    },
    head: () => node.chain.head.number,
    headTime: () => timeFromSeconds(node.chain.head.time),
    extend: (from, count) => void node.chain.extend(wishes(from, count)),
    fork: (from, depth) => void node.chain.fork(depth, wishes(from, depth + 1)),
    stop: () => node.stop(),
  }
}

async function cometChain(name: string, random: Random): Promise<GrowingChain> {
  const chain = new SimulatedCometChain({ chainId: 'sim-1', version: '0.38.0' })
  const headTime = (): TimeUs =>
    chain.head === 0 ? timeFromSeconds(ORIGIN_SECONDS) : chain.ref(chain.head).time
  const extend = (from: Random, count: number): void => {
    for (let index = 0; index < count; index++) chain.extend([cometBlock(from, headTime())])
  }
  extend(random, 30)
  const node = await SimulatedCometNode.start(chain)
  return {
    name,
    config: {
      kind: 'cosmos',
      chainId: 'sim-1',
      rpc: [node.url],
      startHeight: 1,
      pollInterval: '200ms',
      contracts: { app: { events: [{ type: 'app' }] } },
    },
    head: () => chain.head,
    headTime,
    extend,
    fork: (from, depth) => {
      chain.rollback(depth)
      extend(from, depth + 1)
    },
    stop: () => node.stop(),
  }
}

function cometBlock(random: Random, after: TimeUs): CometBlockScript {
  const time = (after + BigInt(random.pick([0, 1_000_000, 5_123_457]))) as TimeUs
  const events = Array.from({ length: random.pick([0, 1, 2]) }, () => {
    return { type: 'app', attributes: [['key', String(random.below(1000))]] as const }
  })
  return { time: formatTime(parseTime(formatTime(time)) ?? time), txs: events.length > 0 ? [{ events }] : [] }
}
