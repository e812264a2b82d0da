// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables in the file are written so
/*
 * Goal: the text of every mistake a person can make in the file, as that person sees it.
 * Method: a real file with the mistake, loaded; the whole message is the snapshot, so that a second complaint about
 * one mistake shows as well.
 */
import { describe, expect, test } from 'vitest'
import { cosmosChain, evmChain, mistakesIn } from './config-file.fixture.js'

const USDC = '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48'

test('S26 configuration mistakes are reported together and at the right place', () => {
  const yaml = `chains:
  alpha:
    kind: evm
    chainId: 1
    rpc: ["\${ALPHA_RPC_URL}", "https://user:s3cret@node.example/key"]
    startHeight: 5
    endHeight: soon
    polInterval: 2s
    contracts:
      usdc:
        address: ${USDC}
        abi: ["event Ping()"]
  beta:
    enabled: false
    kind: cosmos
    rpc: ["\${BETA_RPC_URL}"]
`
  expect(mistakesIn(yaml, { UNRELATED: 's3cret' })).toMatchInlineSnapshot(`
    "config/chains.yaml has 4 mistakes:
      config/chains.yaml:5:11 chains.alpha.rpc[0]: environment variable ALPHA_RPC_URL is not set
          Set ALPHA_RPC_URL, or give a default: \${ALPHA_RPC_URL:-…}.
      config/chains.yaml:7:16 chains.alpha.endHeight: must be a whole number, found text
          Last block to index, a whole number; left out: the chain is followed for ever.
      config/chains.yaml:8:5 chains.alpha.polInterval: unknown key
          Did you mean "pollInterval"?
      config/chains.yaml:11:18 chains.alpha.contracts.usdc.address: must be an address or a list of addresses, in quotes
          Put it in quotes: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"."
  `)
})

describe('YAML', () => {
  test.each([
    ['unquoted reference in a list', 'chains:\n  a:\n    rpc: [${URL}]\n'],
    ['quote left open', 'database:\n  url: "postgres://u:s3cret@h/db\n'],
    ['bad indentation', 'chains:\n  a: 1\n b: 2\n'],
    ['tab', 'chains:\n\ta: 1\n'],
    ['two values on a line', 'database: url: x\n'],
    ['two documents', `${evmChain()}---\n${evmChain()}`],
    ['reserved character', 'chains: @x\n'],
    ['key twice', evmChain({ chain: 'chainId: 2' })],
    ['key twice, and another mistake', evmChain({ chain: 'chainId: 2\nendHeight: x' })],
    ['alias without anchor', evmChain({ chain: 'endHeight: *end' })],
    ['alias within its own anchor', `${evmChain()}database: &d\n  url: *d\n`],
  ])('%s', (_, yaml) => expect(mistakesIn(yaml)).toMatchSnapshot())

  test.each([
    ['an empty file', ''],
    ['only text', 'hello'],
    ['no chains', 'progressInterval: 5s'],
    ['chains without a value', 'chains:'],
    ['an empty mapping of chains', 'chains: {}'],
    ['chains as a list', 'chains: [a]'],
    ['a chain without settings', 'chains:\n  alpha:\n'],
    ['all chains disabled', evmChain({ chain: 'enabled: false' })],
  ])('%s', (_, yaml) => expect(mistakesIn(yaml)).toMatchSnapshot())

  test('a file that is not there', async () => {
    const { loadConfig } = await import('./load-config.js')
    expect(() => loadConfig({ file: 'nowhere/chains.yaml', env: {} })).toThrowErrorMatchingInlineSnapshot(`
      [ConfigError: nowhere/chains.yaml has 1 mistake:
        nowhere/chains.yaml: the file is not there
            Give the right path, or begin with a copy of config/chains.yaml of the project.]
    `)
  })
})

