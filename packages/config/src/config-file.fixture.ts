import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigError } from './config-error.js'
import type { Environment } from './expand-variables.js'
import { loadConfig } from './load-config.js'
import type { LockstepOptions } from './options.js'

/** A folder as a person has it: `config/chains.yaml`, and other files by name beside it. Gone after `use`. */
export function withConfig<T>(
  yaml: string,
  files: Readonly<Record<string, string>>,
  use: (file: string, folder: string) => T,
): T {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-config-'))
  try {
    mkdirSync(join(folder, 'config'))
    for (const [name, text] of Object.entries({ 'chains.yaml': yaml, ...files }))
      writeFileSync(join(folder, 'config', name), text)
    return use(join(folder, 'config', 'chains.yaml'), folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

export const load = (
  yaml: string,
  env: Environment = {},
  files: Readonly<Record<string, string>> = {},
): LockstepOptions => withConfig(yaml, files, (file) => loadConfig({ file, env }))

/** The whole text a person would see, as if the file had been given as `config/chains.yaml`. */
export function mistakesIn(
  yaml: string,
  env: Environment = {},
  files: Readonly<Record<string, string>> = {},
): string {
  return withConfig(yaml, files, (file, folder) => {
    try {
      loadConfig({ file, env })
    } catch (error) {
      if (error instanceof ConfigError) return error.message.replaceAll(`${folder}/`, '')
      throw error
    }
    return 'no mistake'
  })
}

/** One EVM chain with the given lines in place of, or beside, those that make it complete. */
export function evmChain(lines: { readonly chain?: string; readonly contract?: string } = {}): string {
  const contract = lines.contract ?? 'abi: ["event Ping(uint256 n)"]'
  const chain = lines.chain ?? ''
  return `chains:
  alpha:
    kind: evm
    chainId: 1
    rpc: http://localhost:8545
    startHeight: 5
${indent(chain, 4)}    contracts:
      pings:
${indent(contract, 8)}`
}

/** One Cosmos chain, likewise. */
export function cosmosChain(lines: { readonly chain?: string; readonly contract?: string } = {}): string {
  return `chains:
  beta:
    kind: cosmos
    chainId: beta-1
    rpc: http://localhost:26657
    startHeight: 1
${indent(lines.chain ?? '', 4)}    contracts:
      registry:
${indent(lines.contract ?? 'events: [wasm]', 8)}`
}

const indent = (text: string, by: number): string =>
  text === ''
    ? ''
    : `${text
        .split('\n')
        .map((line) => ' '.repeat(by) + line)
        .join('\n')}\n`
