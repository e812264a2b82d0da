import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { isChainKey } from '@lockstep/domain'
import { ConfigDocument, isMapping } from './config-document.js'
import { ConfigError } from './config-error.js'
import type { Environment } from './expand-variables.js'
import type {
  ChainOptions,
  DatabaseOptions,
  LeaseOptions,
  LockstepOptions,
  RewindOptions,
} from './options.js'
import { Place } from './place.js'
import { resolveChain } from './resolve-chain.js'
import { databaseShape, fileShape, leaseShape, rewindShape } from './schema.js'

export interface ConfigInput {
  /** Relative to the working directory, or absolute; problems name it as it is given here. */
  readonly file: string
  readonly env: Environment
}

/**
 * Reads the file, the environment's variables in it and the ABI files it names. Makes no connection.
 *
 * @throws ConfigError with every mistake that can be told from the files alone
 */
export function loadConfig({ file, env }: ConfigInput): LockstepOptions {
  const document = new ConfigDocument(file, readConfigFile(file), env)
  const options = document.value === undefined ? null : resolveFile(new Place(document, [], document.value))
  const { problems } = document
  if (options === null || problems.length > 0) throw new ConfigError(file, problems)
  return options
}

function readConfigFile(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const reason =
      error instanceof Error && 'code' in error && error.code === 'ENOENT' ? 'is not there' : 'cannot be read'
    const hint = 'Give the right path, or begin with a copy of config/chains.yaml of the project.'
    throw new ConfigError(file, [
      { file, line: null, column: null, path: '', message: `the file ${reason}`, hint },
    ])
  }
}

function resolveFile(root: Place): LockstepOptions | null {
  const top = root.take(fileShape)
  const database = resolveDatabase(root.child('database'))
  const lease = resolveLease(root.child('lease'))
  const rewind = resolveRewind(root.child('rewind'), lease)
  const chains = resolveChains(root.child('chains'))
  if (!top || !database || !lease || !rewind || !chains) return null
  return {
    file: resolve(root.document.file),
    database,
    rewind,
    lease,
    onFork: top.onFork,
    progressMs: top.progressInterval,
    chains,
  }
}

/** A section that is left out has its defaults. */
const section = (place: Place): Place =>
  place.value === undefined ? new Place(place.document, place.path, {}) : place

function resolveDatabase(place: Place): DatabaseOptions | null {
  const database = section(place).take(databaseShape)
  const schema = place.child('schema').read(databaseShape.shape.schema)
  const readSchema = place.child('readSchema')
  if (schema !== null && schema === readSchema.read(databaseShape.shape.readSchema)) {
    return readSchema.refuse('is also database.schema', 'Give the views for people a schema of their own.')
  }
  return database && { url: database.url || null, schema: database.schema, readSchema: database.readSchema }
}

function resolveLease(place: Place): LeaseOptions | null {
  const lease = section(place).take(leaseShape)
  return lease && { timeMs: lease.time }
}

/** A writer that is ended after the write time-out must not outlive its lease: see rule 4 of the rewind protocol. */
const WRITE_TIMEOUT_MS = 10_000

function resolveRewind(place: Place, lease: LeaseOptions | null): RewindOptions | null {
  const rewind = section(place).take(rewindShape)
  if (!lease) return null
  const writeTimeout = place.child('writeTimeout')
  const writeTimeoutMs =
    writeTimeout.read(rewindShape.shape.writeTimeout) ?? Math.min(WRITE_TIMEOUT_MS, lease.timeMs)
  if (writeTimeoutMs > lease.timeMs) {
    const hint = 'Lower it, or raise lease.time: a write must end before its lease does.'
    return writeTimeout.refuse(`must be at most lease.time (${lease.timeMs}ms)`, hint)
  }
  return (
    rewind && {
      takeOverAfterMs: rewind.takeOverAfter ?? 2 * lease.timeMs,
      searchTimeoutMs: rewind.searchTimeout,
      writeTimeoutMs,
      pollMs: rewind.pollInterval,
    }
  )
}

function resolveChains(place: Place): ChainOptions[] | null {
  if (!isMapping(place.value)) return null // reported with the file
  const chains = place.children()
  const enabled = chains.filter((chain) => chain.child('enabled').value !== false)
  for (const chain of chains) if (!enabled.includes(chain)) chain.document.forgetProblems(chain.path)
  if (enabled.length === 0) {
    return place.refuse(
      chains.length === 0 ? 'names no chain' : 'has no chain that is enabled',
      'At least one is needed.',
      'key',
    )
  }
  for (const chain of enabled) if (!isChainKey(chain.key)) refuseKey(chain)
  const resolved = enabled.map(resolveChain)
  return resolved.every((chain) => chain !== null) ? resolved : null
}

const refuseKey = (chain: Place): null =>
  chain.refuse(
    'is not a chain key',
    'Lower-case letters, digits, _ and -, a letter first, at most 32.',
    'key',
  )
