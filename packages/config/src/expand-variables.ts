// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables in the file are written so
/** The process environment, or what stands for it in a test. */
export type Environment = Readonly<Record<string, string | undefined>>

export interface Expansion {
  readonly text: string
  /** Every value that came from the environment, so that it can be kept out of messages. */
  readonly used: readonly { readonly name: string; readonly value: string }[]
  readonly problems: readonly { readonly message: string; readonly hint: string }[]
}

// In this order: an escaped reference, a complete one, one without an end.
const REFERENCE = /\$\$\{|\$\{([^}]*)\}|\$\{/g
const BODY = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([\s\S]*))?$/

/**
 * `${VAR}` and `${VAR:-default}` in one text; `$${` stands for a plain `${`. A variable that is set but empty counts
 * as unset, as in a shell's `:-`: an empty address is never what somebody wanted.
 */
export function expandVariables(text: string, env: Environment): Expansion {
  const used: { name: string; value: string }[] = []
  const problems: { message: string; hint: string }[] = []
  const expanded = text.replace(REFERENCE, (whole: string, body: string | undefined) => {
    if (whole === '$${') return '${'
    const [, name, fallback] = (body !== undefined && BODY.exec(body)) || []
    if (name === undefined || fallback?.includes('${')) {
      problems.push(MALFORMED)
      return ''
    }
    const value = Object.hasOwn(env, name) ? env[name] : undefined
    if (value) used.push({ name, value })
    else if (fallback === undefined) problems.push(unset(name, value))
    return value || (fallback ?? '')
  })
  return { text: expanded, used, problems }
}

/** The variable's name where the text is nothing but one reference without a default. */
export const soleVariable = (text: string): string | null =>
  /^\s*\$\{([A-Za-z_][A-Za-z0-9_]*)\}\s*$/.exec(text)?.[1] ?? null

const MALFORMED = {
  message: 'holds a reference to a variable that cannot be read',
  hint: 'Write ${NAME} or ${NAME:-default}, the default without another reference; $${ gives a plain ${.',
}

const unset = (name: string, value: string | undefined) => ({
  message: `environment variable ${name} is ${value === undefined ? 'not set' : 'empty'}`,
  hint: `Set ${name}, or give a default: \${${name}:-…}.`,
})
