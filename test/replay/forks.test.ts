/*
 * Goal: forks that really happened are rolled back one by one, and what is stored in the end is what a worker has that
 * never saw an orphan.
 * Method: a node serves recorded blocks of Ethereum, at each height first the recorded orphans and then their canonical
 * sibling, and goes on only when the worker has stored what it shows. Skipped without LOCKSTEP_REAL_DATA.
 */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { Hex } from '@lockstep/domain'
import { height } from '@lockstep/domain'
import {
  EvmNode,
  evmChainOptions,
  loadRecordedEvmChain,
  type RecordedEvmChain,
  type ServedBlock,
  type ServedChain,
} from '@lockstep/testkit'
import { afterEach, describe, expect, test } from 'vitest'
import { Scene } from '../worker/scene.js'
import { expectVerified, recorded, recording } from './replay-chain.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

type Header = Readonly<Record<string, unknown>> & {
  readonly number: Hex
  readonly hash: Hex
  readonly parentHash: Hex
}

/** The recorded orphans, by height. */
function orphansOf(file: string): Map<number, ServedBlock[]> {
  const bytes = readFileSync(recording('reorg', 'uncles', file))
  const entries = file.endsWith('.gz')
    ? gunzipSync(bytes)
        .toString('utf8')
        .trim()
        .split('\n')
        .map((line): unknown => JSON.parse(line))
    : (JSON.parse(bytes.toString('utf8')) as unknown[])
  const orphans = new Map<number, ServedBlock[]>()
  for (const { uncle } of entries as { uncle: Header }[]) {
    const block = orphanOf(uncle)
    orphans.set(block.number, [...(orphans.get(block.number) ?? []), block])
  }
  return orphans
}

const orphanOf = (header: Header): ServedBlock => ({
  number: Number(header.number),
  hash: header.hash,
  parentHash: header.parentHash,
  time: Number(header.timestamp),
  header: { ...header, uncles: [] },
  transactions: [], // only their headers are on record
  receipts: [],
  logs: [],
})

/** A recorded chain up to a block that stands for its head: an orphan, or a canonical one. */
class ForkingChain implements ServedChain {
  readonly finalized = null
  readonly safe = null
  readonly #heads: readonly ServedBlock[]
  #at = 0

  constructor(
    readonly recording: RecordedEvmChain,
    readonly orphans: ReadonlyMap<number, readonly ServedBlock[]>,
    from: number,
    to: number,
  ) {
    this.#heads = Array.from({ length: to - from + 1 }, (_, index) => from + index).flatMap((at) => {
      const canonical = recording.at(at)
      return canonical === null ? [] : [...(at === from ? [] : (orphans.get(at) ?? [])), canonical]
    })
  }

  get chainId(): number {
    return this.recording.chainId
  }

  get head(): ServedBlock {
    return this.#heads[this.#at] as ServedBlock // never empty, and #at stays within
  }

  get first(): ServedBlock {
    return this.#heads[0] as ServedBlock
  }

  get ended(): boolean {
    return this.#at === this.#heads.length - 1
  }

  /** How many orphans it shows in all. */
  get orphanCount(): number {
    return this.#heads.filter((block) => this.recording.at(block.number) !== block).length
  }

  next(): void {
    if (!this.ended) this.#at += 1
  }

  at(at: number): ServedBlock | null {
    if (at >= this.head.number) return at === this.head.number ? this.head : null
    return this.recording.at(at)
  }

  byHash(hash: string): ServedBlock | null {
    return this.#heads.find((block) => block.hash === hash.toLowerCase()) ?? null
  }

  byTransaction(txHash: string): ServedBlock | null {
    return this.recording.byTransaction(txHash)
  }

  /** It is polled: its blocks are announced to nobody. */
  onBlock(): () => void {
    return () => {}
  }

  snapshot(): ServedChain {
    return this
  }
}

const RUNS: readonly [string, string, string, number, number][] = [
  ['its first 150 blocks', 'ethereum-genesis-era', 'ethereum-0-4095-uncles.jsonl.gz', 0, 150],
  [
    'blocks 1000001 to 1000030',
    'ethereum-run-1000001',
    'ethereum-1000001-1000050-uncles.json',
    1_000_001,
    1_000_030,
  ],
  [
    'blocks 1000040 to 1000050',
    'ethereum-run-1000001',
    'ethereum-1000001-1000050-uncles.json',
    1_000_040,
    1_000_050,
  ],
]

describe.skipIf(!recorded('reorg'))('recorded forks of Ethereum (LOCKSTEP_REAL_DATA)', () => {
  test.each(RUNS)('%s', async (_, folder, uncles, from, to) => {
    const recordedChain = loadRecordedEvmChain(1, recording('evm', folder))
    const chain = new ForkingChain(recordedChain, orphansOf(uncles), from, to)
    expect(chain.orphanCount).toBeGreaterThan(0)
    const node = new EvmNode(chain)
    await node.start()
    scene.later(() => node.stop())
    const alpha = evmChainOptions({ rpc: [node.url], startHeight: height(from), blocks: 'all', pollMs: 1 })
    const stage = await scene.deploy(alpha)
    node.answer('eth_getBlockByNumber', async ([tag], honest) => {
      if (tag === 'latest' && (await stage.checkpoint('alpha')).hash === chain.head.hash) chain.next()
      return honest()
    })
    const worker = stage.work(alpha)
    await stage.until('the last block', async () => chain.ended, 170_000)
    await stage.untilAt('alpha', { height: to, hash: recordedChain.at(to)?.hash ?? '' })
    await worker.stop()

    expect(await stage.list('select checkpoint_before - fork_point from rollback')).toEqual(
      Array.from({ length: chain.orphanCount }, () => 1),
    )
    await expectVerified(stage, alpha)
    await stage.expectFresh(alpha)
  })
})
