import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  accessSync,
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export interface CometBftOptions {
  /** The network's name; default `lockstep-test`. */
  readonly chainId?: string
  /** Pause between blocks; default 100. */
  readonly blockTimeMs?: number
  /** Height of the first block; default 1. */
  readonly initialHeight?: number
  /** How long the node may take to its first block; default 30 s, since machines are shared. */
  readonly startTimeoutMs?: number
}

/** A real node, of one validator, with CometBFT's own key-value application. */
export interface CometBft {
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  readonly pid: number
  /** As `status` gives it. */
  readonly version: string
  /** Puts `key=value` into a block, and waits for it. */
  addTx(key: string, value: string): Promise<{ readonly hash: `0x${string}`; readonly height: number }>
  /** Ends the node and removes its files. */
  stop(): Promise<void>
}

/** From this file to the project: packages/testkit/{src,dist}/comet. */
const PROJECT = fileURLToPath(new URL('../../../../', import.meta.url))

/**
 * The `cometbft` binary: COMETBFT_BIN, then PATH, then where `scripts/install-cometbft.mjs` puts it. Null where there
 * is none.
 *
 * @throws Error where COMETBFT_BIN is set to what cannot be run: tests would be skipped in silence
 */
export function findCometBft(env: NodeJS.ProcessEnv = process.env): string | null {
  const configured = env.COMETBFT_BIN ?? ''
  if (configured !== '') {
    if (!isExecutable(configured)) throw new Error(`COMETBFT_BIN names ${configured}, which cannot be run`)
    return configured
  }
  const folders = [
    ...(env.PATH ?? '').split(delimiter).filter((folder) => folder !== ''),
    join(PROJECT, '.tools/bin'),
  ]
  return folders.map((folder) => join(folder, 'cometbft')).find(isExecutable) ?? null
}

/** Starts a node with a chain of its own, and waits for its first block. @throws Error with the end of its log */
export async function startCometBft(options: CometBftOptions = {}): Promise<CometBft> {
  const binary = findCometBft()
  if (binary === null)
    throw new Error('no cometbft binary was found: run "node scripts/install-cometbft.mjs"')
  const home = mkdtempSync(join(tmpdir(), 'lockstep-cometbft-'))
  const watchdog = startWatchdog(home)
  try {
    await promisify(execFile)(binary, ['init', '--home', home])
    const port = await freePort()
    configure(home, port, options)
    const node = spawnNode(binary, home)
    watchdog.guard(node.pid)
    const url = `http://127.0.0.1:${port}`
    const version = await firstBlock(url, node.process, home, options.startTimeoutMs ?? 30_000)
    const stop = async () => {
      await endProcess(node.process)
      watchdog.dismiss()
      rmSync(home, { recursive: true, force: true })
    }
    return { url, pid: node.pid, version, addTx: (key, value) => addTx(url, key, value), stop }
  } catch (error) {
    watchdog.fire()
    throw error
  }
}

/**
 * A parent killed with -9 runs no handler, and its node would go on for ever. A small shell in a session of its own
 * (so that Ctrl-C does not reach it) waits at a pipe that only this process holds: when the pipe closes without the
 * word, this process is gone.
 */
