// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables in the file are written so
import { z } from 'zod'

/*
 * The shape of `config/chains.yaml`, in pieces: each is judged by itself, so that a mistake in one contract hides
 * none in another. A description is both what an editor shows and the hint beside a mistake. What a shape cannot say
 * (a checksum, an event that is not in the ABI, an end below its start) is found where the piece is resolved.
 */

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** Timers of Node take at most 2^31 - 1 ms (24.8 days) and fire at once above that; a day is far below it. */
const SPAN_MAX_MS = 24 * 3_600_000

/** Of a span that is a bare number: 5 could be seconds or milliseconds. */
export const NO_UNIT = 'has no unit'

/** `500ms`, `2s`, `1m`, `2h` to milliseconds. */
const span = (description: string, leastMs = 1) =>
  z
    .string({ error: (issue) => (typeof issue.input === 'number' ? NO_UNIT : undefined) })
    .regex(/^[0-9]+(ms|s|m|h)$/, 'is not a span of time')
    .transform((text) => Number.parseInt(text, 10) * (UNIT_MS[text.replace(/^[0-9]+/, '')] ?? Number.NaN))
    .refine((ms) => ms >= leastMs, `is too short: at least ${leastMs}ms`)
    .refine((ms) => ms <= SPAN_MAX_MS, 'is too long: at most 24h')
    .describe(`${description} A span of time: digits and a unit, as 500ms, 2s, 1m or 2h.`)

/** Names that PostgreSQL takes without quotes, so that people can write them in psql. */
const schemaName = (description: string) =>
  z
    .string()
    .regex(/^[a-z_][a-z0-9_]{0,62}$/, 'is not a schema name')
    .refine(
      (name) => !name.startsWith('pg_') && name !== 'information_schema',
      'is a name that PostgreSQL keeps to itself',
    )
    .describe(`${description} Lower-case letters, digits and _, at most 63.`)

export const databaseShape = z
  .strictObject({
    url: z
      .string()
      .refine(
        (url) => url === '' || /^postgres(ql)?:$/.test(protocolOf(url)),
        'is not an address of a PostgreSQL',
      )
      .optional()
      .describe(
        'postgres://user:password@host:5432/database; left out: the embedded PostgreSQL of this project.',
      ),
    schema: schemaName('Schema of our tables.').default('lockstep'),
    readSchema: schemaName('Schema of the views that people query.').default('indexed'),
  })
  .describe('The database that everything is indexed into.')

export const rewindShape = z
  .strictObject({
    takeOverAfter: span(
      'How long a rewind waits for a worker before others carry out its part; default: twice lease.time.',
    ).optional(),
    searchTimeout: span(
      'How long a worker looks for its cut over RPC before it takes what the database has.',
    ).prefault('10s'),
    writeTimeout: span(
      'The longest that a writing transaction may stay open; at most, and by default, lease.time or 10s.',
    ).optional(),
    pollInterval: span('How often the state of a rewind is read where no notification comes.').prefault('1s'),
  })
  .describe('How long things may take in a rewind.')

/** A lease is renewed at a third of its time; below 200 ms one slow answer of the database would lose it. */
const LEASE_LEAST_MS = 200

export const leaseShape = z
  .strictObject({
    time: span(
      'A worker that was not heard of for so long has lost its chain to the next.',
      LEASE_LEAST_MS,
    ).prefault('15s'),
  })
  .describe('The right of one process to write one chain.')

/** The file; its parts are judged by their own shapes. */
export const fileShape = z
  .strictObject({
    database: z.unknown().optional(),
    rewind: z.unknown().optional(),
    lease: z.unknown().optional(),
    onFork: z
      .enum(['rollback', 'rewind'])
      .default('rollback')
      .describe(
        'After a fork of one chain: rollback takes that chain back alone, rewind takes all chains back to that moment.',
      ),
    progressInterval: span('How often a progress line is logged per chain.').prefault('10s'),
    chains: z
      .record(z.string(), z.unknown())
      .describe('The chains to index, each under a key of your choice.'),
  })
  .describe('The settings of Lockstep: at least "chains", as in config/chains.yaml of the project.')

