import { blockTimeOf, type CosmosChain, type EvmChain, startCosmos, startEvm, transferAt } from './chains.js'

/** Three chains that do not grow (the Cosmos chain is followed to an `endHeight`), and a moment in their midst. */
export interface StaticChains {
  readonly chains: readonly [EvmChain, EvmChain, CosmosChain]
  /** Each chain's last block. */
  readonly heads: Readonly<Record<'alpha' | 'beta' | 'gamma', number>>
  /** On each chain some blocks with events are after it, and some before. It is the time of a block of `gamma`. */
  readonly moment: string
  stop(): Promise<void>
}

const TRANSACTIONS = 8

/**
 * `alpha` has finalized blocks, so a part of it is taken as a range; `beta` stores every block. Times are those of
 * `gamma`, whose node has a clock of its own.
 */
export async function startStaticChains(): Promise<StaticChains> {
  const gamma = await startCosmos('gamma', {}, 200)
  const started: { stop(): Promise<void> }[] = [gamma]
  try {
    for (let number = 0; number < TRANSACTIONS; number++) {
      await gamma.add(`name-${number}`)
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    const end = await headOf(gamma)
    const moment = await blockTimeOf(gamma, Math.floor(end / 2))
    const second = Math.floor(Date.parse(moment) / 1000)
    const evm = { genesisTime: second - 600 }
    const alpha = await startEvm('alpha', { ...evm, chainId: 1001, slotsInAnEpoch: 2 })
    started.push(alpha)
    const beta = await startEvm('beta', { ...evm, chainId: 1002 }, { blocks: 'all' })
    started.push(beta)
    const around = (offset: number) => Array.from({ length: 16 }, (_, i) => second + offset + i)
    await transferAt(alpha, around(-8))
    await transferAt(beta, around(-5))
    const heads = { alpha: await evmHead(alpha), beta: await evmHead(beta), gamma: end }
    const bounded = { ...gamma, config: { ...gamma.config, endHeight: end } }
    return { chains: [alpha, beta, bounded], heads, moment, stop: () => stopAll(started) }
  } catch (error) {
    await stopAll(started)
    throw error
  }
}

async function stopAll(started: readonly { stop(): Promise<void> }[]): Promise<void> {
  await Promise.all(started.map((each) => each.stop()))
}

const evmHead = async ({ anvil }: EvmChain): Promise<number> =>
  Number(await anvil.rpc<string>('eth_blockNumber'))

async function headOf(chain: CosmosChain): Promise<number> {
  const response = await fetch(chain.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'status', params: {} }),
  })
  const answer = (await response.json()) as { result: { sync_info: { latest_block_height: string } } }
  return Number(answer.result.sync_info.latest_block_height)
}
