/*
 * Goal: logs of transactions that a block does not list are stored, each kind with one warning.
 * Method: a node serves blocks 900 to 902 as nodes were seen to give them; a worker indexes them twice.
 */
import { type Hex, height } from '@lockstep/domain'
import { addressOf, evmChainOptions, transferLog } from '@lockstep/testkit'
import { afterEach, expect, test } from 'vitest'
import { headOf, recordingLogger, Scene, type Stage, TOKEN, transfer } from '../worker/scene.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const ZERO: Hex = `0x${'0'.repeat(64)}`
const oneTransfer = (value: bigint) => ({ token: TOKEN, from: addressOf(0xa), to: addressOf(0xb), value })

const stored = (stage: Stage) =>
  stage.rows(
    `select height, tx_index as tx, event_index as index, encode(tx_hash, 'hex') = repeat('0', 64) as zero,
       args ->> 'value' as value from event order by height, event_index`,
  )

test('S17: blocks 900 to 902 with unlisted, all-zero and unplaced transactions are stored in the order of their logs', async () => {
  const node = await scene.evm(
    [
      { logs: [transferLog(oneTransfer(1n), { txHash: ZERO, listed: false })] },
      { logs: [transferLog(oneTransfer(2n)), transferLog(oneTransfer(3n), { listed: false })] },
      {
        fields: { size: undefined },
        logs: [
          transferLog(oneTransfer(4n)),
          transferLog(oneTransfer(5n), { fields: { transactionIndex: undefined } }),
          transferLog(oneTransfer(6n)),
        ],
      },
    ],
    { firstHeight: 899 },
  )
  expect(node.chain.at(900)?.transactions).toEqual([])
  const alpha = evmChainOptions({ rpc: [node.url], startHeight: height(900), pollMs: 30 })
  const stage = await scene.deploy(alpha)
  const { logger, lines } = recordingLogger()
  const first = stage.work(alpha, { logger })
  await stage.untilAt('alpha', headOf(node))
  const rows = [
    { height: 900, tx: 0, index: 0, zero: true, value: '1' },
    { height: 901, tx: 0, index: 0, zero: false, value: '2' },
    { height: 901, tx: 0, index: 1, zero: false, value: '3' },
    { height: 902, tx: 0, index: 0, zero: false, value: '4' },
    { height: 902, tx: 1, index: 1, zero: false, value: '5' },
    { height: 902, tx: 2, index: 2, zero: false, value: '6' },
  ]
  expect(await stored(stage)).toEqual(rows)
  const warned = lines.filter(({ msg }) => msg === 'odd log was kept').map(({ oddity }) => String(oddity))
  expect(warned.length).toBeGreaterThan(0)
  expect(warned).toEqual([...new Set(warned)])
  expect(await stage.list(`select count(*) from event where event::text like '%NaN%'`)).toEqual([0])

  await first.stop()
  node.extend([transfer(7)])
  const calls = node.calls.length
  stage.work(alpha)
  await stage.untilAt('alpha', headOf(node))
  expect((await stored(stage)).slice(0, 6)).toEqual(rows)
  const logsAsked = node.calls.slice(calls).filter(({ method }) => method === 'eth_getLogs')
  expect(logsAsked).toHaveLength(1) // of block 903: the odd ones are not gone through again
  await stage.expectFresh(alpha)
})