const wholeNumber = (least: number) => z.int().min(least)

const rpcUrl = z
  .string()
  .refine((url) => /^https?:$/.test(protocolOf(url)), 'is not an http or https address')
  .refine(
    (url) => !isRefusedPort(url),
    'has a port that no HTTP client asks: it is kept for another protocol',
  )

/** How much is asked of one endpoint at once where the file does not say. Public nodes allow some dozens. */
export const REQUESTS_AT_ONCE = 20

const endpointShape = z
  .strictObject({
    url: rpcUrl.describe('The http or https address of the node.'),
    ws: z
      .string()
      .refine((url) => /^wss?:$/.test(protocolOf(url)), 'is not a ws or wss address')
      .optional()
      .describe(
        'A ws or wss address where the node announces new blocks; left out, or silent: the node is polled alone.',
      ),
    requestsPerSecond: wholeNumber(1)
      .optional()
      .describe('The most that the node allows, each item of a batch counted; left out: no limit.'),
    requestsAtOnce: wholeNumber(1)
      .default(REQUESTS_AT_ONCE)
      .describe('How many requests may wait for an answer at the same time; a whole number.'),
  })
  .describe('A node, as { url: https://…, ws: wss://…, requestsPerSecond: 25 }.')

const chainFields = {
  rpc: z
    .union(
      [
        rpcUrl,
        endpointShape,
        z
          .array(z.union([rpcUrl, endpointShape], 'must be an address, or { url: … }'))
          .min(1, 'is an empty list'),
      ],
      'must be an address or a list of addresses',
    )
    .describe(
      'Address of a node, or a list of them, the preferred one first; each is an http or https address, or { url: …, ws: … }, and may hold ${VARIABLES}.',
    ),
  endHeight: wholeNumber(0)
    .optional()
    .describe('Last block to index, a whole number; left out: the chain is followed for ever.'),
  maxRollbackDepth: wholeNumber(0)
    .default(256)
    .describe('How many blocks a fork may take back by itself; deeper ones stop the chain. A whole number.'),
  pollInterval: span('How often the node is asked for a new block.').prefault('2s'),
  blocks: z
    .enum(['events', 'all'])
    .default('events')
    .describe('Which blocks are stored: "events", those that hold an event, or "all".'),
  transactions: z
    .boolean()
    .default(false)
    .describe('true or false: whether the transactions that hold an event are stored too.'),
  keepOrphans: z
    .boolean()
    .default(false)
    .describe('true: keep what a fork takes off the chain, in the table orphaned_event.'),
  enabled: z
    .boolean()
    .default(true)
    .describe('true or false; a disabled chain is passed over as if it were not there.'),
  contracts: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('What to index, each under a name of your choice.'),
}

const depth = wholeNumber(0)
const tag = z.enum(['finalized', 'safe'])

export const evmChainShape = z
  .strictObject({
    kind: z.literal('evm').describe('"evm" or "cosmos".'),
    chainId: wholeNumber(1).describe('The number that eth_chainId gives, such as 1 for Ethereum.'),
    startHeight: wholeNumber(0).describe('First block to index, a whole number such as 19000000.'),
    finality: z
      .union(
        [tag, depth, z.strictObject({ tag, depth })],
        'must be finalized, safe, a number of confirmations, or { tag: finalized, depth: 12 }',
      )
      .default('finalized')
      .describe(
        'From where on the chain takes no block back: "finalized", "safe", a number of blocks below the head, or both as { tag: finalized, depth: 12 }: the depth then serves nodes that never answered the tag.',
      ),
    ...chainFields,
  })
  .describe('A chain whose nodes speak Ethereum JSON-RPC.')

export const cosmosChainShape = z
  .strictObject({
    kind: z.literal('cosmos').describe('"evm" or "cosmos".'),
    // CometBFT: MaxChainIDLen.
    chainId: z
      .string()
      .min(1, 'is empty')
      .max(50, 'is longer than 50 characters')
      .describe('The network name, such as osmosis-1.'),
    startHeight: wholeNumber(1).describe('First block to index, a whole number; Cosmos chains begin at 1.'),
    finality: depth
      .default(0)
      .describe(
        'From how many blocks below the head on the chain takes none back: a whole number, for Cosmos 0.',
      ),
    ...chainFields,
  })
  .describe('A chain whose nodes speak CometBFT RPC.')

