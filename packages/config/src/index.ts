export { argumentNames } from './argument-names.js'
export { ConfigError, type ConfigProblem, formatProblem } from './config-error.js'
export { describeConfig } from './describe-config.js'
export { jsonSchema } from './editor-schema.js'
export { type EvmArgument, type EvmEvent, evmEvent, isHashed } from './evm-event.js'
export type { Environment } from './expand-variables.js'
export { cosmosFilter, evmFilter, type FilterOptions, filtersOf } from './filter-digest.js'
export { type FilterSelection, selectionsMeet } from './filter-selection.js'
export { type ConfigInput, loadConfig } from './load-config.js'
export type {
  ChainOptions,
  ContractQuery,
  CosmosChainOptions,
  CosmosContractOptions,
  CosmosEventFilter,
  DatabaseOptions,
  EndpointOptions,
  EvmChainOptions,
  EvmContractOptions,
  EvmEventOptions,
  FactoryOptions,
  Finality,
  FinalityTag,
  LeaseOptions,
  LockstepOptions,
  OnFork,
  RewindOptions,
  TopicFilter,
} from './options.js'
