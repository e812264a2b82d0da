import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { RpcFault } from './json-rpc-server.js'

/**
 * Answers a call that came over a connection. What it returns is the `result`; `notify` sends a message of its own
 * to that connection, and does nothing once it is closed.
 */
export type SocketHandler = (method: string, params: unknown, notify: (message: unknown) => void) => unknown

/** JSON-RPC over WebSocket beside a JSON-RPC server, on its port, at any path. */
export class RpcSockets {
  /** New connections are refused with HTTP 403. */
  refuses = false
  /** Connections that were opened so far. */
  opened = 0
  /** Those that were refused. */
  refused = 0

  readonly #sockets = new WebSocketServer({ noServer: true })

  constructor(
    server: Server,
    private readonly handler: SocketHandler,
  ) {
    server.on('upgrade', (request: IncomingMessage, stream: Duplex, head: Buffer) => {
      if (this.refuses) {
        this.refused += 1
        stream.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n')
        return
      }
      this.#sockets.handleUpgrade(request, stream, head, (socket) => this.#welcome(socket))
    })
  }

  /** Connections that are open now. */
  get open(): number {
    return this.#sockets.clients.size
  }

  /** Ends every open connection now, without a word. */
  drop(): void {
    for (const socket of this.#sockets.clients) socket.terminate()
  }

  #welcome(socket: WebSocket): void {
    this.opened += 1
    const send = (message: unknown) => {
      if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(message))
    }
    socket.on('error', () => {}) // the client went away
    socket.on('message', async (data) => {
      const { id, method, params } = JSON.parse(String(data))
      try {
        send({ jsonrpc: '2.0', id, result: (await this.handler(String(method), params ?? [], send)) ?? null })
      } catch (error) {
        const { code, message } = error instanceof RpcFault ? error : new RpcFault(-32603, String(error))
        send({ jsonrpc: '2.0', id, error: { code, message } })
      }
    })
  }
}
