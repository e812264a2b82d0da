import type { ChainKey, Height, Hex } from './scalars.js'

/** What a message carries beside its sentence. */
export type ErrorFacts = Readonly<Record<string, string | number | boolean | null>>

/**
 * The base of every error that a person may see: one sentence with the values in it, a stable `code`, the values
 * again as `facts` (for logs and programs), and a `hint` on what to do next. One class per thing that a person
 * would do differently.
 */
export abstract class LockstepError extends Error {
  abstract readonly code: string
  /** Whether doing the same again may succeed without anybody changing anything. */
  abstract readonly retryable: boolean
  readonly facts: ErrorFacts
  readonly hint: string

  constructor(sentence: string, hint: string, facts: ErrorFacts = {}, cause?: unknown) {
    super(sentence, cause === undefined ? undefined : { cause })
    this.name = new.target.name
    this.hint = hint
    this.facts = facts
  }
}

/** The sentence and its hint on lines of their own; any other thrown value as its message. No stack trace. */
export function describeError(error: unknown): string {
  if (error instanceof LockstepError) return `${error.message}\nHint: ${error.hint}`
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map((each) => describeError(each)).join('; ') // Node's for "all addresses refused"
  }
  return error instanceof Error ? error.message || error.name : String(error)
}

/** Our own promise was broken: a defect in Lockstep, not in what it was given. */
export class InvariantError extends Error {
  override readonly name = 'InvariantError'
}

/** For our own promises only; bad input from a node, a file or a person has an error class of its own. */
export function invariant(condition: unknown, promise: string): asserts condition {
  if (!condition) throw new InvariantError(`broken promise: ${promise}`)
}

/** `0x3fa9…`: enough of a hash to recognise it in a sentence. */
export const shortHash = (hash: Hex | null): string => (hash === null ? '(none)' : `${hash.slice(0, 10)}…`)

// ---- the chain's nodes ------------------------------------------------------------------------------------------

/** No endpoint of the chain answered, or all refused. */
export class RpcUnavailableError extends LockstepError {
  readonly code = 'rpc_unavailable'
  readonly retryable = true
  constructor(chain: ChainKey, endpoint: string, reason: string, cause?: unknown) {
    super(
      `Chain ${chain}: the node at ${endpoint} does not answer: ${reason}`,
      `Check that the address under chains.${chain}.rpc is right and that the node is up; a worker keeps trying.`,
      { chain, endpoint, reason },
      cause,
    )
  }
}

/** The endpoint belongs to another chain than the config says. */
export class WrongChainError extends LockstepError {
  readonly code = 'wrong_chain'
  readonly retryable = false
  constructor(chain: ChainKey, endpoint: string, expected: string, reported: string) {
    super(
      `Chain ${chain}: the node at ${endpoint} is of chain ${reported}, but the config says ${expected}.`,
      `Put the address of a node of chain ${expected} under chains.${chain}.rpc, or correct chains.${chain}.chainId.`,
      { chain, endpoint, expected, reported },
    )
  }
}

/** An answer is not of the documented shape, or contradicts another answer of the same node. */
export class MalformedAnswerError extends LockstepError {
  readonly code = 'malformed_answer'
  readonly retryable = true
  constructor(chain: ChainKey, endpoint: string, method: string, problem: string) {
    super(
      `Chain ${chain}: the answer of ${endpoint} to ${method} cannot be used: ${problem}`,
      'Nothing of it was stored. It is asked again; if it stays, use another node for this chain.',
      { chain, endpoint, method, problem },
    )
  }
}

/** The node has thrown this height away, and all below its lowest. */
export class HeightPrunedError extends LockstepError {
  readonly code = 'height_pruned'
  readonly retryable = false
  constructor(
    chain: ChainKey,
    endpoint: string,
    height: Height,
    /** Null: the node did not say. */
    readonly lowest: Height | null,
  ) {
    const last = lowest === null ? height : lowest - 1
    super(
      `Chain ${chain}: the node at ${endpoint} no longer has block${last > height ? 's' : ''} ${height}` +
        `${last > height ? ` to ${last}` : ''}${lowest === null ? '' : `: its lowest is ${lowest}`}.`,
      `Add a node that keeps older blocks under chains.${chain}.rpc. Nothing is skipped.`,
      { chain, endpoint, height, lowest },
    )
  }
}

// ---- the worker -------------------------------------------------------------------------------------------------

