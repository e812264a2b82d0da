import { ConfigError } from '@lockstep/config'
import {
  BadInputError,
  DatabaseUnavailableError,
  RequestRefusedError,
  SchemaVersionError,
} from '@lockstep/domain'

/** What a program that calls `lockstep` can tell apart. Shown by `lockstep --help`. */
export const EXIT = {
  done: 0,
  failed: 1,
  badInput: 2,
  refused: 3,
  databaseUnavailable: 4,
  /** 128 + SIGINT: following was interrupted, or a second signal ended the program at once. */
  interrupted: 130,
} as const

export const EXIT_CODES_HELP = `
Exit codes:
  0    done
  1    failed; the sentence on standard error says why
  2    the words on the command line or the config are wrong; nothing was changed
  3    refused, or answered with no; nothing was changed
  4    the database cannot be used, or its tables do not fit
  130  interrupted; a rewind that was requested goes on without its follower`

export function exitCodeOf(error: unknown): number {
  if (error instanceof BadInputError || error instanceof ConfigError) return EXIT.badInput
  if (error instanceof RequestRefusedError) return EXIT.refused
  if (error instanceof DatabaseUnavailableError || error instanceof SchemaVersionError)
    return EXIT.databaseUnavailable
  return EXIT.failed
}