describe('database, lease, rewind', () => {
  test.each([
    ['other database', 'database:\n  url: mysql://root:s3cret@h/db'],
    ['address without scheme', 'database:\n  url: localhost:5432'],
    ['upper case in a schema', 'database:\n  schema: Lockstep'],
    ['schema with a name of PostgreSQL', 'database:\n  schema: pg_mine'],
    ['schema of 64 letters', `database:\n  schema: ${'a'.repeat(64)}`],
    ['the same schema twice', 'database:\n  schema: indexed'],
    ['misspelt key', 'database:\n  shema: x'],
    ['section without a value', 'rewind:'],
    ['span without unit', 'rewind:\n  pollInterval: 5'],
    ['span with an unknown unit', 'progressInterval: 5d'],
    ['span with a blank', 'progressInterval: 5 s'],
    ['span of nothing', 'progressInterval: 0s'],
    ['span of more than a day', 'progressInterval: 25h'],
    ['lease that no renewal keeps', 'lease:\n  time: 100ms'],
    ['writes that outlive a lease', 'rewind:\n  writeTimeout: 20s'],
    ['top-level key misspelt', 'leese:\n  time: 1s'],
    ['top-level key unlike any', 'zzz: 1'],
  ])('%s', (_, yaml) => expect(mistakesIn(`${yaml}\n${evmChain()}`)).toMatchSnapshot())
})

describe('chain', () => {
  const complete = evmChain()
  const without = (key: string) => complete.replace(new RegExp(`^ {4}${key}:.*\n`, 'm'), '')
  const instead = (key: string, value: string) =>
    complete.replace(new RegExp(`^( {4}${key}:).*$`, 'm'), `$1 ${value}`)

  test('finality by both, without one of them', () =>
    expect(mistakesIn(evmChain({ chain: 'finality: { tag: finalised }' }))).toMatchSnapshot())

  test.each([
    ['key in upper case', complete.replace('alpha', 'Alpha')],
    ['key that is a URL', complete.replace('alpha', '"http://u:s3cret@h"')],
    ['kind missing', without('kind')],
    [
      'kind misspelt, and another mistake',
      instead('kind', 'evn').replace('startHeight: 5', 'startHeight: x'),
    ],
    ['kind unknown', instead('kind', 'solana')],
    ['chainId missing', without('chainId')],
    ['chainId as text', instead('chainId', '"1"')],
    ['chainId with a fraction', instead('chainId', '1.5')],
    ['chainId beyond integers', instead('chainId', '1e300')],
    ['rpc missing', without('rpc')],
    ['rpc without a value', instead('rpc', '')],
    ['rpc as an empty list', instead('rpc', '[]')],
    ['rpc as a mapping', instead('rpc', '{ "http://u:s3cret@h": 1 }')],
    ['rpc over websocket', instead('rpc', 'wss://u:s3cret@h')],
    ['rpc on a port that fetch refuses', instead('rpc', '"http://node:6000"')],
    [
      'rpc with keys, misspelt',
      instead('rpc', '[{ url: "http://node", wss: "ws://node" }, { ws: "ws://node" }]'),
    ],
    [
      'rpc with keys, wrong',
      instead('rpc', '{ url: "ws://node", ws: "http://node", requestsPerSecond: 0.5 }'),
    ],
    ['rpc without scheme', instead('rpc', '["localhost:8545", "s3cret"]')],
    ['startHeight missing', without('startHeight')],
    ['startHeight misspelt', complete.replace('startHeight', 'startHieght')],
    ['startHeight by the name that others use', complete.replace('startHeight', 'start_block')],
    ['startHeight below 0', instead('startHeight', '-1')],
    [
      'endHeight below startHeight, beside another mistake',
      evmChain({ chain: 'endHeight: 4\npollInterval: 5' }),
    ],
    ['finality unknown', evmChain({ chain: 'finality: final' })],
    ['finality below 0', evmChain({ chain: 'finality: -1' })],
    ['blocks unknown', evmChain({ chain: 'blocks: evnts' })],
    ['enabled as a word', evmChain({ chain: 'enabled: yes' })],
    ['contracts left out', complete.replace(/ {4}contracts:[\s\S]*/, '')],
    ['contracts misspelt', complete.replace('contracts:', 'contract:')],
    ['contract with a bad name', complete.replace('pings:', '"my pings":')],
  ])('%s', (_, yaml) => expect(mistakesIn(yaml)).toMatchSnapshot())

  test.each([
    ['cosmos: chainId as a number', cosmosChain().replace('beta-1', '1')],
    ['cosmos: chainId of 51 characters', cosmosChain().replace('beta-1', 'x'.repeat(51))],
    ['cosmos: startHeight 0', cosmosChain().replace('startHeight: 1', 'startHeight: 0')],
    ['cosmos: finality by tag', cosmosChain({ chain: 'finality: finalized' })],
  ])('%s', (_, yaml) => expect(mistakesIn(yaml)).toMatchSnapshot())
})

