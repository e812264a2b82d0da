export {
  type PostgresForTests,
  type PostgresForTestsOptions,
  startPostgresForTests,
} from './postgres-for-tests.js'
export { findSystemPostgres, startSystemPostgres } from './system-postgres.js'
export { startTcpProxy, type TcpProxy } from './tcp-proxy.js'
export { createTestDatabase, type TestDatabase, type TestDatabaseOptions } from './test-database.js'
