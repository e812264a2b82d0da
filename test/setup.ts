import { startPostgresForTests } from '../packages/testkit/src/postgres/index.js'

/** One PostgreSQL for all test files of a run; each makes its own databases in it by `createTestDatabase`. */
export default async function setup(): Promise<() => Promise<void>> {
  const { TEST_DATABASE_URL: databaseUrl, DOCKER_HOST: dockerHost } = process.env
  const server = await startPostgresForTests({ databaseUrl, dockerHost })
  process.stdout.write(`PostgreSQL for tests: ${server.description}\n`)
  return () => server.stop()
}
