import { createRequire } from 'node:module'
import type { Hex } from '@lockstep/domain'

const SOURCE = `
// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.0;

contract Token {
    string public constant name = "Lockstep Test Token";
    string public constant symbol = "LOCK";
    uint8 public constant decimals = 18;
    uint256 public immutable totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    constructor(uint256 supply) {
        totalSupply = supply;
        balanceOf[msg.sender] = supply;
        emit Transfer(address(0), msg.sender, supply);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        allowance[from][msg.sender] -= value;
        move(from, to, value);
        return true;
    }

    function move(address from, address to, uint256 value) private {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}`

interface CompilerOutput {
  readonly errors?: readonly { readonly severity: string; readonly formattedMessage: string }[]
  readonly contracts?: {
    readonly 'token.sol'?: {
      readonly Token?: { readonly evm: { readonly bytecode: { readonly object: string } } }
    }
  }
}

let compiled: Hex | null = null // the same on every run; 0.7 s the first time

/** The token's bytecode. */
export async function compileErc20(): Promise<Hex> {
  compiled ??= compile()
  return compiled
}

function compile(): Hex {
  // Required here and not above: the compiler is eight megabytes of WebAssembly that most tests never need.
  const solc = createRequire(import.meta.url)('solc') as { compile(input: string): string }
  const input = {
    language: 'Solidity',
    sources: { 'token.sol': { content: SOURCE } },
    settings: {
      evmVersion: 'paris', // no PUSH0, so that nodes of every hardfork since take it
      optimizer: { enabled: true, runs: 200 },
      outputSelection: { 'token.sol': { Token: ['evm.bytecode.object'] } },
    },
  }
  const output = JSON.parse(solc.compile(JSON.stringify(input))) as CompilerOutput
  const bytecode = output.contracts?.['token.sol']?.Token?.evm.bytecode.object
  if (bytecode) return `0x${bytecode}`
  throw new Error(
    output.errors?.map((error) => error.formattedMessage).join('\n') ?? 'the compiler gave nothing',
  )
}
