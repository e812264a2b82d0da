/* Goal: the server speaks JSON-RPC 2.0 and fails as told. Method: plain fetch over loopback. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { HttpFailure, JsonRpcServer, RpcFault } from './index.js'

let server: JsonRpcServer
let url: string

beforeEach(async () => {
  server = new JsonRpcServer((method, params) => {
    if (method === 'echo') return params
    if (method === 'nothing') return undefined
    if (method === 'break') throw new Error('broken inside')
    if (method === 'drop') throw new HttpFailure({ kind: 'drop' })
    throw new RpcFault(-32601, `no ${method}`, { method })
  })
  url = await server.start()
})
afterEach(() => server.stop())

const post = (body: unknown): Promise<Response> =>
  fetch(url, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) })

const call = (id: number, method: string, params?: unknown) => ({ jsonrpc: '2.0', id, method, params })

describe('answers', () => {
  test('a call with its result or its error', async () => {
    expect(await (await post(call(1, 'echo', [7]))).json()).toEqual({ jsonrpc: '2.0', id: 1, result: [7] })
    expect(await (await post(call(2, 'nothing'))).json()).toEqual({ jsonrpc: '2.0', id: 2, result: null })
    expect(await (await post(call(3, 'other'))).json()).toEqual({
      jsonrpc: '2.0',
      id: 3,
      error: { code: -32601, message: 'no other', data: { method: 'other' } },
    })
    expect(await (await post(call(4, 'break'))).json()).toMatchObject({
      error: { code: -32603, message: 'broken inside' },
    })
    expect(await (await post('{')).json()).toMatchObject({ error: { code: -32700 } })
  })

  test('a batch as a list, of one call too', async () => {
    expect(await (await post([call(1, 'echo', [1])])).json()).toEqual([
      { jsonrpc: '2.0', id: 1, result: [1] },
    ])
    expect(await (await post([call(1, 'echo', [1]), call(2, 'other')])).json()).toMatchObject([
      { id: 1 },
      { id: 2, error: {} },
    ])
    expect([server.httpRequests, server.calls.length, server.countOf('echo')]).toEqual([2, 3, 2])
  })

  test('a URI call', async () => {
    const answer = await (await fetch(`${url}/echo?height=5&query="tm.event='NewBlock'"`)).json()
    expect(answer).toEqual({ jsonrpc: '2.0', id: -1, result: { height: '5', query: "tm.event='NewBlock'" } })
  })
})

describe('fails', () => {
  test('for the next requests as told, one after the other', async () => {
    server.failNext(1, { kind: 'status', status: 429, body: 'slow down', headers: { 'retry-after': '7' } })
    server.failNext(1, { kind: 'error', code: -32005, message: 'busy' })
    server.failNext(1, { kind: 'drop' })
    const first = await post(call(1, 'echo'))
    expect([first.status, first.headers.get('retry-after'), await first.text()]).toEqual([
      429,
      '7',
      'slow down',
    ])
    expect(await (await post([call(1, 'echo')])).json()).toEqual([
      { jsonrpc: '2.0', id: 1, error: { code: -32005, message: 'busy' } },
    ])
    await expect(post(call(1, 'echo'))).rejects.toThrow()
    expect((await post(call(1, 'echo'))).status).toBe(200)
  })

  test('for batches that are too long, for what disturb() says, and from inside a handler', async () => {
    server.batchMax = 1
    expect((await post([call(1, 'echo'), call(2, 'echo')])).status).toBe(413)
    server.disturb = ([first]) => (first?.method === 'echo' ? { kind: 'status', status: 500 } : null)
    expect((await post(call(1, 'echo'))).status).toBe(500)
    expect((await post(call(1, 'nothing'))).status).toBe(200)
    await expect(post(call(1, 'drop'))).rejects.toThrow()
  })

  test('by not answering, until the connections are dropped', async () => {
    server.failNext(1, { kind: 'hang' })
    const asked = post(call(1, 'echo'))
      .then(() => 'answered')
      .catch(() => 'dropped')
    expect(await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, 50, 'waiting'))])).toBe(
      'waiting',
    )
    server.dropConnections()
    expect(await asked).toBe('dropped')
  })

  test('late', async () => {
    server.latencyMs = 60
    const before = performance.now()
    await post(call(1, 'echo'))
    expect(performance.now() - before).toBeGreaterThanOrEqual(55)
  })
})

test('a stopped server comes back on its port', async () => {
  const { port } = server
  await server.stop()
  await expect(post(call(1, 'echo'))).rejects.toThrow()
  expect(await server.start(port)).toBe(url)
  expect((await post(call(1, 'echo'))).status).toBe(200)
})
