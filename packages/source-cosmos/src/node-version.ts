import {
  Comet1Client,
  Comet38Client,
  type CometClient,
  type RpcClient,
  Tendermint37Client,
} from '@cosmjs/tendermint-rpc'

/** What depends on a node's version. */
export interface NodeDialect {
  /** Keys and values of attributes come in base64: they were bytes until 0.37 made them texts. */
  readonly base64Attributes: boolean
  /** From 0.38 on, one list for what the application did outside of transactions. */
  readonly finalizeBlockEvents: boolean
  /** The cosmjs client for it, as `connectComet` chooses. */
  readonly client: (rpc: RpcClient) => CometClient
}

const DIALECTS: readonly (NodeDialect & { readonly prefix: string })[] = [
  { prefix: '0.34.', base64Attributes: true, finalizeBlockEvents: false, client: Tendermint37Client.create },
  { prefix: '0.37.', base64Attributes: false, finalizeBlockEvents: false, client: Tendermint37Client.create },
  { prefix: '0.38.', base64Attributes: false, finalizeBlockEvents: true, client: Comet38Client.create },
  { prefix: '1.', base64Attributes: false, finalizeBlockEvents: true, client: Comet1Client.create },
]

export const SUPPORTED_VERSIONS = '0.34, 0.37, 0.38 and 1.x'

/**
 * By the version that `status` reports, never by looking at values: `dGVzdA==` is a proper plain value too.
 * Builds of the Cosmos SDK write `v0.34.9` as well as `0.34.9`.
 *
 * @returns null for a version that nobody here has read the answers of (0.35, 2.x, an empty one)
 */
export function dialectOf(version: string): NodeDialect | null {
  const plain = version.replace(/^v/, '')
  return DIALECTS.find(({ prefix }) => plain.startsWith(prefix)) ?? null
}
