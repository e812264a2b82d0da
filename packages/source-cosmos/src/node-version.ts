import type { AttributeEncoding } from './attribute-encoding.js'

/** What is to be expected of a node by its version; each answer may show otherwise. */
export interface NodeDialect {
  /** Base64 while they were bytes, until 0.37 made them texts. */
  readonly attributes: AttributeEncoding
}

const DIALECTS: readonly (NodeDialect & { readonly prefix: string })[] = [
  { prefix: '0.34.', attributes: 'base64' },
  { prefix: '0.37.', attributes: 'plain' },
  { prefix: '0.38.', attributes: 'plain' },
  { prefix: '1.', attributes: 'plain' },
]

export const SUPPORTED_VERSIONS = '0.34, 0.37, 0.38 and 1.x'

/**
 * Builds of the Cosmos SDK write `v0.34.9` as well as `0.34.9`.
 *
 * @returns null for a version that nobody here has read the answers of (0.35, 2.x, an empty one)
 */
export function dialectOf(version: string): NodeDialect | null {
  const plain = version.replace(/^v/, '')
  return DIALECTS.find(({ prefix }) => plain.startsWith(prefix)) ?? null
}
