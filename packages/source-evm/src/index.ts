export { compileEvent, type EventDecoder, type LogContent } from './decode-event.js'
export { createEvmSource, type EvmSourceDeps } from './evm-source.js'
