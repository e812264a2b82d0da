import { describeConfig } from '@lockstep/config'
import { type GlobalWords, readConfig } from '../session.js'

/** `lockstep config check`: every mistake at once, or what was understood. Makes no connection. */
export function configCheck(words: GlobalWords): void {
  process.stdout.write(`${describeConfig(readConfig(words))}\n`)
}
