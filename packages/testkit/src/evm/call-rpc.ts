import { RpcFault } from '../rpc/index.js'

export interface Call {
  readonly method: string
  readonly params: readonly unknown[]
}

/** One JSON-RPC call over HTTP. @throws RpcFault with the node's error */
export async function callRpc<T>(url: string, { method, params }: Call): Promise<T> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const answer = (await response.json()) as {
    result?: T
    error?: { code: number; message: string; data?: unknown }
  }
  if (answer.error !== undefined)
    throw new RpcFault(answer.error.code, answer.error.message, answer.error.data)
  return answer.result as T
}
