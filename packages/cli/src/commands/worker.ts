import type { ChainOptions, LockstepOptions } from '@lockstep/config'
import { BadInputError, LockstepError, SchemaVersionError } from '@lockstep/domain'
import { checkSchema, type Database, Listener, readChain } from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'
import { createSource, runChainWorker } from '@lockstep/worker'
import { faultFromEnvironment } from '../faults.js'
import { databaseUrl, type GlobalWords, openDatabase, openLogger, readConfig } from '../session.js'
import { listenForStop } from '../stop-signals.js'

/** `lockstep worker <chain>`: one chain, in this process, on any machine that reaches the database. */
export async function worker(chainWord: string, words: GlobalWords): Promise<void> {
  const options = readConfig(words)
  const chain = chainOf(options, chainWord)
  const root = openLogger(words)
  const logger = root.child({ chain: chain.chain })
  const db = openDatabase(options, await databaseUrl(options), logger)
  const { stop, dispose } = listenForStop((signal) => logger.info({ signal }, 'stop was asked for'))
  try {
    await checkRegistered(db, chain)
    await follow(options, chain, db, root, stop)
  } catch (error) {
    if (error instanceof LockstepError) logger.error({ err: error }, 'worker ended')
    throw error
  } finally {
    dispose()
    await db.close()
  }
}

async function follow(
  options: LockstepOptions,
  chain: ChainOptions,
  db: Database,
  root: Logger,
  stop: AbortSignal,
): Promise<void> {
  const listener = Listener.open(db)
  const source = createSource(chain, root) // its lines name the chain themselves
  try {
    await runChainWorker(
      {
        options: chain,
        rewind: options.rewind,
        onFork: options.onFork,
        lease: options.lease,
        progressMs: options.progressMs,
        db,
        listener,
        source,
        logger: root.child({ chain: chain.chain }),
        onStep: faultFromEnvironment(process.env),
      },
      stop,
    )
  } finally {
    await source.close()
    await listener.close()
  }
}

function chainOf(options: LockstepOptions, word: string): ChainOptions {
  const chain = options.chains.find((each) => each.chain === word)
  if (chain !== undefined) return chain
  throw new BadInputError(
    `The config has no enabled chain "${word}".`,
    `Use one of ${options.chains.map((each) => each.chain).join(', ')}, or add it under chains: in ${options.file}.`,
  )
}

async function checkRegistered(db: Database, { chain }: ChainOptions): Promise<void> {
  await checkSchema(db)
  if ((await db.transaction((tx) => readChain(tx, chain))) !== null) return
  throw new SchemaVersionError(
    db.schema,
    `chain ${chain} has no room in them yet.`,
    'Run "lockstep migrate" with the role that owns the tables, or "lockstep start".',
  )
}