/** The fork reaches below what may be rolled back by itself. Nothing was deleted. */
export class DeepReorgError extends LockstepError {
  readonly code = 'deep_reorg'
  readonly retryable = false
  constructor(chain: ChainKey, checked: Height, depthMax: number, stored: Hex, reported: Hex | null) {
    super(
      `Chain ${chain}: the node no longer agrees on any stored block within ${depthMax} heights; ` +
        `at block ${checked} it has ${shortHash(reported)} where ${shortHash(stored)} is stored.`,
      `Nothing was deleted. If the node is right, run "lockstep rewind --to <a time before the fork> --force fork", or raise ` +
        `chains.${chain}.maxRollbackDepth; if it is wrong, use another node.`,
      { chain, checked, depthMax, stored, reported },
    )
  }
}

/** The same identity came with another payload. Both are kept in `event_conflict`; nothing was overwritten. */
export class ConflictingObservationError extends LockstepError {
  readonly code = 'conflicting_observation'
  readonly retryable = false
  /** @param eventIndex null: it is the transaction itself */
  constructor(chain: ChainKey, height: Height, txIndex: number, eventIndex: number | null) {
    super(
      `Chain ${chain}: ${eventIndex === null ? '' : `event ${eventIndex} of `}transaction ${txIndex} in block ${height} ` +
        'was stored with another content than the node now gives for the same block hash.',
      'Both are in the table event_conflict. One of the two answers was wrong: compare with another node, then ' +
        `run "lockstep rewind --to ${chain}:${Math.max(0, height - 1)}".`,
      { chain, height, txIndex, eventIndex },
    )
  }
}

/** Another process took over this chain, or our lease ran out. */
export class LeaseLostError extends LockstepError {
  readonly code = 'lease_lost'
  readonly retryable = false
  constructor(lease: string, detail: string) {
    super(
      `The lease "${lease}" is no longer ours: ${detail}.`,
      'Nothing of the refused work was stored. This process stops; the new holder goes on.',
      { lease, detail },
    )
  }
}

/** The chain's checkpoint is not what the writer believed. */
export class CheckpointMovedError extends LockstepError {
  readonly code = 'checkpoint_moved'
  readonly retryable = true
  constructor(chain: ChainKey, expected: string, found: string) {
    super(
      `Chain ${chain}: the checkpoint is ${found}, not ${expected} as this worker believed.`,
      'Nothing was stored; the worker reads its checkpoint again.',
      { chain, expected, found },
    )
  }
}

/** A write met a rewind or a pause, and was refused inside its transaction. */
export class WriteRefusedError extends LockstepError {
  readonly code = 'write_refused'
  readonly retryable = true
  constructor(readonly because: 'rewind' | 'pause') {
    super(
      `A ${because} is in force: nothing is written until it ends.`,
      because === 'rewind' ? 'See "lockstep status".' : 'End it with "lockstep resume".',
      { because },
    )
  }
}

/** The chain's data were indexed with settings that the config no longer has. */
export class ChainChangedError extends LockstepError {
  readonly code = 'chain_changed'
  readonly retryable = false
  constructor(chain: ChainKey, setting: string, stored: string, configured: string) {
    super(
      `Chain ${chain}: it was indexed with ${setting} ${stored}, but the config now says ${configured}.`,
      `What is stored would not be what a fresh index holds. Put the setting back, give the changed chain another ` +
        `key, or use another database.schema.`,
      { chain, setting, stored, configured },
    )
  }
}

// ---- the database -----------------------------------------------------------------------------------------------

/** PostgreSQL cannot be reached, or refused us. */
export class DatabaseUnavailableError extends LockstepError {
  readonly code = 'database_unavailable'
  readonly retryable = true
  constructor(where: string, reason: string, hint: string, cause?: unknown) {
    super(`The database at ${where} cannot be used: ${reason}`, hint, { where, reason }, cause)
  }
}

/** The tables are missing, older than this program, or newer. */
export class SchemaVersionError extends LockstepError {
  readonly code = 'schema_version'
  readonly retryable = false
  constructor(schema: string, problem: string, hint: string) {
    super(`The tables in schema "${schema}" do not fit this program: ${problem}`, hint, { schema, problem })
  }
}

// ---- what people ask for ----------------------------------------------------------------------------------------

/** A request that is understood and not granted: nothing was changed. */
export class RequestRefusedError extends LockstepError {
  readonly code = 'request_refused'
  readonly retryable = false
}

/** Words on the command line, or a file that cannot be read as what it should be. */
export class BadInputError extends LockstepError {
  readonly code = 'bad_input'
  readonly retryable = false
}
