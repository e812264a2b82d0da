import type { Server } from 'node:http'
import { type WebSocket, WebSocketServer } from 'ws'
import type { ServedBlock } from './comet-wire.js'

interface Subscription {
  readonly socket: WebSocket
  readonly id: unknown
  readonly query: string
}

/** The websocket of a simulated node: takes subscriptions, and announces what it is told to. */
export class CometSockets {
  readonly #server: WebSocketServer
  #subscriptions: Subscription[] = []
  /** Each further subscription is refused so; null: it is taken. */
  refusal: string | null = null
  /** Subscriptions so far, refused ones too. */
  asked = 0

  constructor(server: Server) {
    this.#server = new WebSocketServer({ server, path: '/websocket' })
    this.#server.on('error', () => {}) // the HTTP server tells of its own
    this.#server.on('connection', (socket: WebSocket) => {
      socket.on('message', (data: unknown) => this.#answer(socket, String(data)))
      socket.on('close', () => {
        this.#subscriptions = this.#subscriptions.filter((each) => each.socket !== socket)
      })
    })
  }

  get open(): number {
    return this.#server.clients.size
  }

  announce({ block: { block_id, block } }: ServedBlock): void {
    for (const { socket, id, query } of this.#subscriptions) {
      const data = { type: 'tendermint/event/NewBlock', value: { block, block_id } }
      const events = { 'tm.event': ['NewBlock'] }
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, result: { query, data, events } }))
    }
  }

  /** Ends every connection: with a goodbye as a node that stops, or without as one that is cut off. */
  drop(goodbye: boolean): void {
    for (const socket of this.#server.clients) goodbye ? socket.close() : socket.terminate()
  }

  /** Connections stay, and nobody is told anything any more. */
  forget(): void {
    this.#subscriptions = []
  }

  stop(): void {
    this.drop(false)
    this.#server.close()
  }

  #answer(socket: WebSocket, text: string): void {
    const { id, method, params } = JSON.parse(text) as {
      readonly id: unknown
      readonly method: string
      readonly params: { readonly query: string }
    }
    if (method !== 'subscribe') return
    this.asked += 1
    if (this.refusal !== null) {
      const error = { code: -32603, message: 'Internal error', data: this.refusal }
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, error }))
      return
    }
    this.#subscriptions.push({ socket, id, query: params.query })
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, result: {} }))
  }
}
