import { describeError, InvariantError, LockstepError } from '@lockstep/domain'

/** An error as fields. Only a defect has a stack: for what a person can put right, sentence and hint say more. */
export function serializeError(error: Error): Record<string, unknown> {
  const causes = causesOf(error)
  return {
    ...(error instanceof LockstepError
      ? {
          code: error.code,
          retryable: error.retryable,
          message: error.message,
          hint: error.hint,
          facts: error.facts,
        }
      : { type: error.name, message: describeError(error) }),
    ...(causes.length === 0 ? {} : { causes }),
    ...(isDefect(error) ? { stack: error.stack } : {}),
  }
}

/** Deeper ones say nothing new, and a cause may lead back to its own error. */
const CAUSES_MAX = 5

function causesOf(error: Error): string[] {
  const causes: string[] = []
  for (let cause = error.cause; cause !== undefined && causes.length < CAUSES_MAX; ) {
    causes.push(describeError(cause))
    cause = cause instanceof Error ? cause.cause : undefined
  }
  return causes
}

/** `fetch` reports a dead network as a TypeError too, but always with its cause. */
const isDefect = (error: Error): boolean =>
  error instanceof InvariantError ||
  (error.cause === undefined && [TypeError, ReferenceError, RangeError].some((kind) => error instanceof kind))
