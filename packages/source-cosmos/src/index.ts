export { type CosmosSourceDependencies, createCosmosSource } from './cosmos-source.js'
export { headerHash } from './header-hash.js'
