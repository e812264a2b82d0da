import { invariant, parseTime, type TimeUs } from '@lockstep/domain'
import pg from 'pg'

const INT8 = 20
const TIMESTAMPTZ = 1184

/**
 * How values come out of PostgreSQL: `bigint` as a number (heights and counts fit into 53 bits), `timestamptz` as
 * `TimeUs`. pg's default for the latter is a `Date`, which drops microseconds. Sessions run in UTC.
 */
export const typeParsers: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => {
    if (oid === INT8) return parseInt8
    if (oid === TIMESTAMPTZ) return parseTimestamp
    return pg.types.getTypeParser(oid, format as 'text')
  },
}

function parseInt8(text: string): number {
  const number = Number(text)
  invariant(Number.isSafeInteger(number), `bigint ${text} fits into 53 bits`)
  return number
}

function parseTimestamp(text: string): TimeUs {
  const time = text.endsWith('+00') ? parseTime(`${text.slice(0, -3)}Z`) : null
  invariant(time !== null, `timestamp "${text}" is in UTC`)
  return time
}
