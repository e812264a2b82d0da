import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { type Call, callRpc } from './call-rpc.js'

export interface AnvilOptions {
  readonly chainId: number
  /** Seconds between blocks; left out: one block for each transaction. */
  readonly blockTime?: number
  /** Seconds, of block 0. */
  readonly genesisTime?: number
  /** Blocks in an epoch: `safe` lies one epoch below the head and `finalized` two. Anvil's default is 32. */
  readonly slotsInAnEpoch?: number
  /** Further words of Anvil's command line. */
  readonly args?: readonly string[]
}

export interface Anvil {
  readonly url: string
  readonly pid: number
  /** Ends the process and resolves when it is gone. */
  stop(): Promise<void>
  rpc<T = unknown>(method: Call['method'], params?: Call['params']): Promise<T>
}

const START_TIMEOUT_MS = 30_000

/**
 * Starts Foundry's Anvil on a free port.
 *
 * It never outlives its parent, not even one that was killed with -9: it runs under a shell that waits on a pipe
 * from us. The kernel closes the pipe whatever way we end, and then the shell kills it.
 */
export async function startAnvil(options: AnvilOptions): Promise<Anvil> {
  const words = [anvilBinary(), ...wordsOf(options)]
  const guard = spawn('sh', ['-c', GUARD, 'anvil-guard', ...words], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  const gone = once(guard, 'exit')
  const stop = async (): Promise<void> => {
    guard.stdin.end()
    await gone
  }
  try {
    const { pid, url } = await Promise.race([
      readStart(guard.stdout),
      failWith(guard.stderr, once(guard, 'close')),
    ])
    guard.stdout.resume() // it logs each call, and would stand still with a full pipe
    guard.stderr.resume()
    for (const handle of [guard, guard.stdin, guard.stdout, guard.stderr]) unref(handle)
    return { url, pid, stop, rpc: (method, params = []) => callRpc(url, { method, params }) }
  } catch (error) {
    await stop()
    throw error
  }
}

// fd 3 is our pipe: a job in the background has /dev/null for its standard input. `read` comes back when the pipe
// closes. Anvil's own end (a bad option) ends the reader too, so that the shell does not wait for ever.
const GUARD = `
exec 3<&0
"$@" </dev/null 3<&- &
anvil=$!
echo "pid $anvil"
( read -r line <&3; kill -9 $anvil 2>/dev/null ) >/dev/null 2>&1 &
reader=$!
wait $anvil
status=$?
kill $reader 2>/dev/null
exit $status`

const PLATFORMS: Readonly<Record<string, string>> = {
  'linux-x64': 'linux-amd64',
  'linux-arm64': 'linux-arm64',
  'darwin-x64': 'darwin-amd64',
  'darwin-arm64': 'darwin-arm64',
}

/** The binary in the package of this platform. Anvil's own wrapper would be one more process to end. */
function anvilBinary(): string {
  const platform = PLATFORMS[`${process.platform}-${process.arch}`]
  if (platform === undefined) throw new Error(`there is no Anvil for ${process.platform} ${process.arch}`)
  const fromHere = createRequire(import.meta.url)
  const fromWrapper = createRequire(fromHere.resolve('@foundry-rs/anvil/package.json'))
  return fromWrapper.resolve(`@foundry-rs/anvil-${platform}/bin/anvil`)
}

function wordsOf(options: AnvilOptions): string[] {
  const words = ['--port', '0', '--host', '127.0.0.1', '--chain-id', String(options.chainId)]
  if (options.blockTime !== undefined) words.push('--block-time', String(options.blockTime))
  if (options.genesisTime !== undefined) words.push('--timestamp', String(options.genesisTime))
  if (options.slotsInAnEpoch !== undefined) words.push('--slots-in-an-epoch', String(options.slotsInAnEpoch))
  return [...words, ...(options.args ?? [])]
}

/** Its pid from the guard, its address from its own words. */
async function readStart(output: NodeJS.ReadableStream): Promise<{ pid: number; url: string }> {
  let pid = 0
  for await (const line of createInterface({ input: output })) {
    const started = /^pid (\d+)$/.exec(line)
    const listening = /Listening on (\S+)/.exec(line)
    if (started !== null) pid = Number(started[1])
    if (listening !== null) return { pid, url: `http://${listening[1]}` }
  }
  return new Promise(() => undefined) // it ended, and `failWith` knows why
}

async function failWith(errors: NodeJS.ReadableStream, gone: Promise<unknown>): Promise<never> {
  let text = ''
  errors.on('data', (chunk: Buffer) => {
    text += chunk.toString()
  })
  const timeout = new Promise((resolve) => setTimeout(resolve, START_TIMEOUT_MS, 'timeout').unref())
  const why = await Promise.race([gone, timeout])
  throw new Error(
    why === 'timeout' ? `Anvil did not listen within ${START_TIMEOUT_MS} ms` : `Anvil ended: ${text.trim()}`,
  )
}

/** A forgotten Anvil must not keep a finished test run from ending. */
const unref = (handle: object): void => {
  if ('unref' in handle && typeof handle.unref === 'function') handle.unref()
}
