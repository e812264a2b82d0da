export {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  startEmbeddedPostgres,
} from './embedded-postgres.js'
export { type FoundPostgres, findEmbeddedPostgres } from './find.js'
export {
  startTemporaryPostgres,
  type TemporaryPostgres,
  type TemporaryPostgresOptions,
} from './temporary-postgres.js'