describe('EVM contract', () => {
  const ping = 'abi: ["event Ping(uint256 n)"]'
  test.each([
    ['address without quotes', `address: ${USDC}\n${ping}`],
    ['addresses without quotes in a list', `address: [${USDC}, "${USDC}"]\n${ping}`],
    ['address too short', `address: "0x12"\n${ping}`],
    ['wrong checksum', `address: "${USDC.replace('D', 'd')}"\n${ping}`],
    ['address twice in another case', `address: ["${USDC}", "${USDC.toLowerCase()}"]\n${ping}`],
    ['address as an empty list', `address: []\n${ping}`],
    ['address without a value', `address:\n${ping}`],
    ['abi missing', `address: "${USDC}"`],
    ['abi as an empty list', 'abi: []'],
    ['signature outside of a list', 'abi: "event Ping()"'],
    [
      'signatures that are none',
      'abi: ["event Ping(unit256 n)", "Ping()", "event Ping(uint256 n", "event Ok()"]',
    ],
    ['only functions', 'abi: ["function ping()"]'],
    ['four indexed', 'abi: ["event P(bool indexed, bool indexed, bool indexed, bool indexed)"]'],
    ['two that look the same', 'abi: ["event P(bool indexed a, bool b)", "event P(bool a, bool indexed b)"]'],
    ['event unknown', `${ping}\nevents: [Pong]`],
    ['event unlike any', `${ping}\nevents: [Transfer]`],
    ['signature unlike the ABI', `${ping}\nevents: ["Ping(uint8)"]`],
    ['events as an empty list', `${ping}\nevents: []`],
    ['events as text', `${ping}\nevents: Ping`],
    [
      'anonymous at any address, named',
      'abi: ["event Ping() anonymous", "event Pong()"]\nevents: [Pong, Ping]',
    ],
    ['anonymous at any address, of the ABI', 'abi: ["event Ping() anonymous", "event Pong()"]'],
    ['index of an unknown argument', `${ping}\nindex: [n, m]`],
    ['index where there are no arguments', 'abi: ["event Ping()"]\nindex: [n]'],
    [
      'index of an argument of an event that is not chosen',
      'abi: ["event A(bool a)", "event B(bool b)"]\nevents: [A]\nindex: [b]',
    ],
    ['index of a list', 'abi: ["event Ping(uint256[] n)"]\nindex: [n]'],
    ['index twice', `${ping}\nindex: [n, n]`],
    ['index as text', `${ping}\nindex: n`],
    ['each field wrong', 'address: "0x1"\nabi: ["nonsense"]\nevents: []\nevent: x'],
  ])('%s', (_, contract) => expect(mistakesIn(evmChain({ contract }))).toMatchSnapshot())

  const event = (inputs: unknown) => JSON.stringify([{ type: 'event', name: 'Ping', inputs }])
  test.each([
    ['is not there', {}],
    ['is no JSON', { 'ping.json': 'PASSWORD=s3cret' }],
    ['holds no ABI', { 'ping.json': '{"name":"s3cret"}' }],
    ['holds no event', { 'ping.json': '[{"type":"constructor"}]' }],
    ['has an unknown type', { 'ping.json': event([{ type: 'uint257', name: 'n' }]) }],
    ['has no types', { 'ping.json': event([{ name: 'n' }]) }],
    ['has a tuple of nothing', { 'ping.json': event([{ type: 'tuple', name: 'n' }]) }],
  ])('a file that %s', (_, files) =>
    expect(mistakesIn(evmChain({ contract: 'abi: ping.json' }), {}, files)).toMatchSnapshot(),
  )
})

