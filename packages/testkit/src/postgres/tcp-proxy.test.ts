import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startTcpProxy, type TcpProxy } from './tcp-proxy.js'

let echo: Server
let proxy: TcpProxy
const sockets: Socket[] = []

beforeEach(async () => {
  echo = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    socket.pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(echo, 'listening')
  proxy = await startTcpProxy('127.0.0.1', (echo.address() as AddressInfo).port)
})
afterEach(async () => {
  await proxy.stop()
  for (const socket of sockets.splice(0)) socket.destroy()
  echo.close()
})

function open(): Socket {
  const socket = connect(proxy.port, '127.0.0.1')
  sockets.push(socket)
  socket.setEncoding('utf8')
  return socket
}

/** The next words that come back; null where none do for a while. */
async function heard(socket: Socket, waitMs = 2_000): Promise<string | null> {
  const abort = new AbortController()
  const words = once(socket, 'data', { signal: abort.signal }).then(([text]) => String(text))
  const silence = sleep(waitMs, null, { signal: abort.signal })
  try {
    return await Promise.race([words, silence])
  } finally {
    abort.abort()
    await Promise.allSettled([words, silence])
  }
}

test('everything goes through, up to the last byte of a half closed connection', async () => {
  const client = open()
  let text = ''
  client.on('data', (chunk) => {
    text += chunk
  })
  client.end('x'.repeat(3_000_000))
  await once(client, 'end')
  expect(text.length).toBe(3_000_000)
})

test('cut resets what is open, and lets new connections through', async () => {
  const before = open()
  before.write('hello')
  expect(await heard(before)).toBe('hello')
  const error = once(before, 'error')
  proxy.cut()
  expect((await error)[0]).toMatchObject({ code: 'ECONNRESET' })
  const after = open()
  after.write('again')
  expect(await heard(after)).toBe('again')
})

test('pause holds back, also for those who come meanwhile, and resume lets through all of it in order', async () => {
  const before = open()
  before.write('one ')
  expect(await heard(before)).toBe('one ')
  proxy.pause()
  const during = open()
  during.write('new')
  before.write('two')
  expect(await Promise.all([heard(before, 200), heard(during, 200)])).toEqual([null, null])
  proxy.resume()
  expect(await Promise.all([heard(before), heard(during)])).toEqual(['two', 'new'])
})

test('refuse is a refusal, and leaves open connections alone', async () => {
  const before = open()
  before.write('one')
  expect(await heard(before)).toBe('one')
  await proxy.refuse(true)
  expect((await once(open(), 'error'))[0]).toMatchObject({ code: 'ECONNREFUSED' })
  before.write('two')
  expect(await heard(before)).toBe('two')
  await proxy.refuse(false)
  const after = open()
  after.write('three')
  expect(await heard(after)).toBe('three')
})
