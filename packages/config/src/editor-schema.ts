import { z } from 'zod'
import {
  cosmosChainShape,
  cosmosContractShape,
  databaseShape,
  evmChainShape,
  evmContractShape,
  fileShape,
  leaseShape,
  rewindShape,
} from './schema.js'

/** The pieces put together, as one schema for the whole file. */
const wholeFile = fileShape.extend({
  database: databaseShape.optional(),
  rewind: rewindShape.optional(),
  lease: leaseShape.optional(),
  chains: z
    .record(
      z.string(),
      z.discriminatedUnion('kind', [
        evmChainShape.extend({ contracts: z.record(z.string(), evmContractShape).optional() }),
        cosmosChainShape.extend({ contracts: z.record(z.string(), cosmosContractShape).optional() }),
      ]),
    )
    .meta({
      description: 'The chains to index, each under a key of your choice.',
      minProperties: 1,
      // `isChainKey` of domain.
      propertyNames: { pattern: '^[a-z][a-z0-9_-]{0,31}$' },
    }),
})

/** JSON schema of `config/chains.yaml` for editors; draft 7, which YAML language servers know best. */
export function jsonSchema(): Record<string, unknown> {
  return z.toJSONSchema(wholeFile, {
    target: 'draft-7',
    io: 'input',
    override: ({ jsonSchema }) => allowVariable(jsonSchema),
  }) as Record<string, unknown>
}

/** `jsonSchema()` as the text of `config/chains.schema.json`. */
export const jsonSchemaText = (): string => `${JSON.stringify(jsonSchema(), null, 2)}\n`

/** Where anything but free text is expected, a `${VARIABLE}` may stand for it. */
function allowVariable(schema: Record<string, unknown>): void {
  const strict =
    schema.type === 'integer' || schema.type === 'boolean' || 'pattern' in schema || 'enum' in schema
  if (!strict) return
  const { description, default: fallback, ...constraint } = schema
  for (const key of Object.keys(constraint)) delete schema[key]
  Object.assign(schema, {
    ...(description === undefined ? {} : { description }),
    ...(fallback === undefined ? {} : { default: fallback }),
    anyOf: [constraint, { type: 'string', pattern: '\\$\\{[A-Za-z_]' }],
  })
}
