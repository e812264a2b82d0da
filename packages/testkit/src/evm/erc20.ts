import { setTimeout as sleep } from 'node:timers/promises'
import type { Hex } from '@lockstep/domain'
import { type Abi, createPublicClient, createWalletClient, defineChain, http, parseAbi } from 'viem'
import { mnemonicToAccount } from 'viem/accounts'
import { compileErc20 } from './compile-erc20.js'

/** A token on a test node, and a hand that moves it. */
export interface Erc20 {
  /** Lower-case. */
  readonly address: Hex
  readonly abi: Abi
  /** The account that deployed it and holds the supply. */
  readonly owner: Hex
  /** Sends a transfer from the owner, and resolves with its transaction hash, mined or not. */
  transfer(to: Hex, value: bigint): Promise<Hex>
}

const ERC20_ABI = parseAbi([
  'event Transfer(address indexed from, address indexed to, uint256 value)',
  'event Approval(address indexed owner, address indexed spender, uint256 value)',
  'function transfer(address to, uint256 value) returns (bool)',
  'function balanceOf(address owner) view returns (uint256)',
  'constructor(uint256 supply)',
])

// The phrase that Anvil and Hardhat fund on every fresh chain; it is no secret.
const TEST_MNEMONIC = 'test test test test test test test test test test test junk'
const SUPPLY = 10n ** 30n

/** Compiles the token and puts it on the node; `accountIndex` chooses one of the ten funded accounts. */
export async function deployErc20(rpcUrl: string, accountIndex = 0): Promise<Erc20> {
  const account = mnemonicToAccount(TEST_MNEMONIC, { addressIndex: accountIndex })
  const reader = createPublicClient({ transport: http(rpcUrl), cacheTime: 0, pollingInterval: 50 })
  const chain = defineChain({
    id: await reader.getChainId(),
    name: 'test',
    nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
    rpcUrls: { default: { http: [rpcUrl] } },
  })
  const wallet = createWalletClient({ account, chain, transport: http(rpcUrl) })
  const bytecode = await compileErc20()
  const hash = await wallet.deployContract({ abi: ERC20_ABI, bytecode, args: [SUPPLY] })
  const { contractAddress } = await reader.waitForTransactionReceipt({ hash })
  if (!contractAddress) throw new Error('the token was not deployed')
  return {
    address: contractAddress.toLowerCase() as Hex,
    abi: ERC20_ABI,
    owner: account.address.toLowerCase() as Hex,
    transfer: (to, value) =>
      wallet.writeContract({
        address: contractAddress,
        abi: ERC20_ABI,
        functionName: 'transfer',
        args: [to, value],
      }),
  }
}

export interface TransferDriver {
  /** Transfers sent so far. */
  readonly sent: number
  /** What the last failed transfer failed of; null: none failed. */
  readonly lastError: unknown
  /** Resolves when the transfer in flight, if any, is through. */
  stop(): Promise<void>
}

/** Sends a transfer of 1, 2, 3 … to changing accounts each `everyMs`, until stopped. A failed one is not repeated. */
export function startTransfers(token: Erc20, everyMs: number): TransferDriver {
  const stopped = new AbortController()
  const state = { sent: 0, lastError: null as unknown }
  const running = (async () => {
    for (let number = 1; !stopped.signal.aborted; number++) {
      try {
        await token.transfer(recipientOf(number), BigInt(number))
        state.sent += 1
      } catch (error) {
        state.lastError = error
      }
      await sleep(everyMs, undefined, { signal: stopped.signal }).catch(() => undefined)
    }
  })()
  return {
    get sent() {
      return state.sent
    },
    get lastError() {
      return state.lastError
    },
    stop: () => {
      stopped.abort()
      return running
    },
  }
}

const RECIPIENTS = 5

const recipientOf = (number: number): Hex =>
  `0x${(0xbeef00 + (number % RECIPIENTS)).toString(16).padStart(40, '0')}`