const evmAddress = z.string()
const listOf = <T extends z.ZodType>(item: T) => z.array(item).min(1, 'is an empty list')
const name = z.string().min(1, 'is empty')

const topicValue = z.union([z.string(), z.number(), z.boolean()], 'must be a value')

const evmEvent = z.union(
  [
    z.string(),
    z.strictObject({
      name: z.string().describe('Name or signature of the event.'),
      where: z
        .record(z.string(), z.union([topicValue, listOf(topicValue)], 'must be a value or a list of values'))
        .describe(
          'Values of indexed arguments by name, each a value or a list: only logs that have one of them are indexed.',
        ),
    }),
  ],
  'must be a name, or { name: …, where: … }',
)

export const evmContractShape = z
  .strictObject({
    address: z
      .union([evmAddress, listOf(evmAddress)], 'must be an address or a list of addresses, in quotes')
      .optional()
      .describe(
        '"0x…" in quotes: 40 hex digits, in one case or with the right checksum; or a list; left out: any address.',
      ),
    abi: z
      .union(
        [z.string().min(1, 'is empty'), listOf(z.string())],
        'must be a file name or a list of signatures',
      )
      .describe(
        'A JSON file, found from this one, or a list of signatures as "event Transfer(address indexed from, …)".',
      ),
    factory: z
      .strictObject({
        contract: z.string().describe('The factory: the name of another contract of this chain.'),
        event: z
          .string()
          .describe('Name or signature of the event of the factory that tells of a new contract.'),
        argument: z.string().describe("Name of that event's argument that is the new contract's address."),
      })
      .optional()
      .describe(
        'In place of address: { contract: …, event: …, argument: … }, the event of another contract that creates these.',
      ),
    events: listOf(evmEvent)
      .optional()
      .describe(
        'Names or signatures of the events to index, a list; one may be { name: …, where: … }. Left out: all of the ABI.',
      ),
    index: listOf(name)
      .optional()
      .describe('Names of arguments that the views are searched by, a list as [from, to]; left out: none.'),
  })
  .describe('A contract, or several with the same ABI.')

const cosmosEvent = z.union(
  [
    z.string().min(1, 'is empty'),
    z.strictObject({
      type: z.string().min(1, 'is empty').describe('Type of the event, such as wasm or transfer.'),
      action: z
        .string()
        .min(1, 'is empty')
        .optional()
        .describe('Value of its attribute "action"; left out: any.'),
    }),
  ],
  'must be a type, or { type: …, action: … }',
)

export const cosmosContractShape = z
  .strictObject({
    address: z
      .string()
      .optional()
      .describe('A wasm contract in bech32, such as osmo1…; left out: all events that fit.'),
    events: listOf(cosmosEvent)
      .optional()
      .describe(
        'Types of events, a list of { type: wasm, action: register_agent } (action optional); left out: all.',
      ),
    failedTransactions: z
      .boolean()
      .default(false)
      .describe(
        'true or false; whether events of failed transactions are stored too, marked by "_failed" among their args.',
      ),
    attributes: listOf(name)
      .optional()
      .describe(
        'Keys of attributes that get a column in the views, a list as [sender, amount]; left out: none.',
      ),
    index: listOf(name)
      .optional()
      .describe(
        'Keys of attributes that get a column and are searched by, a list as [sender]; left out: none.',
      ),
  })
  .describe('A wasm contract, or events of a module.')

/** "Bad ports" of the fetch standard (fetch.spec.whatwg.org, 2.10): a request to one fails before it is sent. */
const REFUSED_PORTS = new Set(
  `1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123
   135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993
   995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080`.split(
    /\s+/,
  ),
)

const isRefusedPort = (url: string): boolean => URL.canParse(url) && REFUSED_PORTS.has(new URL(url).port)

function protocolOf(url: string): string {
  return URL.canParse(url) && !/\s/.test(url) ? new URL(url).protocol : ''
}
