export { type CosmosSourceDependencies, createCosmosSource } from './cosmos-source.js'
