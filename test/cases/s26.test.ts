// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables in the file are written so
/*
 * Goal: all mistakes of a config are told at once and in their places, before anything is connected to.
 * Method: the real command on a real file, whose database and nodes are one address that counts who comes; and what the
 * config is resolved to, for spellings that mean the same.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ChainOptions, loadConfig } from '@lockstep/config'
import { Program } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { LOCKSTEP } from '../kit/deployment.js'
import { Scene } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const USDC = '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48'

async function fileWith(yaml: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lockstep-case-'))
  scene.later(() => rm(folder, { recursive: true }))
  await mkdir(join(folder, 'config'))
  const file = join(folder, 'config', 'chains.yaml')
  await writeFile(file, yaml)
  return file
}

/** An address where nobody answers, and how often somebody came. */
async function countedAddress(): Promise<{ readonly port: number; readonly came: () => number }> {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  scene.later(() => new Promise((resolve) => server.close(resolve)))
  return { port: (server.address() as AddressInfo).port, came: () => connections }
}

test('S26: four mistakes are listed with path and line, before any connection, and no secret is printed', async () => {
  const { port, came } = await countedAddress()
  const file = await fileWith(`database:
  url: postgres://user:s3cret@127.0.0.1:${port}/db
chains:
  alpha:
    kind: evm
    chainId: 1
    rpc: ["\${ALPHA_RPC_URL}", "http://user:s3cret@127.0.0.1:${port}/key"]
    startHeight: 5
    endHeight: soon
    polInterval: 2s
    contracts:
      usdc:
        address: ${USDC}
        abi: ["event Ping()"]
  beta:
    enabled: false
    kind: cosmos
    rpc: ["\${BETA_RPC_URL}"]
`)
  const start = new Program({ entry: LOCKSTEP, args: ['start', '--config', file] })
  const { code, stdout, stderr } = await start.ended()
  expect(code).toBe(2)
  const said = stdout + stderr
  expect(said).toContain('has 4 mistakes')
  for (const mistake of [
    /:7:\d+ chains\.alpha\.rpc\[0\]: environment variable ALPHA_RPC_URL is not set/,
    /:9:\d+ chains\.alpha\.endHeight: must be a whole number, found text/,
    /:10:\d+ chains\.alpha\.polInterval: unknown key\s+Did you mean "pollInterval"\?/,
    /:13:\d+ chains\.alpha\.contracts\.usdc\.address: must be an address or a list of addresses, in quotes/,
  ])
    expect(said).toMatch(mistake)
  expect(said).not.toContain('s3cret')
  expect(said).not.toContain('BETA_RPC_URL')
  expect(came()).toBe(0)
})

const configWith = (address: string, more = ''): string => `chains:
  alpha:
    kind: evm
    chainId: 1
    rpc: http://localhost:8545
    startHeight: 5
    contracts:
      usdc:
        address: ${address}
        abi: ["event Ping()"]
${more}`

const chainOf = async (yaml: string): Promise<ChainOptions | undefined> =>
  loadConfig({ file: await fileWith(yaml), env: {} }).chains[0]

test('S26: the case of an address makes no difference, a wrong checksum is named, and a disabled chain needs no variable', async () => {
  const spellings = [USDC, USDC.toLowerCase(), `0x${USDC.slice(2).toUpperCase()}`]
  const [first, ...others] = await Promise.all(spellings.map((each) => chainOf(configWith(`"${each}"`))))
  expect(first?.contracts).toMatchObject([{ addresses: [USDC.toLowerCase()] }])
  for (const other of others) expect(other).toEqual(first)

  const wrong = USDC.replace('D', 'd')
  await expect(chainOf(configWith(`"${wrong}"`))).rejects.toThrow(/wrong checksum/)
  await expect(chainOf(configWith(USDC))).rejects.toThrow(/in quotes/)
  const disabled = '  beta:\n    enabled: false\n    kind: evm\n    rpc: ["${BETA_RPC_URL}"]\n'
  expect(await chainOf(configWith(`"${USDC}"`, disabled))).toEqual(first)
})
