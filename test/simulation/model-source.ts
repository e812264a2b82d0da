import {
  type BlockRef,
  type ChainKey,
  type ChainSource,
  type ChainTip,
  type Height,
  HeightPrunedError,
  type Hex,
  MalformedAnswerError,
  RpcUnavailableError,
  type SourceBlock,
  type SourceRange,
  WrongChainError,
} from '@lockstep/domain'
import { at, branch, type ModelBlock, type ModelChain } from './model-chain.js'
import { Wait } from './operation.js'
import type { Scheduler } from './scheduler.js'
import type { SimulatedProcess } from './simulated-process.js'

/** What is the matter with a chain's node. */
export type NodeState =
  | { readonly is: 'well' }
  | { readonly is: 'down' }
  /** Takes questions and answers none before then, in virtual time. */
  | { readonly is: 'hanging'; readonly until: number }
  /** Knows the chain up to so many blocks below its head. */
  | { readonly is: 'behind'; readonly by: number }
  /** Gives the branch that the chain has left. */
  | { readonly is: 'stale' }
  /** Answers every so many questions with "no such block". */
  | { readonly is: 'forgetful' }
  /** Contradicts itself. */
  | { readonly is: 'malformed' }
  /** Has thrown away what lies more than so many blocks below its head. */
  | { readonly is: 'pruned'; readonly keeps: number }
  | { readonly is: 'of another chain' }

/** The node of one chain: what it says is what the model and its own state say in that moment. */
export class ModelNode {
  state: NodeState = { is: 'well' }

  constructor(
    readonly model: ModelChain,
    readonly scheduler: Scheduler,
  ) {}

  /** The head of what it shows. @throws as `ChainSource` does */
  view(): ModelBlock | Wait {
    const { state } = this
    const { chain, head, abandoned, options } = this.model
    switch (state.is) {
      case 'down':
        throw new RpcUnavailableError(chain, 'the node', 'refused')
      case 'malformed':
        throw new MalformedAnswerError(chain, 'the node', 'the question', 'it contradicts itself')
      case 'of another chain':
        throw new WrongChainError(chain, 'the node', options.chainId, 'another')
      case 'hanging':
        if (this.scheduler.now < state.until) return new Wait(state.until)
        this.state = { is: 'well' }
        return head
      case 'stale':
        return abandoned
      case 'behind':
        return at(head, head.ref.height - state.by) ?? (branch(head, 0)[0] as ModelBlock)
      default:
        return head
    }
  }

  /** Null: it says that it has no such block. */
  block(view: ModelBlock, height: number): ModelBlock | null {
    const { state, model } = this
    if (state.is === 'forgetful' && model.random.chance(0.3)) return null
    if (state.is === 'pruned' && height < view.ref.height - state.keeps)
      throw new HeightPrunedError(model.chain, 'the node', height as Height, null)
    return at(view, height)
  }
}

/** A process's own way to the node. Each question takes its turn, and is answered by what is true then. */
export class ModelSource implements ChainSource {
  readonly chain: ChainKey

  constructor(
    readonly node: ModelNode,
    readonly process: SimulatedProcess,
  ) {
    this.chain = node.model.chain
  }

  check(signal?: AbortSignal): Promise<void> {
    return this.#ask('check', () => undefined, signal)
  }

  tip(signal?: AbortSignal): Promise<ChainTip> {
    const { model } = this.node
    return this.#ask(
      'tip',
      (head) => ({
        head: head.ref,
        finalized: model.finalized < 0 ? null : (Math.min(model.finalized, head.ref.height) as Height),
      }),
      signal,
    )
  }

  header(height: Height, signal?: AbortSignal): Promise<BlockRef | null> {
    return this.#ask(`header ${height}`, (head) => this.node.block(head, height)?.ref ?? null, signal)
  }

  block(height: Height, signal?: AbortSignal): Promise<SourceBlock | null> {
    return this.#ask(`block ${height}`, (head) => sourceBlock(this.node.block(head, height)), signal)
  }

  range(from: Height, to: Height, signal?: AbortSignal): Promise<SourceRange> {
    return this.#ask(`range ${from}..${to}`, (head) => this.#range(head, from, to), signal)
  }

  /** Its chains have no factories, and no filter is ever added. */
  asking(): ChainSource {
    return this
  }

  blockOfTransaction(txHash: Hex, signal?: AbortSignal): Promise<BlockRef | null> {
    const holds = (block: ModelBlock) => block.events.some((event) => event.txHash === txHash)
    return this.#ask('transaction', (head) => branch(head, 0).find(holds)?.ref ?? null, signal)
  }

  /** Announces nothing: the worker lives by looking. */
  onHead(): () => void {
    return () => {}
  }

  trouble(): null {
    return null
  }

  async close(): Promise<void> {}

  #range(head: ModelBlock, from: Height, to: Height): SourceRange {
    const first = this.node.block(head, from)
    const last = this.node.block(head, to)
    if (first === null || last === null)
      throw new MalformedAnswerError(this.chain, 'the node', 'range', 'it has not all of it')
    const blocks = branch(last, from)
    const kept =
      this.node.model.options.blocks === 'all' ? blocks : blocks.filter((block) => block.events.length > 0)
    return { first: first.ref, blocks: kept.map(plain), last: last.ref }
  }

  #ask<T>(label: string, answer: (head: ModelBlock) => T, signal?: AbortSignal): Promise<T> {
    const work = () => {
      const view = this.node.view()
      return view instanceof Wait ? view : answer(view)
    }
    return this.node.scheduler.call(this.process, `ask ${this.chain} for ${label}`, work, signal)
  }
}

const sourceBlock = (block: ModelBlock | null): SourceBlock | null => block && plain(block)

const plain = ({ ref, events }: ModelBlock): SourceBlock => ({ ref, events, children: [], transactions: [] })
