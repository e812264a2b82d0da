/*
 * Goal: whatever odd shape a real node gives an event in, the row that is stored is the documented one, nothing is
 * dropped, and a chain never stops or loops over it.
 *
 * Method: workers in this process index simulated nodes that serve such shapes over HTTP; the rows are read from a
 * real database, and a second index must give the same.
 */
import { chainKey, type Hex, height } from '@lockstep/domain'
import {
  addressOf,
  evmChainOptions,
  type SimulatedCometChain,
  TRANSFER_TOPIC,
  transferLog,
} from '@lockstep/testkit'
import { encodeAbiParameters, pad, parseAbiItem, toEventSelector, toHex } from 'viem'
import { afterEach, expect, test } from 'vitest'
import { cosmosChainOptions } from '../../packages/testkit/src/comet/index.js'
import { cometHeadOf, headOf, recordingLogger, Scene, type Stage, TOKEN, transfer } from './scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const oneTransfer = (value: bigint) => ({ token: TOKEN, from: addressOf(0xa), to: addressOf(0xb), value })

test('S17: logs without a listed transaction, index or hash are stored, with one warning per kind', async () => {
  const zero: Hex = `0x${'0'.repeat(64)}`
  const node = await scene.evm([
    { logs: [transferLog(oneTransfer(1n), { txHash: zero, listed: false })] },
    { logs: [transferLog(oneTransfer(2n)), transferLog(oneTransfer(3n), { listed: false })] },
    {
      fields: { size: undefined },
      logs: [
        transferLog(oneTransfer(4n)),
        transferLog(oneTransfer(5n), { fields: { transactionIndex: undefined } }),
        transferLog(oneTransfer(6n), { listed: false, fields: { transactionHash: null } }),
      ],
    },
    { logs: [transferLog(oneTransfer(7n), { txHash: zero, listed: false })] },
  ])
  const alpha = evmChainOptions({ rpc: [node.url], startHeight: height(1), pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const { logger, lines } = recordingLogger()
  const first = stage.work(alpha, { logger })
  await stage.untilAt('alpha', headOf(node))
  expect(
    await stage.rows(`select height, tx_index as tx, event_index as index, octet_length(tx_hash) as hash_bytes,
      args ->> 'value' as value from event order by height, event_index`),
  ).toEqual([
    { height: 1, tx: 0, index: 0, hash_bytes: 32, value: '1' },
    { height: 2, tx: 0, index: 0, hash_bytes: 32, value: '2' },
    { height: 2, tx: 0, index: 1, hash_bytes: 32, value: '3' },
    { height: 3, tx: 0, index: 0, hash_bytes: 32, value: '4' },
    { height: 3, tx: 1, index: 1, hash_bytes: 32, value: '5' },
    { height: 3, tx: 1, index: 2, hash_bytes: 0, value: '6' },
    { height: 4, tx: 0, index: 0, hash_bytes: 32, value: '7' },
  ])
  const odd = lines.filter(({ msg }) => msg === 'odd log was kept').map(({ oddity }) => oddity)
  expect([...odd].sort()).toEqual([...new Set(odd)].sort())
  expect(new Set(odd)).toContain('transaction not listed in its block')
  await first.stop()
  stage.work(alpha)
  node.extend([transfer(8)])
  await stage.untilAt('alpha', headOf(node))
  await stage.expectFresh(alpha)
})

/** The chain as another version of the software gives it: the same blocks, with results in its own form. */
const servedBy = (chain: SimulatedCometChain, version: string) => ({
  chainId: chain.chainId,
  version,
  initialHeight: chain.initialHeight,
  get head() {
    return chain.head
  },
  at: (at: number) => chain.at(at),
})

const PLAIN: Record<number, [string, string | null][]> = {
  11: [['amount', '5utok']],
  12: [['note', 'dGVzdA==']],
  13: [['note', null]],
  14: [],
}
function plainResults(at: number) {
  const attributes = PLAIN[at]?.map(([key, value]) => ({ key, value, index: true }))
  const events = [{ type: 'odd', attributes: attributes ?? null }]
  return {
    height: String(at),
    txs_results: at in PLAIN ? [{ code: 0, events }] : null,
    finalize_block_events: null,
  }
}

const argsByHeight = (stage: Stage) =>
  stage.rows(`select height, args from event where name = 'odd' order by height, event_index`)

test('S19: attributes read the same from nodes that give them in base64 and in plain text', async () => {
  const { chain, node: oldNode } = await scene.comet({ chainId: 'sim-1', version: '0.34.24' })
  const event = (attributes: [string, string | null][]) => ({
    time: `2024-01-01T00:00:${String(chain.head + 10).slice(-2)}Z`,
    txs: [{ events: [{ type: 'odd', attributes }] }],
  })
  chain.extendEmpty(9, 1_000_000n)
  chain.extend([event([['amount', '5utok']])])
  const newNode = await scene.cometNode(servedBy(chain, '0.38.17'))
  newNode.override('block_results', ({ height: at }) => plainResults(Number(at)))
  const sim = cosmosChainOptions({ rpc: [oldNode.url, newNode.url], pollMs: 30 })
  const stage = await scene.deploy(sim)
  stage.work(sim)
  await stage.untilAt('sim', cometHeadOf(chain))
  expect(await argsByHeight(stage)).toEqual([{ height: 10, args: { amount: '5utok' } }])

  await oldNode.stop()
  chain.extend([event([['amount', '5utok']])])
  chain.extend([event([['note', 'dGVzdA==']])])
  chain.extend([event([['note', null]])])
  chain.extend([event([])])
  await stage.untilAt('sim', cometHeadOf(chain))
  expect(await argsByHeight(stage)).toEqual([
    { height: 10, args: { amount: '5utok' } },
    { height: 11, args: { amount: '5utok' } },
    { height: 12, args: { note: 'dGVzdA==' } },
    { height: 13, args: { note: null } },
    { height: 14, args: {} },
  ])
})

test('S20: a first block with empty parts is stored, and the second is checked against it', async () => {
  const { chain, node } = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
  const withTx = (second: number) => ({
    time: `2024-01-01T00:00:0${second}Z`,
    txs: [{ events: [{ type: 'odd', attributes: [['n', String(second)]] as const }] }],
  })
  chain.extend([{ time: '2024-01-01T00:00:00Z' }, withTx(1), withTx(2), withTx(3)])
  node.override('block', ({ height: at }, honest) => {
    const answer = honest() as { block: { last_commit: object; data: object; evidence: object } }
    if (at === '1') {
      answer.block.last_commit = {
        height: '0',
        round: 0,
        block_id: { hash: '', parts: { total: 0, hash: '' } },
        signatures: null,
      }
      answer.block.data = { txs: null }
    }
    if (at === '2') answer.block.evidence = { evidence: [DUPLICATE_VOTE] }
    return answer
  })
  node.override('block_results', ({ height: at }, honest) => ({
    ...(honest() as object),
    ...(at === '3' && {
      consensus_param_updates: {
        block: { max_bytes: '1048576', max_gas: '-1' },
        abci: { vote_extensions_enable_height: '0' },
      },
    }),
  }))
  const sim = cosmosChainOptions({ rpc: [node.url], pollMs: 30 })
  const stage = await scene.deploy(sim)
  stage.work(sim)
  await stage.untilAt('sim', cometHeadOf(chain))
  expect(
    await stage.rows(`select height, '0x' || encode(parent_hash, 'hex') as parent,
      (select count(*) from event e where e.height = b.height) as events from block b order by 1`),
  ).toEqual([
    { height: 1, parent: null, events: 0 },
    { height: 2, parent: chain.ref(1).hash, events: 1 },
    { height: 3, parent: chain.ref(2).hash, events: 1 },
    { height: 4, parent: chain.ref(3).hash, events: 1 },
  ])
})

const VOTE = {
  type: 2,
  height: '1',
  round: 0,
  block_id: { hash: 'AA'.repeat(32), parts: { total: 1, hash: 'BB'.repeat(32) } },
  timestamp: '2024-01-01T00:00:00Z',
  validator_address: 'CC'.repeat(20),
  validator_index: 0,
  signature: Buffer.alloc(64).toString('base64'),
}
const DUPLICATE_VOTE = {
  type: 'tendermint/DuplicateVoteEvidence',
  value: {
    vote_a: VOTE,
    vote_b: VOTE,
    TotalVotingPower: '10',
    ValidatorPower: '10',
    Timestamp: '2024-01-01T00:00:00Z',
  },
}

const MEMO = parseAbiItem('event Memo(string text)')
const stringLog = (bytes: Hex) => ({
  address: TOKEN,
  topics: [toEventSelector(MEMO)],
  // offset, length, and the bytes to the next 32
  data: `0x${(32).toString(16).padStart(64, '0')}${((bytes.length - 2) / 2).toString(16).padStart(64, '0')}${bytes.slice(2).padEnd(64, '0')}` as Hex,
})

test('S23: text that PostgreSQL or UTF-8 cannot hold does not stop a chain, and its bytes stay readable', async () => {
  const node = await scene.evm([
    { logs: [stringLog('0x41420043'), stringLog('0xfffe'), transferLog(oneTransfer(5n))] },
  ])
  const alpha = evmChainOptions({
    rpc: [node.url],
    pollMs: 30,
    contracts: [
      {
        contract: 'token',
        addresses: null,
        events: [MEMO, ...evmChainOptions({ rpc: [] }).contracts.flatMap(({ events }) => events)],
      },
    ],
  })
  const { chain, node: cometNode } = await scene.comet({ chainId: 'sim-1', version: '0.38.17' })
  chain.extend([
    {
      time: '2024-01-01T00:00:00Z',
      txs: [
        {
          events: [
            {
              type: 'tx',
              attributes: [
                ['memo', 'a\u0000b'],
                ['k\u0000', '1'],
              ],
            },
          ],
        },
      ],
    },
    { time: '2024-01-01T00:00:01Z', txs: [{ events: [{ type: 'odd\u0000', attributes: [['n', '2']] }] }] },
  ])
  const gamma = cosmosChainOptions({ chain: chainKey('gamma'), rpc: [cometNode.url], pollMs: 30 })
  const stage = await scene.deploy(alpha, gamma)
  stage.work(alpha)
  stage.work(gamma)
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('gamma', cometHeadOf(chain))
  const rows = () =>
    stage.rows<{ name: string; args: unknown; data: string }>(
      `select name, args, encode(data, 'hex') as data from event order by chain, height, event_index`,
    )
  const first = await rows()
  expect(first.map(({ name, args }) => ({ name, args }))).toEqual([
    { name: 'Memo', args: { text: 'AB\u{10F700}C' } },
    { name: 'Memo', args: { text: '\u{10F7FF}\u{10F7FE}' } },
    { name: 'Transfer', args: { from: addressOf(0xa), to: addressOf(0xb), value: '5' } },
    { name: 'tx', args: { memo: 'a\u{10F700}b', 'k\u{10F700}': '1' } },
    { name: 'odd\u{10F700}', args: { n: '2' } },
  ])
  expect(first[0]?.data).toContain('41420043')
  expect(first[1]?.data).toContain('fffe')
  expect(Buffer.from(first[3]?.data ?? '', 'hex').toString()).toContain('a\\u0000b')

  await stage.rewind(1_600_000_000)
  await stage.untilReleased()
  await stage.untilAt('alpha', headOf(node))
  await stage.untilAt('gamma', cometHeadOf(chain))
  expect(await rows()).toEqual(first)
  expect(await stage.list('select count(*) from event_conflict')).toEqual([0])
})

test('S28: a log that does not fit its ABI is stored raw, with the reason', async () => {
  const value = encodeAbiParameters([{ type: 'uint256' }], [9n])
  const [from, to] = [pad(addressOf(0xa)), pad(addressOf(0xb))]
  const named = parseAbiItem('event Named(string indexed name, (uint8 kind, address owner) what)')
  const one = parseAbiItem('event Set(uint256 value)')
  const two = parseAbiItem('event Set(uint256 value, uint256 at)')
  const node = await scene.evm([
    {
      logs: [
        { address: TOKEN, topics: [TRANSFER_TOPIC, from, to], data: value },
        { address: TOKEN, topics: [TRANSFER_TOPIC, from, to, toHex(9, { size: 32 })], data: '0x' },
        {
          address: TOKEN,
          topics: [toEventSelector(named), `0x${'ab'.repeat(32)}`],
          data: encodeAbiParameters(named.inputs.slice(1), [{ kind: 3, owner: addressOf(0xc) }] as never),
        },
        { address: TOKEN, topics: [toEventSelector(one)], data: value },
        {
          address: TOKEN,
          topics: [toEventSelector(two)],
          data: encodeAbiParameters([{ type: 'uint256' }, { type: 'uint256' }], [1n, 2n]),
        },
      ],
    },
  ])
  const events = [...evmChainOptions({ rpc: [] }).contracts.flatMap((each) => each.events), named, one, two]
  const alpha = evmChainOptions({
    rpc: [node.url],
    pollMs: 30,
    contracts: [{ contract: 'token', addresses: null, events }],
  })
  const stage = await scene.deploy(alpha)
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  expect(
    await stage.rows(`select name, args, undecoded, num_nonnulls(topic0, topic1, topic2, topic3) as topics
      from event order by event_index`),
  ).toEqual([
    {
      name: 'Transfer',
      args: { from: addressOf(0xa), to: addressOf(0xb), value: '9' },
      undecoded: null,
      topics: 3,
    },
    {
      name: 'Transfer',
      args: null,
      undecoded: 'the ABI has 2 indexed arguments, and the log has 3',
      topics: 4,
    },
    {
      name: 'Named',
      args: { name: `0x${'ab'.repeat(32)}`, what: { kind: '3', owner: addressOf(0xc) } },
      undecoded: null,
      topics: 2,
    },
    { name: 'Set(uint256)', args: { value: '9' }, undecoded: null, topics: 1 },
    { name: 'Set(uint256,uint256)', args: { value: '1', at: '2' }, undecoded: null, topics: 1 },
  ])
})
