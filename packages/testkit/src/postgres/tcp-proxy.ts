import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

export interface TcpProxy {
  readonly port: number
  /** Resets all connections that are open now; new ones are let through. */
  cut(): void
  /** Holds every byte back, in both directions, as a network does that lost its way: nobody is told. */
  pause(): void
  /** Lets through what was held back, and all that follows. */
  resume(): void
  /** Whether new connections are refused, as by a host whose server is down. Open ones stay. */
  refuse(on: boolean): Promise<void>
  stop(): Promise<void>
}

interface Pair {
  readonly client: Socket
  readonly target: Socket
}

/** Stands between a client and its server, on loopback, to take the network away from them. */
export async function startTcpProxy(targetHost: string, targetPort: number): Promise<TcpProxy> {
  const pairs = new Set<Pair>()
  let paused = false
  const accept = (client: Socket) => {
    const target = connect({ port: targetPort, host: targetHost, allowHalfOpen: true, noDelay: true })
    const pair = { client, target }
    pairs.add(pair)
    endTogether(pair, () => pairs.delete(pair))
    if (!paused) join(pair)
  }
  let server: Server | null = await listen(accept, 0)
  const { port } = server.address() as AddressInfo
  const cut = () => {
    for (const { client, target } of pairs) {
      client.resetAndDestroy()
      target.destroy()
    }
  }
  const refuse = async (on: boolean) => {
    if (on) server?.close() // it stops listening at once, and waits for open connections before it says so
    server = on ? null : (server ?? (await listen(accept, port)))
  }
  return {
    port,
    cut,
    refuse,
    pause: () => {
      paused = true
      for (const pair of pairs) part(pair)
    },
    resume: () => {
      paused = false
      for (const pair of pairs) join(pair)
    },
    stop: async () => {
      await refuse(true)
      cut()
    },
  }
}

async function listen(accept: (client: Socket) => void, port: number): Promise<Server> {
  // Half open connections stay so: who has said all it wants may still be answered.
  const server = createServer({ allowHalfOpen: true, noDelay: true }, accept).listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}

function join({ client, target }: Pair): void {
  client.pipe(target)
  target.pipe(client)
}

/** A socket that is piped nowhere is not read; the kernel's buffers fill, and then the other side waits. */
function part({ client, target }: Pair): void {
  client.unpipe(target)
  target.unpipe(client)
}

function endTogether({ client, target }: Pair, ended: () => void): void {
  for (const [one, other] of [
    [client, target],
    [target, client],
  ] as const) {
    one.on('error', () => {}) // 'close' follows
    one.on('close', (hadError) => {
      if (hadError) other.resetAndDestroy()
      else other.destroySoon() // after what is still on its way
      ended()
    })
  }
}
