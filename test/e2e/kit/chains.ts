import {
  type Anvil,
  type AnvilOptions,
  type CometBft,
  deployErc20,
  type Erc20,
  findCometBft,
  SimulatedCometChain,
  SimulatedCometNode,
  startAnvil,
  startCometBft,
} from '@lockstep/testkit'

/** A chain of a test, and how `config/chains.yaml` declares it. */
export interface TestChain {
  readonly name: string
  readonly config: Readonly<Record<string, unknown>>
  stop(): Promise<void>
}

export interface EvmChain extends TestChain {
  readonly anvil: Anvil
  readonly token: Erc20
}

export interface CosmosChain extends TestChain {
  /** Which node serves it: a real CometBFT where the machine has one. */
  readonly kind: string
  readonly url: string
  /** Puts one transaction with one event into a block of its own, or into the next one. */
  add(name: string): Promise<void>
}

const TRANSFER = 'event Transfer(address indexed from, address indexed to, uint256 value)'

/** Anvil with a real ERC-20. Without `blockTime` each transaction is a block. */
export async function startEvm(
  name: string,
  anvilOptions: AnvilOptions,
  config: Readonly<Record<string, unknown>> = {},
): Promise<EvmChain> {
  const anvil = await startAnvil(anvilOptions)
  try {
    const token = await deployErc20(anvil.url)
    return {
      name,
      anvil,
      token,
      config: {
        kind: 'evm',
        chainId: anvilOptions.chainId,
        rpc: [anvil.url],
        startHeight: 0,
        pollInterval: '200ms',
        contracts: { token: { address: token.address, abi: [TRANSFER], events: ['Transfer'] } },
        ...config,
      },
      stop: () => anvil.stop(),
    }
  } catch (error) {
    await anvil.stop()
    throw error
  }
}

/** One block with one transfer at each of the given times, in seconds. */
export async function transferAt(chain: EvmChain, times: readonly number[]): Promise<void> {
  for (const time of times) {
    await chain.anvil.rpc('evm_setNextBlockTimestamp', [time])
    await chain.token.transfer(addressFor(time), BigInt(time))
  }
}

export const addressFor = (number: number): `0x${string}` => `0x${number.toString(16).padStart(40, '0')}`

const COSMOS_ID = 'e2e-1'

export async function startCosmos(
  name: string,
  config: Readonly<Record<string, unknown>> = {},
  blockTimeMs = 300,
): Promise<CosmosChain> {
  return findCometBft() === null
    ? simulatedCosmos(name, config, blockTimeMs)
    : realCosmos(name, config, await startCometBft({ chainId: COSMOS_ID, blockTimeMs }))
}

function realCosmos(name: string, config: object, node: CometBft): CosmosChain {
  return {
    name,
    kind: `CometBFT ${node.version}`,
    url: node.url,
    config: cosmosConfig(node.url, config),
    add: async (key) => void (await node.addTx(key, 'value')),
    stop: () => node.stop(),
  }
}

async function simulatedCosmos(name: string, config: object, blockTimeMs: number): Promise<CosmosChain> {
  const chain = new SimulatedCometChain({ chainId: COSMOS_ID, version: '0.38.0' })
  const grow = (): void => chain.extend([{ time: new Date().toISOString() }])
  grow()
  const timer = setInterval(grow, blockTimeMs)
  const node = await SimulatedCometNode.start(chain)
  return {
    name,
    kind: 'a simulated CometBFT node',
    url: node.url,
    config: cosmosConfig(node.url, config),
    add: async (key) => {
      const events = [{ type: 'app', attributes: [['key', key]] as const }]
      chain.extend([{ time: new Date().toISOString(), txs: [{ events }] }])
    },
    stop: async () => {
      clearInterval(timer)
      await node.stop()
    },
  }
}

const cosmosConfig = (url: string, config: object): Readonly<Record<string, unknown>> => ({
  kind: 'cosmos',
  chainId: COSMOS_ID,
  rpc: [url],
  startHeight: 1,
  pollInterval: '200ms',
  contracts: { app: { events: [{ type: 'app' }] } },
  ...config,
})

/** Sends something each `everyMs` until the returned function is called; what a node refuses is not missed. */
export function keepDoing(work: () => Promise<unknown>, everyMs: number): () => Promise<void> {
  let stopped = false
  const running = (async () => {
    while (!stopped) {
      await work().catch(() => {})
      await new Promise((resolve) => setTimeout(resolve, everyMs))
    }
  })()
  return () => {
    stopped = true
    return running
  }
}

/** A block's own time as the node gives it. */
export async function blockTimeOf(chain: EvmChain | CosmosChain, height: number): Promise<string> {
  if ('anvil' in chain) {
    const block = await chain.anvil.rpc<{ timestamp: string }>('eth_getBlockByNumber', [
      `0x${height.toString(16)}`,
      false,
    ])
    return new Date(Number(block.timestamp) * 1000).toISOString()
  }
  const body = { jsonrpc: '2.0', id: 1, method: 'block', params: { height: String(height) } }
  const response = await fetch(chain.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as { result: { block: { header: { time: string } } } }
  return answer.result.block.header.time
}
