import { describeError, LockstepError } from '@lockstep/domain'
import { type Logger, type Level as LogLevel, pino, type StreamEntry, multistream } from 'pino'
import pretty from 'pino-pretty'
import { redactText } from './redact.js'

export type { Logger }
export type { LogLevel }

export interface LoggerOptions {
  readonly level: LogLevel
  /** For people (colours, one line a message) or JSON for programs. */
  readonly format: 'pretty' | 'json'
  /** Where lines go; standard output where left out. */
  readonly destination?: NodeJS.WritableStream
}

/**
 * Log lines are finished facts: a constant lower-case sentence in the past tense, values as fields with the names of
 * the types. Errors go under `err`; addresses of nodes and databases never leave with their secrets.
 */
export function createLogger(options: LoggerOptions): Logger {
  const out = options.destination ?? process.stdout
  // Written synchronously: a line about why a process ends must not die with the process.
  const stream: StreamEntry['stream'] =
    options.format === 'json'
      ? options.destination !== undefined ? out : pino.destination({ dest: 1, sync: true })
      : pretty({ colorize: 'isTTY' in out && out.isTTY === true, ignore: 'pid,hostname', translateTime: 'SYS:HH:MM:ss.l', sync: true, destination: options.destination ?? 1 })
  return pino({
    level: options.level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }), log: redactStrings },
    serializers: { err: serializeError },
  }, multistream([{ stream, level: options.level }]))
}

export const silentLogger = (): Logger => pino({ level: 'silent' })

function redactStrings(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, typeof value === 'string' ? redactText(value) : typeof value === 'bigint' ? value.toString() : value]),
  )
}

function serializeError(error: unknown): Record<string, unknown> {
  const message = redactText(error instanceof Error ? describeError(error) : String(error))
  if (error instanceof LockstepError) return { code: error.code, retryable: error.retryable, message: redactText(error.message), hint: error.hint }
  return { message, type: error instanceof Error ? error.name : typeof error }
}
