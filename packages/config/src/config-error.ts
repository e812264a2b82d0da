import { LockstepError } from '@lockstep/domain'

/** One mistake in the configuration, at its place. */
export interface ConfigProblem {
  /** As it was given to `loadConfig`. */
  readonly file: string
  /** From 1; null where the file itself could not be read. */
  readonly line: number | null
  readonly column: number | null
  /** `chains.ethereum.rpc[0]`; empty for the file as a whole. */
  readonly path: string
  readonly message: string
  readonly hint: string
}

/** All mistakes of one configuration. Holds no value of an environment variable and no URL. */
export class ConfigError extends LockstepError {
  readonly code = 'config'
  readonly retryable = false

  constructor(
    file: string,
    readonly problems: readonly ConfigProblem[],
  ) {
    const count = problems.length === 1 ? '1 mistake' : `${problems.length} mistakes`
    super(
      `${file} has ${count}:\n${problems.map(formatProblem).join('\n')}`,
      'Nothing was started and no connection was made. "lockstep config check" reads the file again.',
      { file, mistakes: problems.length },
    )
  }
}

/** `config/chains.yaml:12:7 chains.ethereum.startHieght: unknown key`, and the hint on a line of its own. */
export function formatProblem(problem: ConfigProblem): string {
  const place = problem.line === null ? problem.file : `${problem.file}:${problem.line}:${problem.column}`
  const subject = problem.path === '' ? place : `${place} ${problem.path}`
  return `  ${subject}: ${problem.message}\n      ${problem.hint}`
}
