/*
 * Goal: a log query that a node finds too large is narrowed, in whatever words the node says so.
 * Method: a chain of 50,000 blocks whose node refuses log queries over more than 300 blocks, in one of six ways; every
 * query that was answered is noted.
 */
import { type Hex, height } from '@lockstep/domain'
import {
  addressOf,
  EvmNode,
  evmChainOptions,
  type RangeRefusal,
  type ServedBlock,
  type ServedChain,
  transferLog,
} from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { recordingLogger, Scene, TOKEN } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const LAST = 50_000
const WIDTH = 300
const hex = (value: number): Hex => `0x${value.toString(16)}`
const hashOf = (at: number): Hex => `0x${(at + 2).toString(16).padStart(64, '0')}`
const TRANSFER = transferLog({ token: TOKEN, from: addressOf(1), to: addressOf(2), value: 3n })
/** All ones: any log may be in the block. */
const BLOOM: Hex = `0x${'f'.repeat(512)}`

/** Made as it is asked for; each 1000th block holds a transfer. */
function blockAt(at: number): ServedBlock {
  const where = { blockHash: hashOf(at), blockNumber: hex(at), transactionHash: hashOf(at + 1_000_000) }
  const log = {
    address: TRANSFER.address,
    topics: TRANSFER.topics ?? [],
    data: TRANSFER.data,
    ...where,
    transactionIndex: '0x0',
    logIndex: '0x0',
  }
  const logs = at % 1000 === 500 ? [log] : []
  const header = {
    number: hex(at),
    hash: hashOf(at),
    parentHash: hashOf(at - 1),
    timestamp: hex(1_700_000_000 + at),
    logsBloom: logs.length > 0 ? BLOOM : `0x${'0'.repeat(512)}`,
  }
  const transactions = logs.map(({ transactionHash }) => ({ hash: transactionHash }))
  return {
    number: at,
    hash: hashOf(at),
    parentHash: hashOf(at - 1),
    time: 1_700_000_000 + at,
    header,
    transactions,
    receipts: [],
    logs,
  }
}

const CHAIN: ServedChain = {
  chainId: 1,
  head: blockAt(LAST + 10),
  first: blockAt(0),
  finalized: LAST,
  safe: LAST,
  at: (at) => (at < 0 || at > LAST + 10 ? null : blockAt(at)),
  byHash: (hash) => CHAIN.at(Number(hash) - 2),
  byTransaction: () => null,
  onBlock: () => () => undefined,
  snapshot: () => CHAIN,
}

const REFUSALS: Readonly<Record<string, RangeRefusal>> = {
  'code -32005 and the results that were found': {
    code: -32005,
    message: 'query returned more than 10000 results',
  },
  'code -32600 and the greatest width': {
    code: -32600,
    message: 'You can make eth_getLogs requests with up to a 300 block range.',
  },
  'code -32000 in other words': { code: -32000, message: 'exceed maximum block range: 300' },
  'a hint in nested data alone': {
    code: -32603,
    message: 'Internal error',
    data: { cause: { message: 'block range is too wide' } },
  },
  'HTTP 413 with a page of HTML': {
    kind: 'status',
    status: 413,
    body: '<html><h1>413 Request Entity Too Large</h1></html>',
  },
  'an error with a suggested range in hex': {
    code: -32602,
    message:
      'Log response size exceeded. Based on your parameters and the response size limit, this block range should work: [0x0, 0x12b]',
  },
}

for (const [words, refusal] of Object.entries(REFUSALS)) {
  test(`S15: 0 to 50000 are indexed, each block once, from a node that refuses by ${words}`, async () => {
    const node = new EvmNode(CHAIN)
    await node.start()
    scene.later(() => node.stop())
    node.limitLogRange(WIDTH, refusal)
    const covered: [number, number][] = []
    let refused = 0
    node.answer('eth_getLogs', ([filter], honest) => {
      refused += 1
      const answer = honest() // throws where it is refused
      refused -= 1
      const { fromBlock, toBlock, blockHash } = filter as Record<string, string | undefined>
      const alone = blockHash === undefined ? null : CHAIN.byHash(blockHash)?.number // a block that is left over
      covered.push([Number(alone ?? fromBlock), Number(alone ?? toBlock)])
      return answer
    })
    const alpha = evmChainOptions({ rpc: [node.url], endHeight: height(LAST), pollMs: 30 })
    const stage = await scene.deploy(alpha)
    const { logger, lines } = recordingLogger()
    stage.work(alpha, { logger })
    await stage.untilPhase('alpha', 'finished')

    covered.sort(([a], [b]) => a - b)
    const seams = covered.map(([from], index) => from - (covered[index - 1]?.[1] ?? -1))
    expect(new Set(seams)).toEqual(new Set([1])) // each begins where the one below it ends
    expect(covered.at(-1)?.[1]).toBe(LAST)
    expect(await stage.list('select height from event order by height')).toEqual(
      Array.from({ length: 50 }, (_, index) => 1000 * index + 500),
    )
    // The width is remembered: each of 50 ranges would be refused again else. A few tries of more are allowed.
    expect(refused).toBeGreaterThan(0)
    expect(refused).toBeLessThan(25)
    expect(lines.filter(({ level }) => level === 'error' || level === 'warn')).toEqual([])
  })
}
