/** As much of `ws` as is used here: it brings no types of its own. */
declare module 'ws' {
  import type { EventEmitter } from 'node:events'
  import type { Server } from 'node:http'

  export interface ServedSocket extends EventEmitter {
    send(text: string): void
    close(): void
    terminate(): void
  }

  export class WebSocketServer extends EventEmitter {
    readonly clients: ReadonlySet<ServedSocket>
    constructor(options: { readonly server: Server; readonly path: string })
    close(): void
  }
}
