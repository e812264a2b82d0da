/*
 * Goal: a rewind reaches a worker whose notification connection is gone, and nothing is committed meanwhile.
 * Method: beta's connections lead through a relay that holds back `listen` as long as a test wants: the session exists,
 * and hears nothing. Its old session is ended by the server.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { chainKey } from '@lockstep/domain'
import { evmChainOptions } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, Scene, type Stage, transfers } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

/** Seconds of block n. */
const at = (block: number) => 1_700_000_000 + 12 * block

interface Relay {
  readonly url: string
  /** From now on no `listen` goes through. */
  hold(): void
  /** How many are held back. */
  readonly held: number
  /** Lets them through, and all that come. */
  release(): void
}

/** Stands before the database and knows one word of its protocol. */
async function startRelay(databaseUrl: string): Promise<Relay> {
  const direct = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  const waiting: (() => void)[] = []
  let holding = false
  const server = createServer((client) => {
    const target = connect(Number(direct.port), direct.hostname)
    for (const [one, other] of [
      [client, target],
      [target, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => {}) // 'close' follows
      one.on('close', () => other.destroy())
    }
    target.pipe(client)
    client.on('data', (bytes) => {
      if (holding && bytes.includes('listen ')) waiting.push(() => target.write(bytes))
      else target.write(bytes)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  scene.later(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  const url = new URL(direct)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    hold: () => {
      holding = true
    },
    get held() {
      return waiting.length
    },
    release: () => {
      holding = false
      for (const send of waiting.splice(0)) send()
    },
  }
}

/**
 * Beta at block 50 through a relay, beside alpha, whose worker is away: a rewind stays where it is. Beta looks for a
 * new block every ten minutes only, so that nothing but `rewindPollMs` and notifications makes it look at all.
 */
async function begin(rewindPollMs: number) {
  const [node, other] = [await scene.evm(transfers(50)), await scene.evm(transfers(50), { seed: 2 })]
  const alpha = evmChainOptions({ rpc: [node.url], pollMs: 30 })
  const beta = evmChainOptions({ chain: chainKey('beta'), rpc: [other.url], pollMs: 600_000 })
  const stage = await scene.deploy(alpha, beta)
  const away = stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  await away.stop()
  const relay = await startRelay(stage.deployment.url)
  const patient = { leaseMs: 600_000, takeOverAfterMs: 600_000 }
  const worker = stage.work(beta, { url: relay.url, pollMs: rewindPollMs, ...patient })
  await stage.untilAt('beta', headOf(other))
  return { node, other, alpha, stage, relay, worker }
}

const listening = (holder: string): string =>
  `pg_stat_activity where query like 'listen %' and application_name = 'lockstep:${holder}'`

const heightsAbove = (stage: Stage, height: number) =>
  stage.list(
    `select height from event where chain = 'beta' and height > $1
     union all select height from header where chain = 'beta' and height > $1`,
    [height],
  )

test('S10: a worker whose listening session was ended finds the rewind by its polling, and stores nothing after it', async () => {
  const { node, other, alpha, stage, relay, worker } = await begin(1000)
  const [session] = await stage.list(`select pid from ${listening(worker.db.holder)}`)
  relay.hold()
  await stage.list(`select pg_terminate_backend($1)`, [session])
  await sleep(1000)
  await stage.rewind(at(20))
  other.extend(transfers(5, 60))
  // Nothing can tell it but its own look: the new session is held back.
  await stage.untilPhase('beta', 'paused', /waiting for alpha/)
  expect(relay.held).toBe(1)
  expect(await heightsAbove(stage, 20)).toEqual([])
  expect(
    await stage.rows(`select checkpoint_before as before, cut from rewind_chain where chain = 'beta'`),
  ).toEqual([{ before: 50, cut: 20 }])

  relay.release()
  await stage.until('a new session that listens', async () => {
    const [pid] = await stage.list(`select pid from ${listening(worker.db.holder)}`)
    return pid !== undefined && pid !== session
  })
  stage.work(alpha)
  await stage.untilReleased()
  await stage.untilAt('beta', headOf(other))
  await stage.untilAt('alpha', headOf(node))
})

test('S10: a notice that is sent between connecting and listening is made up for by a look after listening', async () => {
  // It would look by itself only after ten minutes.
  const { other, stage, relay, worker } = await begin(600_000)
  await stage.untilPhase('beta', 'live')
  relay.hold()
  await stage.list(`select pg_terminate_backend(pid) from ${listening(worker.db.holder)}`)
  await stage.until('a session that does not listen yet', async () => relay.held === 1)
  await sleep(300) // it was woken when the session ended, and rests again
  await stage.rewind(at(20))
  await sleep(1000)
  expect(await stage.waitingFor()).toEqual(['alpha', 'beta'])
  relay.release()
  await stage.untilPhase('beta', 'paused', /waiting for alpha/)
  expect(await heightsAbove(stage, 20)).toEqual([])
  expect(headOf(other).height).toBe(50)
})
