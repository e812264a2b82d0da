/*
 * Goal: however a worker dies, everything at or below the checkpoint is stored, and nothing is stored above it.
 * Method: a real worker process indexes 1000 blocks with an event each, most of them in ranges and the last 60 one by one, and
 * is killed with signal 9 at moments that a seed chooses (LOCKSTEP_TEST_SEED repeats a run): in its start, and in the
 * midst of its work. LOCKSTEP_CASES_KILLS says how often, 5 where it is not set; 100 in the case. A dead worker's lease
 * is made to end at once, which its time would do.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { compareFacts, evmChainOptions, type SimulatedEvmNode } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { Project } from '../e2e/kit/project.js'
import { seedOfRun } from '../protocol/disorder.js'
import { Random } from '../simulation/random.js'
import { headOf, Scene, transfers } from '../worker/scene.js'
import { servedEvm } from './served-chains.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const KILLS = Number(process.env.LOCKSTEP_CASES_KILLS ?? 5)
const BLOCKS = 1000
/** Each kill costs the start of a process, on a machine that may have much else to do. */
const PATIENCE_MS = 120_000 + 30_000 * KILLS

interface Stored {
  readonly checkpoint: number | null
  readonly hash: string | null
  readonly blocks: readonly string[]
  readonly events: readonly string[]
}

/** In one statement, so that it is of one moment. */
const readStored = async (project: Project): Promise<Stored> => {
  const [stored] = await project.query<{ stored: Stored }>(
    `select jsonb_build_object('checkpoint', height, 'hash', '0x' || encode(hash, 'hex'),
       'blocks', (select coalesce(jsonb_agg(height || ' 0x' || encode(hash, 'hex') order by height), '[]') from block),
       'events', (select coalesce(jsonb_agg(height || ' ' || (args ->> 'value') order by height), '[]') from event)
     ) as stored from checkpoint`,
  )
  if (stored === undefined) throw new Error('there is no checkpoint row')
  return stored.stored
}

test(
  `S25: a worker that is killed ${KILLS} times never has a hole below its checkpoint, and ends with what a fresh index has`,
  async () => {
    const seed = seedOfRun()
    console.log(`S25: LOCKSTEP_TEST_SEED=${seed}`)
    const random = new Random(seed)
    const node = await scene.evm(transfers(BLOCKS))
    node.chain.finalizedDepth = 60
    const project = await Project.create([servedEvm('alpha', node, { blocks: 'all' })], {
      settings: { lease: { time: '1m' } },
    })
    scene.later(() => project.close())
    await project.succeed(['migrate'])
    const whole = (height: number) => ({
      checkpoint: height,
      hash: node.chain.at(height)?.hash,
      blocks: Array.from({ length: height + 1 }, (_, at) => `${at} ${node.chain.at(at)?.hash}`),
      events: Array.from({ length: height }, (_, index) => `${index + 1} ${index + 1}`),
    })
    const seen: number[] = []
    for (let kill = 0; kill < KILLS; kill++) {
      await project.query('update lease set expires_at = clock_timestamp() where expires_at is not null')
      const worker = project.lockstep(['worker', 'alpha'])
      if (random.next() < 0.25) await sleep(random.below(1500))
      else {
        const goal = Math.min((seen.at(-1) ?? 0) + random.between(1, (2 * BLOCKS) / KILLS), BLOCKS)
        await project.reached({ alpha: goal })
        await sleep(random.below(60))
      }
      worker.kill('SIGKILL')
      await worker.ended()
      const stored = await readStored(project)
      if (stored.checkpoint !== null) expect(stored).toEqual(whole(stored.checkpoint))
      seen.push(stored.checkpoint ?? 0)
    }
    expect(seen).toEqual([...seen].sort((a, b) => a - b))

    await project.query('update lease set expires_at = clock_timestamp() where expires_at is not null')
    await project.worker('alpha')
    await project.reached({ alpha: headOf(node).height })
    expect(await readStored(project)).toEqual(whole(BLOCKS))
    await expectUninterrupted(project, node)
  },
  PATIENCE_MS,
)

/** The same chain, indexed at one go into another database. */
async function expectUninterrupted(project: Project, node: SimulatedEvmNode): Promise<void> {
  node.chain.finalizedDepth = 0 // in ranges: how blocks were fetched must not show in what is stored
  const alpha = evmChainOptions({ rpc: [node.url], blocks: 'all', pollMs: 30 })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  const { url } = project.database
  const { rows, differences } = await compareFacts({ url, schema: 'lockstep' }, stage.deployment)
  expect(differences).toEqual([])
  expect(rows).toMatchObject({ event: BLOCKS, block: BLOCKS + 1, checkpoint: 1 })
}
