// A real CometBFT process: it starts, takes transactions, and never outlives who started it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { findCometBft, startCometBft } from './cometbft-process.js'

const binary = findCometBft()

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

async function until(condition: () => boolean, what: string): Promise<void> {
  for (let waitedMs = 0; !condition(); waitedMs += 50) {
    if (waitedMs > 10_000) throw new Error(`still not so after 10 s: ${what}`)
    await sleep(50)
  }
}

describe.skipIf(binary === null)('a CometBFT process', { timeout: 60_000 }, () => {
  it('takes a transaction, and is gone with its files after stop', async () => {
    const node = await startCometBft({ chainId: 'kv-9', blockTimeMs: 50, initialHeight: 3 })
    const tx = await node.addTx('colour', 'blue')
    expect(tx.hash).toMatch(/^0x[0-9a-f]{64}$/)
    expect(tx.height).toBeGreaterThanOrEqual(3)
    expect(node.version).toMatch(/^\d+\.\d+\.\d+/)
    const home = homeOf(node.pid)
    expect(existsSync(home)).toBe(true)
    await node.stop()
    expect(isAlive(node.pid)).toBe(false)
    expect(existsSync(home)).toBe(false)
    await node.stop() // again does nothing
  })

  it('runs as two nodes side by side', async () => {
    const pair = await Promise.all([startCometBft(), startCometBft()])
    expect(new Set(pair.map(({ url }) => url)).size).toBe(2)
    await Promise.all(pair.map((node) => node.stop()))
  })

  it('is gone, with its files, after its parent was killed with -9', async () => {
    const module = new URL('./cometbft-process.ts', import.meta.url).href
    const script = `const { startCometBft } = await import(${JSON.stringify(module)})
      const node = await startCometBft(); process.stdout.write(String(node.pid)); setInterval(() => {}, 1000)`
    const args = ['--import', 'tsx', '--input-type=module', '-e', script]
    const parent = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    const [written] = (await once(parent.stdout, 'data')) as [Buffer]
    const pid = Number(written.toString())
    const home = homeOf(pid)
    expect(isAlive(pid)).toBe(true)
    parent.kill('SIGKILL')
    await until(() => !isAlive(pid), 'the node ended')
    await until(() => !existsSync(home), 'its files are removed')
  })

  it('that cannot start says the end of its log, and leaves nothing', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'lockstep-fake-'))
    const fake = join(folder, 'cometbft')
    const start = `[ "$1" = init ] && exec "${binary}" "$@"; echo "home is $3"; echo "no disk left"; exit 3`
    writeFileSync(fake, `#!/bin/sh\n${start}\n`, { mode: 0o755 })
    const before = process.env.COMETBFT_BIN
    process.env.COMETBFT_BIN = fake
    try {
      const error = await startCometBft().catch((thrown: unknown) => thrown)
      expect(String(error)).toContain('no disk left')
      const home = /home is (\S+)/.exec(String(error))?.[1] ?? ''
      await until(() => !existsSync(home), 'its files are removed')
    } finally {
      if (before === undefined) delete process.env.COMETBFT_BIN
      else process.env.COMETBFT_BIN = before
      rmSync(folder, { recursive: true })
    }
  })
})

/** From the command line of the running process. */
function homeOf(pid: number): string {
  const parts = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
  return parts[parts.indexOf('--home') + 1] ?? ''
}

it.runIf(binary === null)('a CometBFT process is skipped: there is no binary', (context) => {
  context.skip('run "node scripts/install-cometbft.mjs", or set COMETBFT_BIN')
})

describe('findCometBft', () => {
  it('takes what COMETBFT_BIN names, then what is in PATH', () => {
    const folder = mkdtempSync(join(tmpdir(), 'lockstep-find-'))
    const file = join(folder, 'cometbft')
    writeFileSync(file, '', { mode: 0o755 })
    expect(findCometBft({ COMETBFT_BIN: file })).toBe(file)
    expect(findCometBft({ PATH: `/nowhere:${folder}` })).toBe(file)
    rmSync(folder, { recursive: true })
    expect(() => findCometBft({ COMETBFT_BIN: file })).toThrow(/cannot be run/)
  })
})
