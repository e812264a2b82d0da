import { createHash } from 'node:crypto'

/*
 * Advisory keys and the notification channel derive from the schema's name, so that two deployments in one database
 * never meet.
 */

/** The key that every writer holds shared, and a request exclusively. As text, for a bigint argument. */
export const writeKey = (schema: string): string => advisoryKey(`lockstep write ${schema}`)

/** Held by the one process that migrates. */
export const migrateKey = (schema: string): string => advisoryKey(`lockstep migrate ${schema}`)

/** Held by the one process that makes indexes. */
export const indexKey = (schema: string): string => advisoryKey(`lockstep indexes ${schema}`)

export const notifyChannel = (schema: string): string =>
  `lockstep_${digest(schema).toString('hex').slice(0, 16)}`

const advisoryKey = (name: string): string => digest(name).readBigInt64BE().toString()
const digest = (name: string): Buffer => createHash('sha256').update(name).digest()

/** A name as SQL text. */
export const quoteIdent = (name: string): string => `"${name.replaceAll('"', '""')}"`
export const quoteText = (text: string): string => `'${text.replaceAll("'", "''")}'`