function startWatchdog(home: string) {
  const script =
    'read -r pid; read -r word; [ "$word" = done ] && exit 0; [ -n "$pid" ] && kill -9 "$pid"; sleep 0.2; rm -rf "$1"'
  const shell = spawn('sh', ['-c', script, 'sh', home], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  shell.unref()
  const { stdin } = shell
  stdin.on('error', () => {}) // the shell went first: there is nothing left to tell it
  if ('unref' in stdin && typeof stdin.unref === 'function') stdin.unref()
  return {
    guard: (pid: number) => stdin.write(`${pid}\n`),
    dismiss: () => stdin.end('done\n'),
    fire: () => stdin.end(),
  }
}

/** By editing what `init` wrote: not all of these settings have a flag. */
function configure(home: string, port: number, options: CometBftOptions): void {
  const configFile = join(home, 'config/config.toml')
  const settings: readonly (readonly [RegExp, string])[] = [
    [/^laddr = "tcp:\/\/127\.0\.0\.1:26657"$/m, `laddr = "tcp://127.0.0.1:${port}"`],
    [/^laddr = "tcp:\/\/0\.0\.0\.0:26656"$/m, 'laddr = "tcp://127.0.0.1:0"'],
    [/^timeout_commit = .*$/m, `timeout_commit = "${options.blockTimeMs ?? 100}ms"`],
    [/^pex = .*$/m, 'pex = false'],
  ]
  let config = readFileSync(configFile, 'utf8')
  for (const [pattern, line] of settings) {
    if (!pattern.test(config)) throw new Error(`${configFile} has no line like ${pattern}`)
    config = config.replace(pattern, line)
  }
  writeFileSync(configFile, config)
  const genesisFile = join(home, 'config/genesis.json')
  const genesis = JSON.parse(readFileSync(genesisFile, 'utf8')) as Record<string, unknown>
  genesis.chain_id = options.chainId ?? 'lockstep-test'
  genesis.initial_height = String(options.initialHeight ?? 1)
  writeFileSync(genesisFile, JSON.stringify(genesis))
}

function spawnNode(binary: string, home: string): { process: ChildProcess; pid: number } {
  // Straight into a file: nothing of the node's fate hangs on a pipe to this process.
  const log = openSync(logFile(home), 'a')
  const node = spawn(binary, ['start', '--home', home, '--proxy_app=kvstore'], {
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  if (node.pid === undefined) throw new Error(`${binary} could not be started`)
  return { process: node, pid: node.pid }
}

const logFile = (home: string): string => join(home, 'node.log')

/** The node's version, once it has a block. */
async function firstBlock(url: string, node: ChildProcess, home: string, timeoutMs: number): Promise<string> {
  const deadline = performance.now() + timeoutMs
  while (node.exitCode === null && node.signalCode === null && performance.now() < deadline) {
    const status = (await ask(url, 'status', {}).catch(() => null)) as Status | null
    if (status !== null && status.sync_info.latest_block_height !== '0') return status.node_info.version
    await sleep(50)
  }
  const end = readFileSync(logFile(home), 'utf8').split('\n').slice(-15).join('\n')
  throw new Error(`cometbft gave no block within ${timeoutMs} ms; the end of its log:\n${end}`)
}

interface Status {
  readonly node_info: { readonly version: string }
  readonly sync_info: { readonly latest_block_height: string }
}

async function addTx(url: string, key: string, value: string) {
  const tx = Buffer.from(`${key}=${value}`).toString('base64')
  const answer = (await ask(url, 'broadcast_tx_commit', { tx })) as {
    readonly hash: string
    readonly height: string
    readonly check_tx: { readonly code: number; readonly log: string }
  }
  if (answer.check_tx.code !== 0) throw new Error(`cometbft refused ${key}=${value}: ${answer.check_tx.log}`)
  return { hash: `0x${answer.hash.toLowerCase()}` as const, height: Number(answer.height) }
}

async function ask(url: string, method: string, params: object): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  const answer = (await response.json()) as { readonly result?: unknown; readonly error?: unknown }
  if (answer.result === undefined)
    throw new Error(`cometbft refused ${method}: ${JSON.stringify(answer.error)}`)
  return answer.result
}

/** Asks it to end, and after 5 s insists. */
async function endProcess(node: ChildProcess): Promise<void> {
  if (node.exitCode !== null || node.signalCode !== null) return
  const exited = once(node, 'exit')
  node.kill('SIGTERM')
  const timer = setTimeout(() => node.kill('SIGKILL'), 5000)
  await exited
  clearTimeout(timer)
}

/** A port that was free a moment ago: CometBFT does not say which one it took for port 0. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
