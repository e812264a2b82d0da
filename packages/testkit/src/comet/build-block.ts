import { createHash } from 'node:crypto'
import { formatTime, type TimeUs } from '@lockstep/domain'
import { headerHash } from '@lockstep/source-cosmos'
import {
  NO_BLOCK_ID,
  type ServedBlock,
  type WireAttribute,
  type WireBlockId,
  type WireEvent,
  type WireHeader,
  type WireTxResult,
} from './comet-wire.js'

/** One block as a test writes it; what is left out is empty. */
export interface CometBlockScript {
  /** As the node gives it, with up to nine digits of a second; or microseconds. */
  readonly time: string | TimeUs
  readonly txs?: readonly CometTxScript[]
  readonly beginEvents?: readonly CometEventScript[]
  readonly endEvents?: readonly CometEventScript[]
}

export interface CometTxScript {
  readonly events?: readonly CometEventScript[]
  /** Not 0: the transaction failed. */
  readonly code?: number
  /** Its bytes; left out: bytes that no other transaction of the chain has. */
  readonly bytes?: Uint8Array
}

export interface CometEventScript {
  readonly type: string
  /** Pairs in order; keys may repeat. Bytes for what is no UTF-8. */
  readonly attributes: readonly (readonly [key: string, value: string | Uint8Array | null])[]
}

interface Site {
  readonly chainId: string
  readonly version: string
  readonly branch: number
  readonly height: number
  readonly parent: ServedBlock['block'] | null
  readonly script: CometBlockScript
}

/** SHA-256 of nothing, which CometBFT writes for every empty list. */
const EMPTY_HASH = createHash('sha256').digest('hex').toUpperCase()

export const VALIDATOR_ADDRESS = '675F52E8FDA5F4047B8EAF498F946F551ED53DC2'
const VALIDATORS_HASH = digest('validators')
const CONSENSUS_HASH = digest('consensus parameters')

export function buildBlock(site: Site): ServedBlock {
  const txs = (site.script.txs ?? []).map((tx, index) => tx.bytes ?? uniqueBytes(site, index))
  const results = buildResults(site)
  const header = buildHeader(site, txs, results)
  const hash = headerHash({ ...header }, 'header')
    .slice(2)
    .toUpperCase()
  const { parent } = site
  return {
    block: {
      block_id: { hash, parts: { total: 1, hash: digest(`parts ${hash}`) } },
      block: {
        header,
        data: { txs: txs.map((tx) => Buffer.from(tx).toString('base64')) },
        evidence: { evidence: [] },
        last_commit: buildLastCommit(parent, header),
      },
    },
    results,
  }
}

function buildHeader(site: Site, txs: readonly Uint8Array[], results: ServedBlock['results']): WireHeader {
  const { chainId, branch, height, parent, script } = site
  return {
    version: { block: '11', app: '1' },
    chain_id: chainId,
    height: String(height),
    time: typeof script.time === 'string' ? script.time : formatTime(script.time),
    last_block_id: parent?.block_id ?? NO_BLOCK_ID,
    last_commit_hash: parent === null ? EMPTY_HASH : digest(`commit ${parent.block_id.hash}`),
    data_hash: txs.length === 0 ? EMPTY_HASH : digest(Buffer.concat(txs)),
    validators_hash: VALIDATORS_HASH,
    next_validators_hash: VALIDATORS_HASH,
    consensus_hash: CONSENSUS_HASH,
    // Of this block's own results, where a real one is of those before: two blocks that differ in their events or
    // their branch alone must not share a hash.
    app_hash: digest(JSON.stringify([height, branch, results])),
    last_results_hash: EMPTY_HASH,
    evidence_hash: EMPTY_HASH,
    proposer_address: VALIDATOR_ADDRESS,
  }
}

function buildLastCommit(
  parent: Site['parent'],
  header: WireHeader,
): ServedBlock['block']['block']['last_commit'] {
  if (parent === null) return { height: '0', round: 0, block_id: NO_BLOCK_ID, signatures: [] }
  const block_id: WireBlockId = parent.block_id
  const signature = {
    block_id_flag: 2,
    validator_address: VALIDATOR_ADDRESS,
    timestamp: header.time,
    signature: Buffer.from(digest(block_id.hash).repeat(2).slice(0, 64)).toString('base64'),
  }
  return { height: parent.block.header.height, round: 0, block_id, signatures: [signature] }
}

function buildResults({ version, height, script }: Site): ServedBlock['results'] {
  const base64 = version.startsWith('0.34.')
  const txs = (script.txs ?? []).map((tx) => buildTxResult(tx, base64))
  const txs_results = txs.length === 0 ? null : txs
  const [begin, end] = [script.beginEvents ?? [], script.endEvents ?? []]
  if (base64 || version.startsWith('0.37.')) {
    return {
      height: String(height),
      txs_results,
      begin_block_events: listOrNull(begin.map((event) => buildEvent(event, base64))),
      end_block_events: listOrNull(end.map((event) => buildEvent(event, base64))),
      validator_updates: null,
      consensus_param_updates: null,
    }
  }
  return {
    height: String(height),
    txs_results,
    // The Cosmos SDK's way of telling the phases apart since they share a list.
    finalize_block_events: listOrNull([
      ...begin.map((event) => buildEvent(withMode(event, 'BeginBlock'), false)),
      ...end.map((event) => buildEvent(withMode(event, 'EndBlock'), false)),
    ]),
    validator_updates: null,
    consensus_param_updates: null,
    app_hash: Buffer.from(digest(`state ${height}`), 'hex').toString('base64'),
  }
}

function buildTxResult({ events = [], code = 0 }: CometTxScript, base64: boolean): WireTxResult {
  return {
    code,
    data: null,
    log: code === 0 ? '' : 'failed to execute message',
    info: '',
    gas_wanted: '100000',
    gas_used: '60000',
    events: events.map((event) => buildEvent(event, base64)),
    codespace: code === 0 ? '' : 'sdk',
  }
}

const withMode = (event: CometEventScript, mode: string): CometEventScript => ({
  type: event.type,
  attributes: [...event.attributes, ['mode', mode]],
})

function buildEvent({ type, attributes }: CometEventScript, base64: boolean): WireEvent {
  const encoded = (value: string | Uint8Array) => Buffer.from(value).toString(base64 ? 'base64' : 'utf8')
  return {
    type,
    attributes: attributes.map(
      ([key, value]): WireAttribute => ({
        key: encoded(key),
        value: value === null ? null : encoded(value),
        index: true,
      }),
    ),
  }
}

const listOrNull = <T>(list: readonly T[]): readonly T[] | null => (list.length === 0 ? null : list)

const uniqueBytes = ({ chainId, branch, height }: Site, index: number): Uint8Array =>
  Buffer.from(`${chainId}/${branch}/${height}/${index}`)

function digest(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex').toUpperCase()
}
