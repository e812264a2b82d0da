import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { chainKey, type TimeUs } from '@lockstep/domain'
import { requestRewind, takePart } from '@lockstep/rewind'
import { type Database, readRewind, readRewindState } from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { type BenchDeployment, fill, openDeployment, runWorker, takeChain } from './deployment.js'
import { evenBlock, evenSource } from './idle-chain.js'
import type { BenchRow } from './main.js'

/** What a coordinated rewind costs: with nothing to do, per row, and until a chain stops fetching. */
export async function benchRewind(): Promise<readonly BenchRow[]> {
  return [await overhead(), ...(await removal()), await pauseSeen()]
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
const ms = (value: number): string => `${value.toFixed(1)} ms`
const request = (db: Database, timestamp: TimeUs) =>
  requestRewind(db, { request: { timestamp, reason: 'bench', who: 'bench' } })

/** (a) Ten workers at their heads, nothing to remove: from the request to the release. */
async function overhead(): Promise<BenchRow> {
  const chains = Array.from({ length: 10 }, (_, index) => `c${index}`)
  const deployment = await openDeployment(chains)
  try {
    const workers = chains.map((name) =>
      runWorker(
        deployment,
        name,
        evenSource(name, () => 20),
        200,
      ),
    )
    const db = deployment.open()
    await until(db, async () => (await countCheckpoints(db, 20)) === chains.length)
    const times: number[] = []
    const commits: number[] = []
    for (let round = 0; round < 15; round++) {
      await sleep(250)
      const startedAt = performance.now()
      const { rewindId } = await request(db, evenBlock(1000).time)
      await until(
        db,
        async () => (await db.transaction((tx) => readRewind(tx, rewindId)))?.finishedAt != null,
      )
      times.push(performance.now() - startedAt)
      commits.push(await emptyCommits(db, chains.length * 3 + 1))
    }
    await Promise.all(workers.map((worker) => worker.stop()))
    const [took, empty] = [median(times), median(commits)]
    return {
      what: '(a) overhead: 10 chains with nothing to remove, request to release',
      measured: `${ms(took)} (median of ${times.length})`,
      against: `${ms(empty)} for 31 commits of one row, one after the other: ratio ${(took / empty).toFixed(1)}`,
      goal: 'under 250 ms on a quiet machine',
      values: { ms: took, emptyCommitsMs: empty },
    }
  } finally {
    await deployment.close()
  }
}

async function emptyCommits(db: Database, count: number): Promise<number> {
  const startedAt = performance.now()
  for (let each = 0; each < count; each++) {
    await db.transaction((tx) => tx.query(`update lease set name = name where name = 'chain:c0'`))
  }
  return performance.now() - startedAt
}

/** (b) Rows per second, beside a bare DELETE of as many equal rows, with little and with ten times the history. */
async function removal(): Promise<BenchRow[]> {
  const rows: BenchRow[] = []
  for (const history of [500, 5000]) {
    const rounds = []
    // In turns: whoever deletes second finds the table with the first one's dead rows.
    for (let round = 0; round < 4; round++) rounds.push(await removeOnce(history, round % 2 === 0))
    const [took, bare, asked] = [
      median(rounds.map((each) => each.rewindMs)),
      median(rounds.map((each) => each.bareMs)),
      median(rounds.map((each) => each.requestMs)),
    ]
    rows.push({
      what: `(b) removal: 1,000 blocks with 100,000 events, ${history} blocks stay`,
      measured: `${ms(took)}: ${Math.round(101_000 / (took / 1000))} rows/s; its request ${ms(asked)} (median of 4)`,
      against: `bare DELETE of equal rows ${ms(bare)}: ratio ${(took / bare).toFixed(2)}`,
      goal: 'at most 1.3; the same with 10 times the history',
      values: { ms: took, bareMs: bare, ratio: took / bare, requestMs: asked, history },
    })
  }
  return rows
}

const REMOVED_BLOCKS = 1000

interface Removal {
  readonly rewindMs: number
  readonly bareMs: number
  /** What the request takes, which finds the lowest height that goes: it must not walk what stays either. */
  readonly requestMs: number
}

async function removeOnce(history: number, bareFirst: boolean): Promise<Removal> {
  const deployment = await openDeployment(['a', 'b'])
  try {
    const db = deployment.open()
    const writers = [await takeChain(db, 'a'), await takeChain(db, 'b')] as const
    const [a] = await Promise.all(
      writers.map((writer) => fill(db, writer, history + REMOVED_BLOCKS - 1, 100)),
    )
    await vacuum(db)
    const before = bareFirst ? await bareDelete(db, history) : null
    const askedAt = performance.now()
    await request(db, evenBlock(history - 1).time)
    const requestMs = performance.now() - askedAt
    const state = await db.transaction(readRewindState)
    const row = state.waitingFor.find((each) => each.chain === chainKey('a'))
    if (row === undefined || a === undefined) throw new Error('the rewind has a row for the chain')
    const startedAt = performance.now()
    await takePart(db, a, row, { source: null, timeoutMs: 0, logger: silentLogger() })
    const rewindMs = performance.now() - startedAt
    return { rewindMs, requestMs, bareMs: before ?? (await bareDelete(db, history)) }
  } finally {
    await deployment.close()
  }
}

/** The same statements on the twin chain's equal rows, and nothing else. */
async function bareDelete(db: Database, from: number): Promise<number> {
  const startedAt = performance.now()
  await db.transaction(async (tx) => {
    for (const table of ['event', 'block', 'header'])
      await tx.query(`delete from ${table} where chain = 'b' and height >= $1`, [from])
  })
  return performance.now() - startedAt
}

/** Both deletes meet the same state: without this the first would do the second's clean-up. */
async function vacuum(db: Database): Promise<void> {
  const client = await db.connect()
  for (const table of ['event', 'block', 'header']) await client.query(`vacuum analyze lockstep.${table}`)
  await client.query('checkpoint')
  await client.end()
}

/** (c) From the request's commit to the last time that a busy chain asks its node. */
async function pauseSeen(): Promise<BenchRow> {
  const deployment: BenchDeployment = await openDeployment(['busy'])
  try {
    let head = 1_000_000
    let lastFetch = 0
    let fetches = 0
    const source = evenSource(
      'busy',
      () => head++,
      () => {
        lastFetch = performance.now()
        fetches += 1
      },
    )
    const worker = runWorker(deployment, 'busy', source, 50)
    const db = deployment.open()
    await sleep(1500)
    const seen: number[] = []
    for (let round = 0; round < 10; round++) {
      await until(db, async () => fetches >= 20) // of a chain that is not busy a pause says nothing
      // Held, so that the release does not let it fetch again before we have looked. The clock starts just before the
      // commit: what is found is never too short.
      let committingAt = 0
      await requestRewind(db, {
        request: { timestamp: evenBlock(2_000_000).time, reason: 'bench', who: 'bench', hold: true },
        onStep: (step) => {
          if (step === 'request.recorded') committingAt = performance.now()
        },
      })
      await sleep(300)
      seen.push(Math.max(0, lastFetch - committingAt))
      fetches = 0
      await db.transaction((tx) => tx.query(`delete from _global where key = 'pause'`))
      await sleep(1300)
    }
    await worker.stop()
    return {
      what: "(c) pause seen by a busy chain: the request's commit to its last fetch",
      measured: `${ms(median(seen))} median, ${ms(Math.max(...seen))} at most, of ${seen.length}`,
      against: 'the commit itself',
      goal: 'recorded',
      values: { medianMs: median(seen), maxMs: Math.max(...seen) },
    }
  } finally {
    await deployment.close()
  }
}

async function countCheckpoints(db: Database, atLeast: number): Promise<number> {
  const { rows } = await db.transaction((tx) =>
    tx.query<{ n: number }>('select count(*) as n from checkpoint where height >= $1', [atLeast]),
  )
  return rows[0]?.n ?? 0
}

async function until(db: Database, there: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 10_000; tries++) {
    if (await there()) return
    await sleep(2)
  }
  throw new Error(`waited in vain on ${db.where}`)
}
