export { createEvmSource, type EvmSourceDeps } from './evm-source.js'
