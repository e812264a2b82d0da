/** As much of `ws` as is used here: it brings no types of its own. */
declare module 'ws' {
  import type { EventEmitter } from 'node:events'

  export class WebSocket extends EventEmitter {
    constructor(
      address: string,
      options?: { readonly handshakeTimeout?: number; readonly maxPayload?: number },
    )
    send(text: string): void
    /** Ends the connection now; `close` follows. */
    terminate(): void
  }
}
