// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables in the file are written so
/*
 * Goal: a file without mistakes becomes the options it says, with every default.
 * Method: real files; the sample of the project is one of them.
 */
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { cosmosChain, evmChain, load } from './config-file.fixture.js'
import { describeConfig } from './describe-config.js'
import { loadConfig } from './load-config.js'
import type { EvmChainOptions } from './options.js'

const USDC = '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48'
const REGISTRY = 'osmo1qurswpc8qurswpc8qurswpc8qurswpc8qurswpc8qurswpc8qurstc4vrk'

const onlyChain = (yaml: string, env = {}) => load(yaml, env).chains[0]
const evmEvents = (contract: string, files = {}) =>
  (load(evmChain({ contract }), {}, files).chains[0] as EvmChainOptions).contracts[0]?.events

describe('the sample', () => {
  const file = fileURLToPath(new URL('../../../config/chains.yaml', import.meta.url))
  const env = {
    ETHEREUM_RPC_URL: 'https://user:pw@eth.example/v3/key?k=1',
    OSMOSIS_RPC_URL: 'http://localhost:26657',
  }

  test('loads where its two nodes are given', () => {
    const { chains, ...others } = loadConfig({ file, env })
    expect(others).toEqual({
      file,
      database: { url: null, schema: 'lockstep', readSchema: 'indexed' },
      lease: { timeMs: 15_000 },
      rewind: { takeOverAfterMs: 30_000, searchTimeoutMs: 10_000, writeTimeoutMs: 10_000, pollMs: 1_000 },
      onFork: 'rollback',
      progressMs: 10_000,
    })
    expect(
      chains.map(({ chain, kind, chainId, rpc }) => [chain, kind, chainId, rpc.map(({ url }) => url)]),
    ).toEqual([
      ['ethereum', 'evm', '1', [env.ETHEREUM_RPC_URL]],
      ['osmosis', 'cosmos', 'osmosis-1', [env.OSMOSIS_RPC_URL]],
    ])
  })

  test('is described without what may be secret', () => {
    const options = loadConfig({
      file,
      env: { ...env, DATABASE_URL: 'postgres://me:pw@db.example:5433/chain?sslpassword=x' },
    })
    const text = describeConfig({ ...options, file: 'config/chains.yaml' })
    expect(text).toMatchInlineSnapshot(`
      "file      config/chains.yaml
      database  PostgreSQL chain at db.example:5433; tables in "lockstep", views in "indexed", made by "lockstep migrate" or "start"
      lease     15s; a rewind takes a chain over after 30s

      ethereum  evm, chain id 1
        rpc       https://eth.example
        blocks    19000000 to 19100000; those with events are stored
        finality  the node's "finalized"; a fork takes back at most 256 blocks
        usdc: 0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48, 2 events (Transfer, Approval)

      osmosis  cosmos, chain id osmosis-1
        rpc       http://localhost:26657
        blocks    1 to the head; those with events are stored
        finality  the head; a fork takes back at most 256 blocks
        registry: osmo1sq7r25u96mqf2np604570kezat6argnls8625dytvxzyfa2cwwqql6t5et, 1 event (wasm/register_agent)"
    `)
    expect(text).not.toMatch(/user|pw|key|me:|ssl/)
  })

  test('the commented lines at its end are the defaults', async () => {
    const { readFileSync } = await import('node:fs')
    const text = readFileSync(file, 'utf8')
    const defaults = text.slice(text.indexOf('# lease:')).replace(/^# ?/gm, '')
    const { lease, rewind, progressMs } = load(defaults + evmChain())
    const plain = load(evmChain())
    expect(defaults).toContain('takeOverAfter')
    expect({ lease, rewind, progressMs }).toEqual({
      lease: plain.lease,
      rewind: plain.rewind,
      progressMs: plain.progressMs,
    })
  })
})

describe('database', () => {
  const urlOf = (line: string, env = {}) => load(`database:\n  ${line}\n${evmChain()}`, env).database.url

  test.each([
    ['not given', 'schema: x', {}],
    ['variable not set', 'url: ${DATABASE_URL}', {}],
    ['variable empty', 'url: "${DATABASE_URL}"', { DATABASE_URL: '' }],
    ['default empty', 'url: ${DATABASE_URL:-}', {}],
  ])('embedded: %s', (_, line, env) => expect(urlOf(line, env)).toBeNull())

  test('address from the environment', () => {
    const url = 'postgresql://me:p%40ss@h:5433/db?sslmode=require'
    expect(urlOf('url: ${DATABASE_URL}', { DATABASE_URL: url })).toBe(url)
    expect(urlOf('url: postgres://${A}@h/${B:-db}', { A: 'me' })).toBe('postgres://me@h/db')
  })
})

describe('spans of time', () => {
  test.each([
    ['500ms', 500],
    ['2s', 2_000],
    ['1m', 60_000],
    ['2h', 7_200_000],
  ])('%s', (text, ms) => expect(load(`progressInterval: ${text}\n${evmChain()}`).progressMs).toBe(ms))

  test('those of a rewind follow the lease where they are left out', () => {
    const { rewind } = load(`lease:\n  time: 3s\n${evmChain()}`)
    expect([rewind.takeOverAfterMs, rewind.writeTimeoutMs]).toEqual([6_000, 3_000])
    expect(load(`lease:\n  time: 1m\n${evmChain()}`).rewind.writeTimeoutMs).toBe(10_000)
  })
})

describe('chain', () => {
  test('defaults, EVM', () => {
    const { contracts, filterDigest, ...others } = onlyChain(evmChain()) as EvmChainOptions
    expect(filterDigest).toMatch(/^[0-9a-f]{64}$/)
    expect(contracts.map(({ contract, addresses }) => [contract, addresses])).toEqual([['pings', null]])
    expect(others).toEqual({
      chain: 'alpha',
      kind: 'evm',
      chainId: '1',
      rpc: [{ url: 'http://localhost:8545', ws: null, requestsPerSecond: null, requestsAtOnce: 20 }],
      startHeight: 5,
      endHeight: null,
      finality: { by: 'tag', tag: 'finalized' },
      rollbackDepthMax: 256,
      pollMs: 2_000,
      blocks: 'events',
      transactions: false,
      keepOrphans: false,
      queries: [],
    })
  })

  test('defaults, Cosmos', () => {
    expect(onlyChain(cosmosChain())).toMatchObject({
      kind: 'cosmos',
      chainId: 'beta-1',
      finality: { by: 'depth', depth: 0 },
      contracts: [
        {
          contract: 'registry',
          address: null,
          events: [{ type: 'wasm', action: null }],
          failedTransactions: false,
        },
      ],
    })
  })

  test.each([
    ['finality: safe', { finality: { by: 'tag', tag: 'safe' } }],
    ['finality: 0', { finality: { by: 'depth', depth: 0 } }],
    ['finality: 12', { finality: { by: 'depth', depth: 12 } }],
    ['finality: { tag: safe, depth: 12 }', { finality: { by: 'both', tag: 'safe', depth: 12 } }],
    ['endHeight: 5', { endHeight: 5 }],
    ['blocks: all', { blocks: 'all' }],
    ['transactions: true', { transactions: true }],
    ['maxRollbackDepth: 0', { rollbackDepthMax: 0 }],
    ['pollInterval: 50ms', { pollMs: 50 }],
    ['keepOrphans: true', { keepOrphans: true }],
  ])('%s', (line, expected) => expect(onlyChain(evmChain({ chain: line }))).toMatchObject(expected))

  test('endpoints, as addresses and with what else is known of them', () => {
    const rpc =
      '["http://a", { url: "http://b", ws: "wss://b/ws", requestsPerSecond: 25, requestsAtOnce: 4 }, { url: "http://c" }]'
    expect(onlyChain(evmChain().replace('http://localhost:8545', rpc))?.rpc).toEqual([
      { url: 'http://a', ws: null, requestsPerSecond: null, requestsAtOnce: 20 },
      { url: 'http://b', ws: 'wss://b/ws', requestsPerSecond: 25, requestsAtOnce: 4 },
      { url: 'http://c', ws: null, requestsPerSecond: null, requestsAtOnce: 20 },
    ])
  })

  test('a port that fetch refuses is refused here, and no other', async () => {
    const isTaken = (port: number) => {
      try {
        return load(evmChain().replace('http://localhost:8545', `http://127.0.0.1:${port}`)).chains.length > 0
      } catch {
        return false
      }
    }
    const isFetched = async (port: number) => {
      const failure = await fetch(`http://127.0.0.1:${port}`).catch((error: Error) => error)
      return !(failure instanceof Error && String((failure.cause as Error).message) === 'bad port')
    }
    const near = [1, 22, 25, 993, 2049, 5061, 6000, 6566, 6669, 6697, 10080].flatMap((port) => [
      port,
      port + 1,
    ])
    for (const port of near) expect([port, isTaken(port)]).toEqual([port, await isFetched(port)])
  })

  test('every block and no contract', () => {
    const yaml = evmChain({ chain: 'blocks: all' }).replace(/ {4}contracts:[\s\S]*/, '')
    expect(onlyChain(yaml)).toMatchObject({ blocks: 'all', contracts: [] })
  })

  test('a disabled chain is not there, whatever it lacks', () => {
    const yaml = `${evmChain()}  later:\n    enabled: false\n    rpc: \${LATER_URL}\n    knid: evm\n`
    expect(load(yaml).chains.map(({ chain }) => chain)).toEqual(['alpha'])
    expect(() => load(yaml.replace('enabled: false', 'enabled: true'))).toThrow('LATER_URL')
  })

  test('a variable that a disabled chain shares with an enabled one is required', () => {
    const yaml = `${evmChain().replace('http://localhost:8545', '*url')}`
    const shared = yaml.replace('chains:\n', 'chains:\n  later:\n    enabled: false\n    rpc: &url ${URL}\n')
    expect(() => load(shared)).toThrow('chains.alpha.rpc: environment variable URL is not set')
    expect(load(shared, { URL: 'http://h' }).chains[0]?.rpc).toMatchObject([{ url: 'http://h' }])
  })

  test('the order of the file is kept, and two chains may be of one network', () => {
    const second = evmChain().replace('chains:\n', '').replace('alpha', 'aaa')
    expect(load(evmChain() + second).chains.map(({ chain }) => chain)).toEqual(['alpha', 'aaa'])
  })
})

describe('what views are asked for', () => {
  test('an EVM contract names arguments of any of its events', () => {
    const contract =
      'abi: ["event A(address who, uint8)", "event B(uint256 n, string indexed s)"]\nindex: [who, n, s, "1"]'
    expect(onlyChain(evmChain({ contract }))?.queries).toEqual([
      { contract: 'pings', attributes: [], index: ['who', 'n', 's', '1'] },
    ])
  })

  test('a Cosmos contract names attributes; those of an index have a column too', () => {
    const contract = 'events: [wasm]\nattributes: [amount, sender]\nindex: [sender, recipient]'
    expect(onlyChain(cosmosChain({ contract }))?.queries).toEqual([
      { contract: 'registry', attributes: ['amount', 'sender', 'recipient'], index: ['sender', 'recipient'] },
    ])
  })
})

describe('variables', () => {
  test('unquoted digits and truth values are what YAML takes them for, quoted ones are text', () => {
    const yaml = evmChain({ chain: 'endHeight: ${END}\nenabled: ${ON}' })
    expect(onlyChain(yaml, { END: '900', ON: 'true' })).toMatchObject({ endHeight: 900 })
    expect(onlyChain(cosmosChain().replace('beta-1', '"${ID}"'), { ID: '42' })?.chainId).toBe('42')
  })

  test('a value is never read as YAML', () => {
    const value = 'http://h/#x", "y\n    finality: 0'
    const options = () => onlyChain(evmChain().replace('http://localhost:8545', '["${URL}"]'), { URL: value })
    expect(options).toThrow('1 mistake')
    const chainId = 'a: b # "c"\n- d'
    expect(onlyChain(cosmosChain().replace('beta-1', '${ID}'), { ID: chainId })?.chainId).toBe(chainId)
  })
})

describe('EVM contract', () => {
  const abi = 'abi: ["event Ping(uint256 n)"]'
  const addresses = (address: string) =>
    (onlyChain(evmChain({ contract: `address: ${address}\n${abi}` })) as EvmChainOptions).contracts[0]
      ?.addresses

  test.each([
    ['checksum', `"${USDC}"`],
    ['lower case', `"${USDC.toLowerCase()}"`],
    ['upper case', `"0x${USDC.slice(2).toUpperCase()}"`],
    ['a list', `["${USDC}"]`],
  ])('an address is kept in lower case: %s', (_, text) =>
    expect(addresses(text)).toEqual([USDC.toLowerCase()]),
  )

  const names = (contract: string, files = {}) =>
    evmEvents(contract, files)?.map(({ name, inputs }) => `${name}/${inputs.length}`)
  const three = 'abi: ["event A(uint256 n)", "event B()", "event A(uint8, bool)", "function f()"]'

  test.each([
    ['left out', '', ['A/1', 'B/0', 'A/2']],
    ['a name takes its overloads', 'events: [A]', ['A/1', 'A/2']],
    ['in the order of the ABI', 'events: [B, A]', ['A/1', 'B/0', 'A/2']],
    ['a signature', 'events: ["A(uint8,bool)"]', ['A/2']],
    ['a signature as in the source', 'events: ["event A(uint number)"]', ['A/1']],
    ['twice the same', 'events: [B, "B()"]', ['B/0']],
  ])('events: %s', (_, events, expected) => expect(names(`${three}\n${events}`)).toEqual(expected))

  test('structs and anonymous events in signatures', () => {
    const contract = `address: "${USDC}"\nabi: ["event Z(Point p) anonymous", "struct Point { uint256 x; bool y; }"]`
    expect(evmEvents(contract)).toMatchObject([
      {
        name: 'Z',
        anonymous: true,
        inputs: [{ type: 'tuple', name: 'p', components: [{ name: 'x' }, { name: 'y' }] }],
      },
    ])
  })

  const event = {
    type: 'event',
    name: 'Ping',
    inputs: [{ type: 'tuple[]', name: 'address', indexed: true, components: [{ type: 'uint8', name: 'x' }] }],
  }
  test.each([
    ['an array', [event, { type: 'function', name: 'f', inputs: [] }, { type: 'receive' }]],
    ['output of a compiler', { contractName: 'P', abi: [event], bytecode: '0x' }],
    ['the same event twice', [event, event]],
  ])('a JSON file: %s', (_, json) => {
    expect(evmEvents('abi: ping.json', { 'ping.json': JSON.stringify(json) })).toEqual([event])
  })

  test('events of one signature are kept apart by how many parameters are indexed', () => {
    const contract =
      'abi: ["event T(address indexed a, uint256 v)", "event T(address indexed a, uint256 indexed id)"]'
    expect(names(contract)).toEqual(['T/2', 'T/2'])
  })
})

describe('Cosmos contract', () => {
  const contractOf = (contract: string) => onlyChain(cosmosChain({ contract }))?.contracts[0]
  test.each([
    [`address: ${REGISTRY.toUpperCase()}`, { address: REGISTRY }],
    [
      'events: [{ type: wasm, action: go }, transfer]',
      {
        events: [
          { type: 'wasm', action: 'go' },
          { type: 'transfer', action: null },
        ],
      },
    ],
    ['failedTransactions: true', { failedTransactions: true }],
  ])('%s', (text, expected) => {
    const defaults = { contract: 'registry', address: null, events: null, failedTransactions: false }
    expect(contractOf(text)).toEqual({ ...defaults, ...expected })
  })
})
