import { randomUUID } from 'node:crypto'
import type { EvmChainOptions } from '@lockstep/config'
import { type ChainSource, chainKey, height } from '@lockstep/domain'
import {
  acquireChainLease,
  type ChainWriter,
  checkpointOf,
  Database,
  Listener,
  migrate,
  registerChains,
  setCheckpoint,
  startTemporaryPostgres,
} from '@lockstep/store'
import { silentLogger } from '@lockstep/telemetry'
import { runChainWorker } from '@lockstep/worker'
import { evenBlock } from './idle-chain.js'

export const chainOptions = (name: string): EvmChainOptions => ({
  kind: 'evm',
  chain: chainKey(name),
  chainId: '1',
  rpc: [{ url: 'http://127.0.0.1:1', ws: null, requestsPerSecond: null, requestsAtOnce: 1 }],
  startHeight: height(0),
  endHeight: null,
  finality: { by: 'depth', depth: 64 },
  rollbackDepthMax: 64,
  pollMs: 200,
  blocks: 'events',
  transactions: false,
  keepOrphans: false,
  queries: [],
  filterDigest: 'bench',
  contracts: [],
})

export interface BenchDeployment {
  open(): Database
  close(): Promise<void>
}

/** A PostgreSQL of its own, without fsync, so that the disk of a shared machine does not decide. */
export async function openDeployment(chains: readonly string[]): Promise<BenchDeployment> {
  const server = await startTemporaryPostgres()
  const opened: Database[] = []
  const open = (): Database => {
    const db = new Database({
      url: server.url,
      schema: 'lockstep',
      holder: randomUUID(),
      writeTimeoutMs: 60_000,
      logger: silentLogger(),
      connectionsMax: 3,
    })
    opened.push(db)
    return db
  }
  const db = open()
  await migrate(db, 'indexed')
  await registerChains(db, chains.map(chainOptions))
  return {
    open,
    close: async () => {
      await Promise.allSettled(opened.map((each) => each.close()))
      await server.stop()
    },
  }
}

/** Takes the chain's lease for this process. */
export async function takeChain(db: Database, name: string): Promise<ChainWriter> {
  const chain = chainKey(name)
  const lease = await acquireChainLease(db, chain, 600_000)
  if (!('token' in lease)) throw new Error(`${name} is taken`)
  return { chain, lease, checkpoint: null }
}

/**
 * Blocks 0 to `to` with `eventsPerBlock` events each, written by the database itself: a million rows in some seconds.
 *
 * @returns the writer at the last of them
 */
export async function fill(
  db: Database,
  writer: ChainWriter,
  to: number,
  eventsPerBlock: number,
): Promise<ChainWriter> {
  const last = evenBlock(to)
  await db.transaction(async (tx) => {
    await tx.query(FILL_BLOCKS, [writer.chain, to])
    await tx.query(FILL_EVENTS, [writer.chain, to, eventsPerBlock])
    await setCheckpoint(tx, writer, checkpointOf(last))
  })
  return { ...writer, checkpoint: checkpointOf(last) }
}

/** As `evenBlock` has them. */
const FILL_BLOCKS = `
  insert into block (chain, height, hash, parent_hash, block_time)
  select $1, h, decode(lpad(to_hex(h + 1), 64, '0'), 'hex'), decode(lpad(to_hex(h), 64, '0'), 'hex'),
    to_timestamp(1700000000 + 12 * h) from generate_series(0, $2::bigint) h`

const FILL_EVENTS = `
  insert into event (chain, height, tx_index, event_index, tx_hash, block_hash, block_time, contract, address, name, args,
    topic0, topic1, topic2, data)
  select chain, height, i, i, hash, hash, block_time, 'token', '0x00000000000000000000000000000000000000aa', 'Transfer',
    jsonb_build_object('from', '0x00000000000000000000000000000000000000bb',
      'to', '0x00000000000000000000000000000000000000cc', 'value', height::text), hash, hash, hash, hash
  from block, generate_series(1, $3::int) i where chain = $1 and height <= $2`

/** A real worker in this process, with connections of its own. */
export function runWorker(
  deployment: BenchDeployment,
  name: string,
  source: ChainSource,
  pollMs: number,
): { stop(): Promise<void> } {
  const db = deployment.open()
  const listener = Listener.open(db)
  const stop = new AbortController()
  const ended = runChainWorker(
    {
      options: { ...chainOptions(name), pollMs },
      onFork: 'rollback',
      rewind: { takeOverAfterMs: 60_000, searchTimeoutMs: 5000, writeTimeoutMs: 10_000, pollMs: 1000 },
      lease: { timeMs: 15_000 },
      progressMs: 600_000,
      db,
      listener,
      source,
      logger: silentLogger(),
    },
    stop.signal,
  )
  return {
    stop: async () => {
      stop.abort()
      await ended
      await listener.close()
    },
  }
}