describe('Cosmos contract', () => {
  test.each([
    ['address too short', 'address: osmo1xyz'],
    ['wrong checksum', 'address: osmo1qurswpc8qurswpc8qurswpc8qurswpc8qurswpc8qurswpc8qurstc4vrq'],
    ['bytes of no address', 'address: osmo1qyqszqgplxkua3'],
    ['EVM address', `address: "${USDC}"`],
    ['events as an empty list', 'events: []'],
    ['event without a type', 'events: [{ action: x }]'],
    ['event with a misspelt key', 'events: [{ typ: wasm }]'],
    ['event as a number', 'events: [7]'],
    ['event of nothing', 'events: [""]'],
    ['index twice', 'index: [sender, sender]'],
    ['attributes as an empty list', 'attributes: []'],
    ['the ABI of an EVM contract', 'abi: x.json'],
  ])('%s', (_, contract) => expect(mistakesIn(cosmosChain({ contract }))).toMatchSnapshot())
})

describe('variables', () => {
  test.each([
    ['not set', evmChain({ chain: 'endHeight: ${END}' }), {}],
    ['empty', evmChain({ chain: 'endHeight: ${END}' }), { END: '' }],
    ['of the wrong kind', evmChain({ chain: 'endHeight: ${END}' }), { END: 's3cret' }],
    ['quoted, so text', evmChain({ chain: 'endHeight: "${END}"' }), { END: '9' }],
    ['no name', evmChain({ chain: 'finality: ${1}' }), {}],
    ['no end', evmChain({ chain: 'finality: "${END"' }), {}],
    ['one in another', evmChain({ chain: 'finality: ${A:-${B}}' }), {}],
    ['two in one text', 'database:\n  url: postgres://${PGUSER}:${PGPASSWORD}@h\n'.concat(evmChain()), {}],
  ])('%s', (_, yaml, env) => expect(mistakesIn(yaml, env)).toMatchSnapshot())

  // Each field once with a value that is wrong there: whatever is said about it, the value is not in it.
  const secret = '0xS3CRETs3cret'
  const fields = {
    url: `database:\n  url: \${V}\n${evmChain()}`,
    schema: `database:\n  schema: \${V}\n${evmChain()}`,
    lease: `lease:\n  time: \${V}\n${evmChain()}`,
    kind: evmChain().replace('kind: evm', 'kind: ${V}'),
    chainId: evmChain().replace('chainId: 1', 'chainId: ${V}'),
    rpc: evmChain().replace('http://localhost:8545', 'ftp://u:${V}@h/${V}'),
    startHeight: evmChain().replace('startHeight: 5', 'startHeight: ${V}'),
    finality: evmChain({ chain: 'finality: ${V}' }),
    blocks: evmChain({ chain: 'blocks: ${V}' }),
    address: evmChain({ contract: 'address: ${V}\nabi: ["event A()"]' }),
    abi: evmChain({ contract: 'abi: ${V}/x.json' }),
    signature: evmChain({ contract: 'abi: ["event ${V}"]' }),
    signatureType: evmChain({ contract: 'abi: ["event A(${V} x)"]' }),
    event: evmChain({ contract: 'abi: ["event A()"]\nevents: ["${V}"]' }),
    bech32: cosmosChain({ contract: 'address: ${V}' }),
  }
  test.each(Object.entries(fields))('the value of a variable never appears: %s', (_, yaml) => {
    const text = mistakesIn(yaml, { V: secret })
    expect(text).toContain('1 mistake')
    expect(text.toLowerCase()).not.toContain('s3cret')
  })

  test('nor does it where the message has it in another case', () => {
    const address = USDC.replace('D', 'd')
    const text = mistakesIn(evmChain({ contract: 'address: ${V}\nabi: ["event A()"]' }), { V: address })
    expect(text).toContain('wrong checksum')
    expect(text.toLowerCase()).not.toContain(address.toLowerCase())
  })
})

