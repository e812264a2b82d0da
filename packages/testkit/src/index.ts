export {
  type CometBft,
  type CometBftOptions,
  type CometBlockScript,
  type CometEventScript,
  type CometOverride,
  type CometTxScript,
  cosmosChainOptions,
  findCometBft,
  loadRecordedCometChain,
  SimulatedCometChain,
  type SimulatedCometChainOptions,
  SimulatedCometNode,
  startCometBft,
} from './comet/index.js'
export * from './deployment/index.js'
export * from './evm/index.js'
export * from './postgres/index.js'
export * from './rpc/index.js'
