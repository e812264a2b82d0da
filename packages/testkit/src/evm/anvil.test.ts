/*
 * Goal: Anvil starts on a free port, serves a real token, and never outlives whoever started it.
 * Method: the real binary; the parent of the last test is a process that is killed with -9.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Anvil, startAnvil } from './anvil.js'
import { deployErc20, startTransfers } from './erc20.js'
import { TRANSFER_TOPIC } from './transfer-log.js'

describe('a running Anvil', () => {
  let anvil: Anvil
  beforeAll(async () => {
    anvil = await startAnvil({ chainId: 4242, genesisTime: 1_700_000_000, slotsInAnEpoch: 2 })
  })
  afterAll(() => anvil.stop())

  test('has the chain id and the genesis time that were asked for', async () => {
    expect(await anvil.rpc('eth_chainId')).toBe('0x1092')
    const genesis = await anvil.rpc<{ timestamp: string }>('eth_getBlockByNumber', ['0x0', false])
    expect(Number(genesis.timestamp)).toBe(1_700_000_000)
  })

  test('mines the transfers of a token', async () => {
    const token = await deployErc20(anvil.url)
    const driver = startTransfers(token, 5)
    while (driver.sent < 3) await sleep(5)
    await driver.stop()
    const { sent } = driver
    expect(driver.lastError).toBeNull()
    const logs = await anvil.rpc<{ data: string }[]>('eth_getLogs', [
      { fromBlock: '0x0', address: token.address, topics: [TRANSFER_TOPIC] },
    ])
    const values = logs.slice(1).map((log) => Number(log.data)) // the first is the supply
    expect(values).toEqual(Array.from({ length: sent }, (_, index) => index + 1))
    await sleep(30)
    expect(driver.sent).toBe(sent)
  })
})

test('stop() ends the process', async () => {
  const anvil = await startAnvil({ chainId: 1 })
  expect(isAlive(anvil.pid)).toBe(true)
  await anvil.stop()
  expect(isAlive(anvil.pid)).toBe(false)
})

test('a bad option is an error with the words of Anvil', async () => {
  await expect(startAnvil({ chainId: 1, args: ['--no-such-option'] })).rejects.toThrow(/--no-such-option/)
})

test('is gone soon after its parent was killed with -9', async () => {
  const anvilModule = fileURLToPath(new URL('./anvil.ts', import.meta.url))
  const script = `import(${JSON.stringify(anvilModule)}).then(async ({ startAnvil }) => {
    console.log((await startAnvil({ chainId: 1 })).pid)
    setInterval(() => {}, 1000)
  })`
  const parent = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string]
  const pid = Number(line)
  expect(isAlive(pid)).toBe(true)
  parent.kill('SIGKILL')
  await once(parent, 'exit')
  for (let tries = 0; isAlive(pid) && tries < 100; tries++) await sleep(50)
  expect(isAlive(pid)).toBe(false)
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
