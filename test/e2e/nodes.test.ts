/**
 * Goal: a node that is down, behind, pruned, of another chain or lying at the time of a rewind holds nobody up and does
 * no harm: the chain goes back by what is stored, nothing is taken for a fork, and once the node is right again the
 * tables are those of a fresh index. Method: real worker processes and the real command; one EVM and the Cosmos chain
 * get a fault each before the request and lose it only after the release.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Program, waitUntil } from '@lockstep/testkit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { logOf } from './kit/processes.js'
import { configOf, Project } from './kit/project.js'
import { momentAt, type SimulatedChains, startSimulatedChains } from './kit/simulated-chains.js'

let world: SimulatedChains
let project: Project
const workers = new Map<string, Program>()

const SETTINGS = {
  lease: { time: '10s' },
  rewind: { pollInterval: '300ms', searchTimeout: '1s', writeTimeout: '3s', takeOverAfter: '1h' },
}

beforeAll(async () => {
  world = await startSimulatedChains()
  project = await Project.create(world.chains, { settings: SETTINGS })
  await project.succeed(['migrate'])
  await Promise.all(world.chains.map(({ name }) => startWorker(name)))
  await project.reached(world.heads)
  await project.indexAfresh()
})

afterAll(async () => {
  await project?.close()
  await world?.stop()
})

async function startWorker(chain: string, config = project.folder.config): Promise<void> {
  workers.set(chain, await project.worker(chain, { config }))
}

async function restartWorker(chain: string): Promise<void> {
  await workers.get(chain)?.stop()
  await startWorker(chain)
}

const FORCE = ['no-worker', 'refetch', 'fork'].flatMap((blocker) => ['--force', blocker])
const rewindWords = ['rewind', '--to', momentAt(160), '--yes', ...FORCE]

/** How the worker found its last cut. */
const cutBy = (chain: string) =>
  logOf(workers.get(chain) as Program)
    .filter(({ msg }) => msg === 'cut was found')
    .at(-1)?.by

const FACTS_AFTER = `(select chain, block_time from event union all select chain, block_time from block) t
  where block_time > $1::timestamptz and chain in ('alpha', 'gamma')`

interface Fault {
  readonly what: string
  /** Puts it on both nodes; what it returns takes it off again. */
  readonly put: (world: SimulatedChains) => () => unknown
  /**
   * Under a pause, in which workers ask no node: to them a hash that stays another one is a fork, whose rollback would
   * be right.
   */
  readonly paused?: true
  /** A worker that stopped for it is started again rather than waited for. */
  readonly stops?: true
}

const FAULTS: readonly Fault[] = [
  {
    what: 'down',
    put: ({ alpha, gamma: { node } }) => {
      alpha.disturb = () => ({ kind: 'drop' })
      node.server.disturb = () => ({ kind: 'drop' })
      return () => undisturb()
    },
  },
  {
    what: 'hanging',
    put: ({ alpha, gamma: { node } }) => {
      alpha.disturb = () => ({ kind: 'hang' })
      node.server.disturb = () => ({ kind: 'hang' })
      return () => {
        undisturb()
        alpha.dropConnections()
        node.server.dropConnections()
      }
    },
  },
  {
    what: 'pruned up to its head',
    put: ({ alpha, gamma: { chain, node } }) => {
      alpha.prune(alpha.chain.head.number)
      node.pruneBelow(chain.head)
      return () => {
        alpha.prune(0)
        node.pruneBelow(1)
      }
    },
    stops: true,
  },
  {
    what: 'with a head below the moment',
    put: ({ alpha, gamma: { node } }) => {
      alpha.lowerHead(20)
      node.lowerHead(10)
      return () => {
        alpha.lowerHead(0)
        node.lowerHead(null)
      }
    },
  },
  {
    what: 'without an answer in its answers',
    put: ({ alpha, gamma: { node } }) => {
      alpha.answer('eth_getBlockByNumber', () => null)
      const undo = [node.override('block', () => null), node.override('blockchain', () => null)]
      return () => {
        alpha.answer('eth_getBlockByNumber', null)
        for (const each of undo) each()
      }
    },
  },
  {
    what: 'with other hashes',
    put: ({ alpha, gamma: { node } }) => {
      alpha.answer('eth_getBlockByNumber', (_, honest) => ({
        ...(honest() as object),
        hash: `0x${'ab'.repeat(32)}`,
      }))
      const lie = (answer: unknown) => JSON.parse(OTHER_HASHES(JSON.stringify(answer)))
      const undo = ['block', 'blockchain', 'header', 'commit'].map((method) =>
        node.override(method, (_, honest) => lie(honest())),
      )
      return () => {
        alpha.answer('eth_getBlockByNumber', null)
        for (const each of undo) each()
      }
    },
    paused: true,
  },
  {
    what: 'of another chain',
    put: ({ alpha, gamma: { node } }) => {
      alpha.reportedChainId = 9999
      node.reportNetwork('elsewhere-1')
      return () => {
        alpha.reportedChainId = null
        node.reportNetwork(null)
      }
    },
    stops: true,
  },
]