describe('a topic filter', () => {
  const abi = 'abi: ["event Transfer(address indexed from, address indexed to, uint256 value)"]'
  const typed = (type: string, value: string) =>
    `abi: ["event E(${type} indexed a)"]\nevents: [{ name: E, where: { a: ${value} } }]`
  test.each([
    ['of an argument that is not indexed', `${abi}\nevents: [{ name: Transfer, where: { value: 5 } }]`],
    ['of an unknown argument', `${abi}\nevents: [{ name: Transfer, where: { form: "${USDC}" } }]`],
    ['of an unknown event', `${abi}\nevents: [{ name: Transfr, where: { from: "${USDC}" } }]`],
    [
      'of an event without indexed arguments',
      'abi: ["event E(bool a)"]\nevents: [{ name: E, where: { a: 1 } }]',
    ],
    ['of no argument', `${abi}\nevents: [{ name: Transfer, where: {} }]`],
    ['without where', `${abi}\nevents: [{ name: Transfer }]`],
    ['with a misspelt key', `${abi}\nevents: [{ name: Transfer, were: { from: "${USDC}" } }]`],
    ['with an empty list', `${abi}\nevents: [{ name: Transfer, where: { from: [] } }]`],
    ['with no value', `${abi}\nevents: [{ name: Transfer, where: { from: } }]`],
    ['with a wrong checksum', typed('address', `["${USDC}", "${USDC.replace('D', 'd')}"]`)],
    ['with an address without quotes', typed('address', USDC)],
    ['with a number too large', typed('uint8', '256')],
    ['with a number too small', typed('int8', '[-128, -129]')],
    ['with a number beyond what YAML holds', typed('uint64', '18446744073709551616')],
    ['with a fraction', typed('uint8', '1.5')],
    ['with text for a number', typed('uint8', 'ten')],
    ['with a number for a truth', typed('bool', '1')],
    ['with bytes of another length', typed('bytes4', '"0x12345678ab"')],
    ['with bytes without quotes', typed('bytes4', '0x12345678')],
    ['with text for bytes', typed('bytes', 'hello')],
    ['with a number for text', typed('string', '5')],
    ['of a list', typed('uint8[]', '5')],
    [
      'of overloads, one of which has no such argument',
      'abi: ["event E(bool indexed a)", "event E(bool indexed b, bool c)"]\nevents: [{ name: E, where: { a: true } }]',
    ],
  ])('%s', (_, contract) => expect(mistakesIn(evmChain({ contract }))).toMatchSnapshot())
})

describe('a factory', () => {
  const chain = (pools: string, factory = `address: "${USDC}"`) =>
    `${evmChain({
      contract: `${factory}\nabi: ["event PoolCreated(address indexed token, uint256 number, address pool)", "event Other()", "event E(address a)", "event E(address a, bool b)"]`,
    })}      pools:\n        abi: ["event Swap()"]\n        factory: ${pools}\n`
  test.each([
    ['that is no contract', '{ contract: ping, event: PoolCreated, argument: pool }'],
    ['with an unknown event', '{ contract: pings, event: PoolCreate, argument: pool }'],
    ['with an unknown signature', '{ contract: pings, event: "PoolCreated(address)", argument: pool }'],
    ['with an overloaded event', '{ contract: pings, event: E, argument: a }'],
    ['with an unknown argument', '{ contract: pings, event: PoolCreated, argument: pol }'],
    ['with an argument of another type', '{ contract: pings, event: PoolCreated, argument: number }'],
    ['with an event without addresses', '{ contract: pings, event: Other, argument: pool }'],
    ['that lacks a key', '{ contract: pings, event: PoolCreated }'],
    ['with a misspelt key', '{ contract: pings, event: PoolCreated, argumet: pool }'],
    ['as text', 'pings'],
    ['that is itself', '{ contract: pools, event: Swap, argument: pool }'],
    [
      'beside an address',
      `{ contract: pings, event: PoolCreated, argument: pool }\n        address: "${USDC}"`,
    ],
  ])('%s', (_, pools) => expect(mistakesIn(chain(pools))).toMatchSnapshot())

  test('that is a circle of two', () => {
    const pools = '{ contract: pings, event: PoolCreated, argument: pool }'
    const factory = 'factory: { contract: pools, event: Swap, argument: pool }'
    expect(mistakesIn(chain(pools, factory))).toMatchSnapshot()
  })

  test('with mistakes of its own is not complained of twice', () => {
    const pools = '{ contract: pings, event: PoolCreated, argument: pool }'
    expect(mistakesIn(chain(pools, 'address: "0x12"'))).toMatchSnapshot()
  })
})
