import { createHash } from 'node:crypto'
import type pg from 'pg'
import type { SimulatedProcess } from './simulated-process.js'
import type { SimulatedSession, Statement } from './simulated-session.js'
import type { Timer } from './virtual-clock.js'

/** Something a process wants to do that takes its turn. */
export interface Operation {
  readonly order: number
  readonly process: SimulatedProcess
  readonly label: string
  readonly session: SimulatedSession | null
  readonly statement: Statement | null
  readonly perform: () => Promise<unknown>
  readonly answer: (outcome: Outcome) => void
  /** Not before this virtual time: a node that hangs. */
  notBefore: number
  running: boolean
  /** Resolves when there is an outcome. */
  ended: Promise<void>
  outcome: Outcome | null
  /** Whether the outcome's effects on the session were noted. */
  accounted: boolean
  /** Since when it waits for a lock. */
  blockedSince: number | null
  timeout: Timer | null
}

export type Outcome = { readonly value: unknown } | { readonly error: unknown }

/** A node that does not answer before then. */
export class Wait {
  constructor(readonly until: number) {}
}

export type Asked = Pick<Operation, 'process' | 'label' | 'session' | 'statement' | 'perform' | 'answer'>

/** Who wants what, in the order in which they asked. */
export class Operations {
  readonly #all = new Set<Operation>()
  #order = 0

  add(asked: Asked): Operation {
    this.#order += 1
    const operation: Operation = {
      ...asked,
      order: this.#order,
      notBefore: 0,
      running: false,
      ended: Promise.resolve(),
      outcome: null,
      accounted: false,
      blockedSince: null,
      timeout: null,
    }
    this.#all.add(operation)
    return operation
  }

  [Symbol.iterator](): IterableIterator<Operation> {
    return this.#all[Symbol.iterator]()
  }

  /** @returns whether it was still there */
  delete(operation: Operation): boolean {
    return this.#all.delete(operation)
  }

  /** Those that wait for their turn. */
  waiting(): Operation[] {
    return [...this.#all].filter((each) => !each.running && each.process.active)
  }

  /** Those that were let go and have not ended. */
  going(): Operation[] {
    return [...this.#all].filter((each) => each.running && each.outcome === null)
  }

  /** Those that have ended and not been answered, in the order in which they were asked for. */
  ended(): Operation[] {
    const ended = [...this.#all].filter((each) => each.running && each.outcome !== null)
    return ended.sort((a, b) => a.order - b.order)
  }
}

// ---- in the trace -------------------------------------------------------------------------------------------------

export function labelOf(text: string): string {
  if (text.startsWith('begin')) return text.includes('lock_timeout') ? 'begin with lock_timeout' : 'begin'
  return text.replace(/\s+/g, ' ').trim().slice(0, 90)
}

/** Rows that hold process ids of the server, which are others in each run. */
const HAS_PIDS = /pg_backend_pid|pg_stat_activity|pg_locks|pg_blocking_pids/

export function describe({ statement }: Operation, outcome: Outcome): string {
  if ('error' in outcome) {
    const { code, message } = outcome.error as { code?: string; message?: string }
    return `error ${code ?? ''} ${String(message).split('\n')[0]}`
  }
  if (statement === null) return digestOf(outcome.value)
  const result = outcome.value as pg.QueryResult
  if (Array.isArray(result) || HAS_PIDS.test(statement.text)) return 'done'
  const rows = result.rows.length === 0 ? '' : ` ${digestOf(result.rows)}`
  return `${result.command} ${result.rowCount ?? 0}${rows}`
}

const digestOf = (value: unknown): string =>
  createHash('sha256')
    .update(JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? String(each) : each)) ?? 'nothing')
    .digest('hex')
    .slice(0, 8)
