import { randomBytes } from 'node:crypto'
import { describeError } from '@lockstep/domain'
import { startTemporaryPostgres } from '@lockstep/store'
import { dockerEngineAnswers } from './docker-engine.js'
import { beginRun, dropLeftovers, endRun } from './test-database.js'

export interface PostgresForTestsOptions {
  /** Usually TEST_DATABASE_URL: a role that may create databases. */
  readonly databaseUrl: string | undefined
  /** Usually DOCKER_HOST. */
  readonly dockerHost: string | undefined
}

export interface PostgresForTests {
  /** May create and drop databases. */
  readonly adminUrl: string
  /** Which one it is, for people; holds no secret. */
  readonly description: string
  /** Removes all that this run has made. */
  stop(): Promise<void>
}

/**
 * The one PostgreSQL of a test run: the one that was given, else a container where a Docker engine answers, else
 * the embedded one. Test files get databases of their own in it by `createTestDatabase`, which finds it by the
 * environment that is set here.
 */
export async function startPostgresForTests(options: PostgresForTestsOptions): Promise<PostgresForTests> {
  const server = await startServer(options)
  await dropLeftovers(server.adminUrl)
  const run = beginRun(server.adminUrl)
  return {
    ...server,
    stop: async () => {
      await endRun(server.adminUrl, run)
      await server.stop()
    },
  }
}

async function startServer(options: PostgresForTestsOptions): Promise<PostgresForTests> {
  if (options.databaseUrl) {
    return {
      adminUrl: options.databaseUrl,
      description: 'the one of TEST_DATABASE_URL',
      stop: async () => {},
    }
  }
  if (!(await dockerEngineAnswers(options.dockerHost))) return startEmbedded('no Docker engine answers')
  try {
    return await startContainer()
  } catch (error) {
    return startEmbedded(`a container could not be started: ${describeError(error)}`)
  }
}

async function startEmbedded(why: string): Promise<PostgresForTests> {
  const server = await startTemporaryPostgres()
  return { adminUrl: server.url, description: `embedded ${server.version} (${why})`, stop: server.stop }
}

const IMAGE = 'postgres:18-alpine'

/** Removed by testcontainers' own watcher where this process is killed. */
async function startContainer(): Promise<PostgresForTests> {
  // Loaded only where it is used: it takes most of a second.
  const { GenericContainer, Wait } = await import('testcontainers')
  const password = randomBytes(12).toString('hex')
  const settings = [
    'fsync=off',
    'synchronous_commit=off',
    'full_page_writes=off',
    'max_connections=200',
    'timezone=UTC',
  ]
  const container = await new GenericContainer(IMAGE)
    .withEnvironment({ POSTGRES_USER: 'lockstep', POSTGRES_PASSWORD: password })
    .withCommand(['postgres', ...settings.flatMap((setting) => ['-c', setting])])
    .withExposedPorts(5432)
    // The first time is the server that only makes the database.
    .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2))
    .start()
  return {
    adminUrl: `postgres://lockstep:${password}@${container.getHost()}:${container.getMappedPort(5432)}/lockstep`,
    description: `a container of ${IMAGE}`,
    stop: async () => void (await container.stop()),
  }
}
