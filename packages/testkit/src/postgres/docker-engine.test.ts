import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { dockerEngineAnswers } from './docker-engine.js'

let folder: string
let server: Server
let answer: number | null

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lockstep-docker-'))
  answer = 200
  server = createServer((request, response) => {
    if (answer !== null) response.writeHead(request.url === '/_ping' ? answer : 404).end('OK')
  })
})
afterEach(async () => {
  server.closeAllConnections()
  server.close()
  await rm(folder, { recursive: true })
})

test('an engine on a socket or a port answers', async () => {
  const socket = join(folder, 'docker.sock')
  server.listen(socket)
  await once(server, 'listening')
  expect(await dockerEngineAnswers(`unix://${socket}`)).toBe(true)
  answer = 500
  expect(await dockerEngineAnswers(`unix://${socket}`)).toBe(false)
  answer = null // accepts, and says nothing
  expect(await dockerEngineAnswers(`unix://${socket}`)).toBe(false)
})

test('by TCP too, until it is gone', async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  expect(await dockerEngineAnswers(`tcp://127.0.0.1:${port}`)).toBe(true)
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
  expect(await dockerEngineAnswers(`tcp://127.0.0.1:${port}`)).toBe(false)
})

test('what cannot be asked counts as no engine', async () => {
  expect(await dockerEngineAnswers(`unix://${join(folder, 'nothing.sock')}`)).toBe(false)
  expect(await dockerEngineAnswers('ssh://somebody@somewhere')).toBe(false)
  expect(await dockerEngineAnswers('nonsense')).toBe(false)
})
