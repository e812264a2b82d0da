import { describeError, LockstepError } from '@lockstep/domain'
import { errorCode } from '@lockstep/store'
import { redactText } from '@lockstep/telemetry'
import { CommanderError } from 'commander'
import { EXIT, exitCodeOf } from './exit-codes.js'
import { createProgram } from './program.js'

// Nothing is lost in silence: a promise that nobody waited for ends the process, and whoever supervises it starts it anew.
process.on('unhandledRejection', (error) => die(error))
process.on('uncaughtException', (error) => die(error))

try {
  await createProgram(process.env).parseAsync()
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.badInput
  else fail(error)
}

/** A sentence for a person; the stack only where it helps: for a defect of the program itself. */
function fail(error: unknown): void {
  // A refusal of PostgreSQL (a missing privilege, a full disk) is a sentence already.
  const known = error instanceof LockstepError || /^[0-9A-Z]{5}$/.test(errorCode(error) ?? '')
  const stack = !known && error instanceof Error ? `\n${error.stack ?? ''}` : ''
  process.stderr.write(`lockstep: ${redactText(describeError(error) + stack)}\n`)
  process.exitCode = exitCodeOf(error)
}

function die(error: unknown): never {
  fail(error)
  process.exit(EXIT.failed)
}
