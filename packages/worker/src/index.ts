export type { RetryDelays } from './backoff.js'
export { runChainWorker } from './chain-worker.js'
export { createSource } from './create-source.js'
export type { WorkerOptions } from './worker-options.js'
