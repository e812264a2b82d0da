import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { CometChainView, ServedBlock, WireBlockResults } from './comet-wire.js'

/**
 * A chain that was recorded: single blocks with their results, and holes between them. `version` is not in the
 * recordings of blocks, so it has to be said.
 */
export class RecordedCometChain implements CometChainView {
  readonly #blocks: ReadonlyMap<number, ServedBlock>

  constructor(
    readonly version: string,
    blocks: readonly ServedBlock[],
  ) {
    this.#blocks = new Map(blocks.map((served) => [Number(served.block.block.header.height), served]))
    if (this.#blocks.size === 0) throw new Error('no recorded block was found')
  }

  /** Ascending. */
  get heights(): readonly number[] {
    return [...this.#blocks.keys()].sort((a, b) => a - b)
  }

  get chainId(): string {
    return this.at(this.head)?.block.block.header.chain_id ?? ''
  }

  get initialHeight(): number {
    return this.heights[0] ?? 0
  }

  get head(): number {
    return this.heights.at(-1) ?? 0
  }

  at(height: number): ServedBlock | null {
    return this.#blocks.get(height) ?? null
  }
}

/**
 * Loads what lies in these folders, of one chain: `block.json` with `block_results.json` beside it (in the folder or
 * in its sub-folders, one a height), or `block_at_height_<n>.json` with `block_results_at_height_<n>.json`.
 */
export function loadRecordedCometChain(version: string, ...folders: readonly string[]): RecordedCometChain {
  return new RecordedCometChain(version, folders.flatMap(loadFolder))
}

function loadFolder(folder: string): ServedBlock[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    if (statSync(path).isDirectory()) return loadFolder(path)
    if (name === 'block.json') return loadPair(path, join(folder, 'block_results.json'))
    if (!/^block_at_height_\d+\.json$/.test(name)) return []
    return loadPair(path, join(folder, name.replace('block_at', 'block_results_at')))
  })
}

function loadPair(blockFile: string, resultsFile: string): ServedBlock[] {
  const block = resultOf(blockFile) as ServedBlock['block'] | null
  if (block === null) return [] // a recorded refusal
  return [{ block, results: existsSync(resultsFile) ? (resultOf(resultsFile) as WireBlockResults) : null }]
}

/** The `result` of a recorded answer; some recordings are the bare result. */
export function resultOf(file: string): unknown {
  const answer = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
  if ('error' in answer) return null
  return 'result' in answer ? answer.result : answer
}
