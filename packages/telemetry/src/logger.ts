import { type Logger, type Level as LogLevel, pino } from 'pino'
import { formatPretty } from './format-pretty.js'
import { redactText } from './redact.js'
import { serializeError } from './serialize-error.js'

export type { Logger, LogLevel }

export interface LoggerOptions {
  readonly level: LogLevel
  /** One line a message for people (coloured on a terminal), or JSON for programs. */
  readonly format: 'pretty' | 'json'
  /** Where lines go; standard output where left out. */
  readonly destination?: NodeJS.WritableStream
}

/**
 * Log lines are finished facts: a constant lower-case sentence in the past tense, values as fields with the names of
 * the types. Errors go under `err`, the chain and the rewind into a child: `logger.child({ chain })`.
 *
 * The finished line is redacted, not the values that went into it: so an address is found wherever it came in (a
 * field, a field of a field, a child's binding, the message, the cause of an error), and by whoever logged it.
 */
export function createLogger({ level, format, destination }: LoggerOptions): Logger {
  const colours = destination === undefined && process.stdout.isTTY === true
  const print = format === 'json' ? (line: string) => line : formatPretty(colours)
  // Written synchronously: a line about why a process ends must not die with the process.
  const out = destination ?? pino.destination({ dest: 1, sync: true })
  const options = {
    level,
    base: null, // one process is one chain, and the supervisor knows its pid
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: {
      level: (label: string) => ({ level: label }),
      log: (fields: Record<string, unknown>) => printableFields(fields),
    },
    serializers: { err: (error: unknown) => printable(error) }, // pino's own would add a stack
  }
  return pino(options, { write: (line: string) => void out.write(print(redactText(line))) })
}

/** For tests, and for whoever must be given a logger. */
export const silentLogger = (): Logger => pino({ level: 'silent' }, { write: () => undefined })

/** Below this pino writes `[Object]`; and a value may hold itself. */
const DEPTH_MAX = 5

const printableFields = (fields: Record<string, unknown>, depth = 0): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, printable(value, depth + 1)]))

/** Times and amounts are `bigint`: as decimal strings they keep every digit in any reader of JSON. */
function printable(value: unknown, depth = 0): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (value instanceof Error) return serializeError(value)
  if (value === null || typeof value !== 'object' || depth > DEPTH_MAX) return value
  if (Array.isArray(value)) return value.map((item) => printable(item, depth + 1))
  return Object.getPrototypeOf(value) === Object.prototype
    ? printableFields(value as Record<string, unknown>, depth)
    : value
}
