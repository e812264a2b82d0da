import { decodeTxRaw } from '@cosmjs/proto-signing'
import {
  type Hex,
  type JsonValue,
  storableText,
  storableTextOf,
  type TransactionFact,
} from '@lockstep/domain'
import type { TxResult } from './answers.js'
import { bytesOfField, isTxRaw } from './tx-raw.js'

/** A transaction as its bytes and its result tell of it. Other bytes than the Cosmos SDK's say why in `fee`. */
export function transactionFact(
  txIndex: number,
  txHash: Hex,
  bytes: Buffer,
  result: TxResult,
): TransactionFact {
  const { code, gasWanted, gasUsed } = result
  const outcome = { success: code === 0, code, gasWanted, gasUsed }
  return { txIndex, txHash, ...outcome, from: null, to: null, value: null, ...feeAndMemo(bytes) }
}

function feeAndMemo(bytes: Buffer): Pick<TransactionFact, 'fee' | 'memo'> {
  // cosmjs skips what it does not know, and so finds a transaction in almost any bytes.
  if (!isTxRaw(bytes)) return undecoded('its bytes are no TxRaw of the Cosmos SDK')
  try {
    const { authInfo } = decodeTxRaw(bytes)
    if (authInfo.fee === undefined)
      return undecoded('it names no fee, as every transaction of the Cosmos SDK does')
    return { fee: coins(authInfo.fee.amount), memo: memoOf(bytes) }
  } catch (error) {
    return undecoded(error instanceof Error ? error.message : String(error))
  }
}

const undecoded = (reason: string) => ({ fee: { undecoded: reason }, memo: null })

const coins = (amount: readonly { readonly denom: string; readonly amount: string }[]): JsonValue =>
  amount.map((coin) => ({ denom: storableText(coin.denom), amount: storableText(coin.amount) }))

/** TxRaw.body_bytes, and TxBody.memo in it. From the bytes: cosmjs turns invalid UTF-8 into other characters. */
function memoOf(bytes: Buffer): string {
  const memo = bytesOfField(bytesOfField(bytes, 1) ?? Buffer.alloc(0), 2)
  return memo === null ? '' : storableTextOf(memo)
}
