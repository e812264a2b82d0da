import { prettyFactory } from 'pino-pretty'

type Fields = Readonly<Record<string, unknown>>

/** pino-pretty's line, with the fields as `name=value` behind the sentence; an error follows on lines of its own. */
export function formatPretty(colours: boolean): (line: string) => string {
  const pretty = prettyFactory({
    colorize: colours,
    translateTime: 'SYS:HH:MM:ss.l',
    hideObject: true, // it would take one line a field
    messageFormat: (log, messageKey) => message(log, String(log[messageKey] ?? '')),
  })
  return (line) => pretty(line)
}

const OWN = new Set(['level', 'time', 'msg'])

const isError = (name: string, value: unknown): value is Fields =>
  name === 'err' && value !== null && typeof value === 'object'

function message(log: Fields, sentence: string): string {
  const fields = Object.entries(log).filter(([name, value]) => !OWN.has(name) && !isError(name, value))
  const line = [sentence, ...fields.map(([name, value]) => `${name}=${show(value)}`)].join(' ')
  return [line, ...errorLines(log.err, sentence)].join('\n')
}

/** Quoted only where the value would not end where the next name begins. */
function show(value: unknown): string {
  if (typeof value === 'string') return /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value)
  return JSON.stringify(value)
}

function errorLines(error: unknown, sentence: string): string[] {
  if (!isError('err', error)) return []
  const { message, hint, causes, stack } = error
  const told = [
    ...(message === sentence ? [] : [message]),
    ...(Array.isArray(causes) ? causes.map((cause) => `because: ${cause}`) : []),
    ...(hint === undefined ? [] : [`Hint: ${hint}`]),
    ...(stack === undefined ? [] : [stack]),
  ]
  return told.map((text) => `    ${String(text).replaceAll('\n', '\n    ')}`)
}
