import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import type { Hex } from '@lockstep/domain'
import { EvmNode } from './evm-node.js'
import type { RpcObject, ServedBlock, ServedChain, ServedLog } from './served-chain.js'

/** Blocks of a real chain, as a node gave them. Heights that were not recorded are answered with null. */
export class RecordedEvmChain implements ServedChain {
  /** Set by a test that wants the tags; recordings have none. */
  finalized: number | null = null
  safe: number | null = null
  readonly #blocks: readonly ServedBlock[]
  readonly #byHeight: ReadonlyMap<number, ServedBlock>
  readonly #byHash: ReadonlyMap<string, ServedBlock>
  readonly #byTransaction: ReadonlyMap<string, ServedBlock>

  /** @param blocks in any order, at least one */
  constructor(
    readonly chainId: number,
    blocks: readonly ServedBlock[],
  ) {
    this.#blocks = [...blocks].sort((a, b) => a.number - b.number)
    this.#byHeight = new Map(this.#blocks.map((block) => [block.number, block]))
    this.#byHash = new Map(this.#blocks.map((block) => [block.hash, block]))
    this.#byTransaction = new Map(
      this.#blocks.flatMap((block) => block.transactions.map(({ hash }) => [String(hash), block])),
    )
    if (this.#blocks.length === 0) throw new RangeError('no blocks were recorded')
  }

  get head(): ServedBlock {
    return this.#blocks.at(-1) as ServedBlock
  }

  get first(): ServedBlock {
    return this.#blocks[0] as ServedBlock
  }

  at(height: number): ServedBlock | null {
    return this.#byHeight.get(height) ?? null
  }

  byHash(hash: string): ServedBlock | null {
    return this.#byHash.get(hash.toLowerCase()) ?? null
  }

  byTransaction(txHash: string): ServedBlock | null {
    return this.#byTransaction.get(txHash.toLowerCase()) ?? null
  }

  /** A recording does not grow. */
  onBlock(): () => void {
    return () => {}
  }

  snapshot(): ServedChain {
    return this
  }
}

/** Serves recordings over HTTP; with the same ways to fail and lie as the simulated node. */
export const replayedEvmNode = (chain: RecordedEvmChain): EvmNode<RecordedEvmChain> => new EvmNode(chain)

/**
 * The recordings in the folders. A folder holds a run of blocks (`blocks.json`, with `receipts.json`), a single
 * block (`block.json`, with `receipts.json`), or blocks without logs, one a line (`….jsonl.gz`).
 */
export function loadRecordedEvmChain(chainId: number, ...folders: readonly string[]): RecordedEvmChain {
  return new RecordedEvmChain(chainId, folders.flatMap(loadFolder))
}

function loadFolder(folder: string): ServedBlock[] {
  const files = readdirSync(folder)
  const lines = files.find((file) => file.endsWith('.jsonl.gz'))
  if (lines !== undefined) return readLines(join(folder, lines)).map((block) => serve(block, []))
  const receipts = readJson(join(folder, 'receipts.json')) as readonly RpcObject[]
  if (files.includes('block.json'))
    return [serve(readJson(join(folder, 'block.json')) as RpcObject, receipts)]
  const byHeight = new Map(receipts.map((entry) => [entry.number, entry.receipts as readonly RpcObject[]]))
  const blocks = readJson(join(folder, 'blocks.json')) as readonly RpcObject[]
  return blocks.map((block) => serve(block, byHeight.get(block.number) ?? []))
}

const readJson = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'))

const readLines = (file: string): RpcObject[] =>
  gunzipSync(readFileSync(file))
    .toString('utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as RpcObject)

function serve(block: RpcObject, receipts: readonly RpcObject[]): ServedBlock {
  const { transactions, ...header } = block
  return {
    number: Number(block.number),
    hash: block.hash as Hex,
    parentHash: block.parentHash as Hex,
    time: Number(block.timestamp),
    header,
    transactions: transactions as readonly RpcObject[],
    receipts,
    logs: receipts.flatMap((receipt) => receipt.logs as readonly ServedLog[]),
  }
}
