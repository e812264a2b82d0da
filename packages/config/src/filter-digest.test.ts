import { describe, expect, test } from 'vitest'
import { cosmosChain, evmChain, load } from './config-file.fixture.js'
import { filtersOf } from './filter-digest.js'

const digest = (yaml: string, files = {}) => load(yaml, {}, files).chains[0]?.filterDigest

const A = '"0x00000000000000000000000000000000000000aa"'
const B = '"0x00000000000000000000000000000000000000bb"'
const contract = `address: [${A}, ${B}]\nabi: ["event P(uint256 indexed n, bool b)", "event Q()"]`
const base = evmChain({ contract })
const other = (from: string | RegExp, to: string) => {
  expect(base).toMatch(from)
  return base.replace(from, to)
}

describe('the same facts give the same digest', () => {
  test.each([
    ['nodes', other('localhost:8545', 'elsewhere')],
    ['heights', other('startHeight: 5', 'startHeight: 6\n    endHeight: 900')],
    [
      'timings, finality, depth',
      evmChain({ contract, chain: 'pollInterval: 9s\nfinality: 3\nmaxRollbackDepth: 1' }),
    ],
    ['order of addresses', other(`[${A}, ${B}]`, `[${B}, ${A}]`)],
    [
      'order of events',
      other(
        '"event P(uint256 indexed n, bool b)", "event Q()"',
        '"event Q()", "event P(uint256 indexed n, bool b)"',
      ),
    ],
    ['events written out', evmChain({ contract: `${contract}\nevents: [Q, P]` })],
    ['another way to write a type', other('uint256', 'uint')],
    ['defaults written out', evmChain({ contract, chain: 'blocks: events\ntransactions: false' })],
    ['what is kept of forks', evmChain({ contract, chain: 'keepOrphans: true' })],
    ['indexes of views', evmChain({ contract: `${contract}\nindex: [n]` })],
  ])('%s', (_, yaml) => expect(digest(yaml)).toBe(digest(base)))

  test('whether the ABI is a file', () => {
    const input = (type: string, name: string, indexed: boolean) => ({
      type,
      name,
      indexed,
      internalType: 'Some',
    })
    const json = JSON.stringify([
      {
        type: 'event',
        name: 'P',
        anonymous: false,
        inputs: [input('uint256', 'n', true), input('bool', 'b', false)],
      },
      { type: 'event', name: 'Q', inputs: [] },
    ])
    const yaml = evmChain({ contract: `address: [${A}, ${B}]\nabi: p.json` })
    expect(digest(yaml, { 'p.json': json })).toBe(digest(base))
  })

  test('topic filters, however they are written', () => {
    const abi = 'abi: ["event T(address indexed a, address indexed b, uint256 indexed n)"]'
    const filtered = (events: string) => digest(evmChain({ contract: `${abi}\nevents: ${events}` }))
    const one = filtered(`[{ name: T, where: { a: [${A}, ${B}], n: 255 } }]`)
    expect(
      filtered(`[{ name: "T(address,address,uint256)", where: { n: "0xff", a: [${B}, ${A}, ${A}] } }]`),
    ).toBe(one)
    expect(filtered('[T]')).toBe(filtered(`[T, { name: T, where: { a: ${A} } }]`))
    const others = [
      `[T]`,
      `[{ name: T, where: { a: ${A}, n: 255 } }]`,
      `[{ name: T, where: { b: [${A}, ${B}], n: 255 } }]`,
    ]
    expect(new Set([one, ...others.map(filtered)]).size).toBe(4)
  })

  test('what else of a factory is indexed', () => {
    const pools = (factory: string) => {
      const yaml = `${evmChain({ contract: factory })}      pools:
        abi: ["event Swap()"]
        factory: { contract: pings, event: New, argument: pool }
`
      const [chain] = load(yaml).chains
      const filters = chain === undefined ? [] : filtersOf(chain)
      return filters.find(({ contract }) => contract === 'pools')?.filter
    }
    const event = '"event New(address indexed pool, bool indexed big)"'
    const one = pools(`address: ${A}\nabi: [${event}]`)
    expect(pools(`address: ${A}\nabi: [${event}, "event Other()"]`)).toBe(one)
    expect(pools(`address: ${B}\nabi: [${event}]`)).not.toBe(one)
    expect(pools(`address: ${A}\nabi: [${event}]\nevents: [{ name: New, where: { big: true } }]`)).not.toBe(
      one,
    )
  })

  test('order of event types, Cosmos', () => {
    const [one, two] = ['[wasm, { type: x, action: y }]', '[{ type: x, action: y }, { type: wasm }]']
    expect(digest(cosmosChain({ contract: `events: ${one}` }))).toBe(
      digest(cosmosChain({ contract: `events: ${two}` })),
    )
  })
})

describe('other facts give another digest', () => {
  test.each([
    ['an address less', other(`[${A}, ${B}]`, `[${A}]`)],
    ['any address', other(/address: .*/, '')],
    ['an event less', evmChain({ contract: `${contract}\nevents: [P]` })],
    ['another parameter name', other('indexed n', 'indexed m')],
    ['another type', other('uint256', 'uint128')],
    ['another parameter indexed', other('indexed n, bool b', 'n, bool indexed b')],
    ['anonymous', other('Q()', 'Q() anonymous')],
    ['another name of the contract', other('pings:', 'pongs:')],
    ['all blocks', evmChain({ contract, chain: 'blocks: all' })],
    ['transactions too', evmChain({ contract, chain: 'transactions: true' })],
  ])('%s', (_, yaml) => expect(digest(yaml)).not.toBe(digest(base)))

  test('order of contracts: a log that fits two belongs to the first', () => {
    const two = (first: string, second: string) =>
      evmChain().replace(
        / {6}pings:[\s\S]*/,
        [first, second].map((name) => `      ${name}:\n        abi: ["event A()"]\n`).join(''),
      )
    expect(digest(two('a', 'b'))).not.toBe(digest(two('b', 'a')))
  })

  test.each([
    ['action', 'events: [{ type: wasm, action: go }]'],
    ['failed transactions', 'events: [wasm]\nfailedTransactions: true'],
    ['every type', 'address: osmo1qurswpc8qurswpc8qurswpc8qurswpc8qurswpc8qurswpc8qurstc4vrk'],
  ])('Cosmos: %s', (_, text) =>
    expect(digest(cosmosChain({ contract: text }))).not.toBe(digest(cosmosChain())),
  )
})
