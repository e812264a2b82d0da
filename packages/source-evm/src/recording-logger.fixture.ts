import { Writable } from 'node:stream'
import { createLogger, type Logger } from '@lockstep/telemetry'

interface Line {
  readonly msg: string
  readonly [field: string]: unknown
}

/** A logger, and its lines so far. */
export function recordingLogger(): { readonly logger: Logger; readonly lines: readonly Line[] } {
  const lines: Line[] = []
  const destination = new Writable({
    decodeStrings: false,
    write: (text, _encoding, done) => {
      lines.push(JSON.parse(String(text)))
      done()
    },
  })
  return { logger: createLogger({ level: 'info', format: 'json', destination }), lines }
}
