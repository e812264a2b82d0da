import { request } from 'node:http'

/** How long an engine may take to say OK. One that is down refuses at once; this is for firewalls. */
const PING_TIMEOUT_MS = 2_000

/**
 * Whether a Docker engine answers. Asked of the engine itself: a `docker` command on the PATH proves nothing, and
 * containers that cannot start cost every test file its time limit.
 *
 * @param dockerHost as in DOCKER_HOST; only `unix://` and `tcp://` can be asked, others count as no engine
 */
export async function dockerEngineAnswers(dockerHost: string | undefined): Promise<boolean> {
  const address = parseDockerHost(dockerHost ?? 'unix:///var/run/docker.sock')
  if (address === null) return false
  return new Promise((resolve) => {
    const ping = request({ ...address, path: '/_ping', timeout: PING_TIMEOUT_MS }, (answer) => {
      answer.resume()
      resolve(answer.statusCode === 200)
    })
    ping.on('timeout', () => ping.destroy())
    ping.on('error', () => resolve(false))
    ping.on('close', () => resolve(false)) // of no effect after an answer
    ping.end()
  })
}

function parseDockerHost(text: string): { socketPath: string } | { host: string; port: string } | null {
  if (text.startsWith('unix://')) return { socketPath: text.slice('unix://'.length) }
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || (url.protocol !== 'tcp:' && url.protocol !== 'http:')) return null
  return { host: url.hostname, port: url.port || '2375' }
}
