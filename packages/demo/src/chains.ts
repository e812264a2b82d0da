import {
  type Anvil,
  deployErc20,
  type Erc20,
  findCometBft,
  SimulatedCometChain,
  SimulatedCometNode,
  startAnvil,
  startCometBft,
  startTransfers,
} from '@lockstep/testkit'

/** One chain that the demo runs, and how it is declared in `config/chains.yaml`. */
export interface DemoChain {
  readonly name: string
  readonly kind: string
  /** The chain's part of the config, without `endHeight`. */
  readonly config: object
  /** Ends what makes it grow. */
  quiet(): Promise<void>
  stop(): Promise<void>
}

const TRANSFER = 'event Transfer(address indexed from, address indexed to, uint256 value)'

/** A real EVM node with a real ERC-20 on it, whose owner makes transfers. */
export async function startEvmChain(name: string, chainId: number, blockTime: number): Promise<DemoChain> {
  const anvil = await startAnvil({ chainId, blockTime })
  try {
    const token = await deployErc20(anvil.url)
    return evmChain(name, chainId, blockTime, anvil, token)
  } catch (error) {
    await anvil.stop()
    throw error
  }
}

function evmChain(name: string, chainId: number, blockTime: number, anvil: Anvil, token: Erc20): DemoChain {
  const transfers = startTransfers(token, 150)
  return {
    name,
    kind: `Anvil, chain id ${chainId}, a block each ${blockTime} s, ERC-20 at ${token.address}`,
    config: {
      kind: 'evm',
      chainId,
      rpc: [anvil.url],
      startHeight: 0,
      pollInterval: '250ms',
      contracts: { token: { address: token.address, abi: [TRANSFER], events: ['Transfer'] } },
    },
    quiet: () => transfers.stop(),
    stop: () => anvil.stop(),
  }
}

/** A real CometBFT node where the machine has one, else the simulated node of the test kit. */
export async function startCosmosChain(name: string): Promise<DemoChain> {
  return findCometBft() === null ? simulatedCosmos(name) : realCosmos(name)
}

async function realCosmos(name: string): Promise<DemoChain> {
  const node = await startCometBft({ chainId: 'demo-1', blockTimeMs: 700 })
  let number = 0
  let sending: Promise<unknown> = Promise.resolve()
  const timer = setInterval(() => {
    number += 1
    sending = node.addTx(`name-${number}`, `value-${number}`).catch(() => {}) // one that the node refuses is not missed
  }, 400)
  return {
    name,
    kind: `CometBFT ${node.version} (a real node with its kvstore application), a block each 0.7 s`,
    config: cosmosConfig(node.url, 'demo-1'),
    quiet: async () => {
      clearInterval(timer)
      await sending
    },
    stop: () => node.stop(),
  }
}

async function simulatedCosmos(name: string): Promise<DemoChain> {
  const chain = new SimulatedCometChain({ chainId: 'demo-1', version: '0.38.0' })
  const grow = (): void => {
    const events = [{ type: 'app', attributes: [['key', `name-${chain.head + 1}`]] as [string, string][] }]
    chain.extend([{ time: new Date().toISOString(), txs: [{ events }] }])
  }
  grow()
  const timer = setInterval(grow, 700)
  const node = await SimulatedCometNode.start(chain)
  return {
    name,
    kind: 'a simulated CometBFT node (no cometbft binary was found; with Go, "node scripts/install-cometbft.mjs" gives one)',
    config: cosmosConfig(node.url, 'demo-1'),
    quiet: async () => clearInterval(timer),
    stop: () => node.stop(),
  }
}

const cosmosConfig = (url: string, chainId: string): object => ({
  kind: 'cosmos',
  chainId,
  rpc: [url],
  startHeight: 1,
  pollInterval: '250ms',
  contracts: { app: { events: [{ type: 'app' }] } },
})
