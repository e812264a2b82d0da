/*
 * What PostgreSQL and the connection to it say, and what it means for us. Everything that is not listed goes through
 * to whoever called.
 */

/** Run the whole transaction again: it did not happen. */
const RUN_AGAIN = new Set([
  '40001', // serialization_failure
  '40P01', // deadlock_detected
])

/** The server is not there, or ended this session: connect again, read again what is true, go on. */
const CONNECTION_GONE = new Set([
  '08000',
  '08003',
  '08006',
  '08001',
  '08004', // connection exceptions
  '57P01', // admin_shutdown: also pg_terminate_backend
  '57P02', // crash_shutdown
  '57P03', // cannot_connect_now
  '57P05', // idle_session_timeout
  '25P03', // idle_in_transaction_session_timeout
  '53300', // too_many_connections
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])

/**
 * The server is there and will not do it now: what to change is its state, not ours. Whoever asked says so and tries
 * again later; it must not end a process that looks after others.
 */
const REFUSED = new Set([
  '25006', // read_only_sql_transaction: a standby, or a database set so
  '42501', // insufficient_privilege
  '53100', // disk_full
  '53200', // out_of_memory
  '57014', // query_canceled: by a person, or by a statement_timeout of the role
])

/** pg reports a lost socket without a code. */
const CONNECTION_GONE_TEXTS = [
  'Connection terminated',
  'Client has encountered a connection error',
  'Client was closed',
  'timeout exceeded when trying to connect',
  'Cannot use a pool after calling end',
]

/** A lock was not had within `lock_timeout`. */
export const LOCK_NOT_AVAILABLE = '55P03'

export function errorCode(error: unknown): string | null {
  if (error instanceof AggregateError && error.errors.length > 0) return errorCode(error.errors[0])
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : null
}

export const mayRunAgain = (error: unknown): boolean => RUN_AGAIN.has(errorCode(error) ?? '')

export const isRefused = (error: unknown): boolean => REFUSED.has(errorCode(error) ?? '')

export function isConnectionGone(error: unknown): boolean {
  if (CONNECTION_GONE.has(errorCode(error) ?? '')) return true
  const message = error instanceof Error ? error.message : ''
  return CONNECTION_GONE_TEXTS.some((text) => message.includes(text))
}
