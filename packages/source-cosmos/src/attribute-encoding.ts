import { storableText, storableTextOf } from '@lockstep/domain'
import type { BlockResults, WireAttribute, WireEvent } from './answers.js'
import { bytesOfBase64 } from './wire.js'

/*
 * Keys and values of attributes were bytes up to 0.34, which nodes write in base64, and are texts from 0.37 on. Going
 * by the version alone fails: behind one address there may be an archive of another version, some nodes were patched,
 * and some gateways convert. Going by the looks of a value fails too: `dGVzdA==` is a proper plain text. So a whole
 * answer is judged at once, and against the version only on signs that one contract cannot forge:
 *
 * - One text that is no base64 proves plain: a node that encodes cannot write it. Nearly every plain answer has one.
 * - Otherwise the version decides, unless *all* keys speak against it. Base64 by the version, but no key decodes to
 *   UTF-8: plain. Plain by the version, but all keys decode to UTF-8, and most of them to names: base64.
 */

export type AttributeEncoding = 'base64' | 'plain'

export function encodingOf(results: BlockResults, byVersion: AttributeEncoding): AttributeEncoding {
  const keys: Buffer[] = []
  for (const { key, value } of attributesOf(results)) {
    const bytes = bytesOfBase64(key)
    if (bytes === null || (value !== null && bytesOfBase64(value) === null)) return 'plain'
    if (bytes.length > 0) keys.push(bytes)
  }
  if (keys.length === 0) return byVersion
  const texts = keys.map(utf8Of).filter((text) => text !== null)
  if (byVersion === 'base64') return texts.length === 0 ? 'plain' : 'base64'
  const names = texts.filter((text) => NAME.test(text))
  return texts.length === keys.length && names.length * 2 > keys.length ? 'base64' : 'plain'
}

function* attributesOf(results: BlockResults): Iterable<WireAttribute> {
  const lists: readonly (readonly WireEvent[])[] = [
    results.beginBlock,
    results.finalizeBlock,
    results.endBlock,
    ...results.txs.map(({ events }) => events),
  ]
  for (const list of lists) for (const event of list) yield* event.attributes
}

/** What applications call their attributes: `amount`, `_contract_address`, `tx.height`. */
const NAME = /^[A-Za-z_][A-Za-z0-9_.-]+$/

const strict = new TextDecoder('utf-8', { fatal: true })

function utf8Of(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes)
  } catch {
    return null
  }
}

/** An attribute as its application meant it, as PostgreSQL can hold it. */
export interface Attribute {
  readonly key: string
  readonly value: string | null
}

export function decodeAttribute({ key, value }: WireAttribute, encoding: AttributeEncoding): Attribute {
  const text = encoding === 'base64' ? textOfBase64 : storableText
  return { key: text(key), value: value === null ? null : text(value) }
}

const textOfBase64 = (text: string): string => storableTextOf(Buffer.from(text, 'base64'))
