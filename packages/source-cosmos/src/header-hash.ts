import { createHash } from 'node:crypto'
import { type Hex, hexOf } from '@lockstep/domain'
import { bytesAt, integerAt, type JsonRecord, recordAt, ShapeError, textAt } from './wire.js'

/*
 * A block's hash is the Merkle root (RFC 6962) over the fourteen fields of its header, each in protobuf: the same in
 * all versions from 0.34 to 1.x (types/block.go: `Header.Hash`, `cdcEncode`). So a header proves its own hash, its
 * time and its parent, whoever gives it. cosmjs's `hashBlock` knows neither a first block nor this encoding of texts.
 */

const HASHES = [
  'last_commit_hash',
  'data_hash',
  'validators_hash',
  'next_validators_hash',
  'consensus_hash',
  'app_hash',
  'last_results_hash',
  'evidence_hash',
  'proposer_address',
] as const

/**
 * @param header as a node's JSON gives it
 * @param path how the header is named where it is not of the documented shape
 * @throws ShapeError
 */
export function headerHash(header: JsonRecord, path: string): Hex {
  const version = recordAt(header.version, `${path}.version`)
  const fields = [
    Buffer.concat([
      varintField(1, integerAt(version.block, `${path}.version.block`)),
      varintField(2, integerAt(version.app ?? 0, `${path}.version.app`)), // left out where it is 0
    ]),
    bytesField(1, Buffer.from(textAt(header.chain_id, `${path}.chain_id`))),
    varintField(1, integerAt(header.height, `${path}.height`)),
    timestamp(textAt(header.time, `${path}.time`), `${path}.time`),
    blockId(header.last_block_id, `${path}.last_block_id`),
    ...HASHES.map((name) => bytesField(1, bytesAt(header[name], `${path}.${name}`))),
  ]
  return hexOf(merkleRoot(fields))
}

/** The first block's parent is empty, but its part set header is written all the same: it is not optional. */
function blockId(value: unknown, path: string): Buffer {
  const id = recordAt(value ?? {}, path)
  const parts = recordAt(id.parts ?? {}, `${path}.parts`)
  const partSet = Buffer.concat([
    varintField(1, integerAt(parts.total ?? 0, `${path}.parts.total`)),
    bytesField(2, bytesAt(parts.hash, `${path}.parts.hash`)),
  ])
  return Buffer.concat([
    bytesField(1, bytesAt(id.hash, `${path}.hash`)),
    Buffer.of((2 << 3) | 2),
    varint(BigInt(partSet.length)),
    partSet,
  ])
}

const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/

/** google.protobuf.Timestamp, to the nanosecond. */
function timestamp(text: string, path: string): Buffer {
  const [, wall = '', fraction = ''] = TIME.exec(text) ?? []
  const ms = Date.parse(`${wall}Z`)
  if (Number.isNaN(ms)) throw new ShapeError(path, 'an RFC 3339 time in UTC', text)
  return Buffer.concat([varintField(1, BigInt(ms / 1000)), varintField(2, BigInt(fraction.padEnd(9, '0')))])
}

/** Nothing for what is zero or empty: proto3 leaves it out. */
const varintField = (field: number, value: bigint): Buffer =>
  value === 0n ? Buffer.alloc(0) : Buffer.concat([Buffer.of(field << 3), varint(value)])

const bytesField = (field: number, bytes: Uint8Array): Buffer =>
  bytes.length === 0
    ? Buffer.alloc(0)
    : Buffer.concat([Buffer.of((field << 3) | 2), varint(BigInt(bytes.length)), bytes])

function varint(value: bigint): Buffer {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, value) // times before 1970 are negative: ten bytes
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
  return Buffer.from([...bytes, Number(rest)])
}

/** Splits at the largest power of two below the count. */
function merkleRoot(leaves: readonly Uint8Array[]): Buffer {
  const [first] = leaves
  if (first === undefined) return sha256()
  if (leaves.length === 1) return sha256(Buffer.of(0), first)
  const split = 2 ** Math.floor(Math.log2(leaves.length - 1))
  return sha256(Buffer.of(1), merkleRoot(leaves.slice(0, split)), merkleRoot(leaves.slice(split)))
}

function sha256(...parts: readonly Uint8Array[]): Buffer {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest()
}