const OTHER_HASHES = (json: string): string =>
  json.replace(/"hash":"[0-9A-F]{64}"/g, `"hash":"${'AB'.repeat(32)}"`)

function undisturb(): void {
  world.alpha.disturb = () => null
  world.gamma.node.server.disturb = () => null
}

async function backAsFresh(): Promise<void> {
  await project.released()
  await project.reached(world.heads)
  expect((await project.compareWithFresh()).differences).toEqual([])
}

test.each(FAULTS)('nodes $what', async ({ put, paused, stops }) => {
  if (paused) await project.succeed(['pause'])
  const mend = put(world)
  try {
    await project.succeed(rewindWords)
    expect([cutBy('alpha'), cutBy('gamma')]).toEqual(['stored', 'stored'])
    // Nobody has gone on from a node like that, and nothing more has gone.
    const kept = await project.count(`event where chain in ('alpha', 'gamma')`)
    await sleep(1000)
    expect(await project.count(`event where chain in ('alpha', 'gamma')`)).toBe(kept)
    expect(await project.count(FACTS_AFTER, [momentAt(160)])).toBe(0)
  } finally {
    await mend()
  }
  if (paused) await project.succeed(['resume'])
  if (stops) await Promise.all(['alpha', 'gamma'].map(restartWorker))
  await backAsFresh()
  expect(await project.count('rollback')).toBe(0)
})

test('where only the worker’s nodes are away, the cut is the one that the command has found', async () => {
  await Promise.all(['alpha', 'gamma'].map((chain) => workers.get(chain)?.stop()))
  const patient = await project.folder.write(
    'patient.yaml',
    configOf(project.database.url, 'lockstep', world.chains, {
      ...project.settings,
      rewind: { ...SETTINGS.rewind, searchTimeout: '60s' },
    }),
  )
  await project.succeed([...rewindWords, '--detach'], { config: patient })
  await waitUntil(
    'beta is back',
    async () => (await project.count(`_global where key like 'rewind_t%'`)) === 2,
  )
  const away = world.chains.map((chain) => ({
    ...chain,
    config: { ...chain.config, rpc: ['http://127.0.0.1:2'] },
  }))
  const config = await project.folder.write(
    'away.yaml',
    configOf(project.database.url, 'lockstep', away, project.settings),
  )
  await Promise.all(['alpha', 'gamma'].map((chain) => startWorker(chain, config)))
  await project.released()
  expect([cutBy('alpha'), cutBy('gamma')]).toEqual(['hint', 'hint'])
  await Promise.all(['alpha', 'gamma'].map(restartWorker))
  await backAsFresh()
  expect(await project.count('rollback')).toBe(0)
})
