/*
 * As much of protobuf's wire format as it takes to tell a transaction of the Cosmos SDK from other bytes. The SDK
 * refuses any that are not written as its ADR 027 says, so what does not look so was never one.
 */

interface Field {
  readonly number: number
  /** 2: bytes with their length before them. */
  readonly wireType: number
  /** Of wire type 2; else empty. */
  readonly bytes: Buffer
}

/** body_bytes, auth_info_bytes, then signatures: three fields, ascending, and nothing else. */
export function isTxRaw(bytes: Buffer): boolean {
  const fields = fieldsOf(bytes)
  if (fields === null) return false
  const [body, auth, ...signatures] = fields
  return (
    isBytes(body, 1) &&
    isBytes(auth, 2) &&
    signatures.length > 0 &&
    signatures.every((each) => isBytes(each, 3))
  )
}

const isBytes = (field: Field | undefined, number: number): boolean =>
  field?.number === number && field.wireType === 2

/** Of a field that comes again the last one counts, as protobuf has it. Null where there is none. */
export function bytesOfField(message: Buffer, number: number): Buffer | null {
  return fieldsOf(message)?.findLast((field) => isBytes(field, number))?.bytes ?? null
}

/** Null where the bytes are no message. */
function fieldsOf(message: Buffer): readonly Field[] | null {
  const fields: Field[] = []
  for (let at = 0; at < message.length; ) {
    const tag = readVarint(message, at)
    const length = tag && lengthOf(message, tag)
    if (!length || length.end > message.length) return null
    const bytes = message.subarray(length.start, length.end)
    fields.push({ number: Math.floor(tag.value / 8), wireType: tag.value % 8, bytes })
    at = length.end
  }
  return fields
}

interface Varint {
  readonly value: number
  /** Where what follows begins. */
  readonly end: number
}

/** Where a field's content begins and ends; groups are not of proto3. */
function lengthOf(message: Buffer, tag: Varint): { readonly start: number; readonly end: number } | null {
  const start = tag.end
  switch (tag.value % 8) {
    case 0: {
      const varint = readVarint(message, start)
      return varint && { start: varint.end, end: varint.end }
    }
    case 1:
      return { start: start + 8, end: start + 8 }
    case 2: {
      const length = readVarint(message, start)
      return length && { start: length.end, end: length.end + length.value }
    }
    case 5:
      return { start: start + 4, end: start + 4 }
    default:
      return null
  }
}

function readVarint(message: Buffer, start: number): Varint | null {
  let value = 0
  for (let index = 0; index < 10; index += 1) {
    const byte = message[start + index]
    if (byte === undefined) return null
    value += (byte & 0x7f) * 2 ** (7 * index)
    if (byte < 0x80) return { value, end: start + index + 1 }
  }
  return null
}
