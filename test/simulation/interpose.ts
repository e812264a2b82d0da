import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import timersPromises from 'node:timers/promises'
import pg from 'pg'
import type { Scheduler } from './scheduler.js'
import { currentProcess, type SimulatedProcess } from './simulated-process.js'
import { SimulatedListening, SimulatedPool } from './simulated-session.js'

/*
 * What a process has of its environment — clock, timers, chance, connections — is exchanged for the simulated processes
 * as a whole, below the product: it runs as it ships and cannot tell. So a timer that is added to it tomorrow is under
 * the scheduler too, and no seam has to be threaded through it. Code outside the simulated processes (the simulation
 * itself, the test runner) keeps the real ones.
 */

/** @returns puts everything back */
export function interpose(scheduler: Scheduler): () => void {
  const undo = [
    ...timers(scheduler),
    replace(
      performance,
      'now',
      (real) => () => (currentProcess() ? scheduler.now - scheduler.epoch : real.call(performance)),
    ),
    replace(Date, 'now', (real) => () => (currentProcess() ? Math.floor(scheduler.now) : real())),
    replace(Math, 'random', (real) => () => currentProcess()?.random.next() ?? real()),
    replace(crypto, 'randomUUID', (real) => () => uuidOf(currentProcess()) ?? real()),
    replace(AbortSignal, 'timeout', (real) => (ms: number) => {
      const process = currentProcess()
      return process ? abortAfter(scheduler, process, ms) : real.call(AbortSignal, ms)
    }),
    replace(pg as { Pool: unknown }, 'Pool', (real) =>
      inProcess(real, (process, config) => new SimulatedPool(scheduler, process, config as never)),
    ),
    replace(pg as { Client: unknown }, 'Client', (real) =>
      inProcess(real, (process) => new SimulatedListening(scheduler, process)),
    ),
  ]
  syncBuiltinESMExports()
  return () => {
    for (const each of undo.reverse()) each()
    syncBuiltinESMExports()
  }
}

function timers(scheduler: Scheduler): (() => void)[] {
  const set = (real: typeof setTimeout, repeat: boolean) =>
    ((work: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
      const process = currentProcess()
      return process ? scheduler.after(process, ms, () => work(...args), repeat) : real(work, ms, ...args)
    }) as typeof setTimeout
  const clear = (real: typeof clearTimeout) =>
    ((timer: unknown) =>
      scheduler.isTimer(timer) ? timer.cancel() : real(timer as NodeJS.Timeout)) as typeof clearTimeout
  return [
    replace(globalThis, 'setTimeout', (real) => set(real, false)),
    replace(globalThis, 'setInterval', (real) => set(real as never, true) as never),
    replace(globalThis, 'clearTimeout', clear),
    replace(globalThis, 'clearInterval', clear as never),
    replace(
      timersPromises,
      'setTimeout',
      (real) =>
        (<T>(ms?: number, value?: T, options?: { signal?: AbortSignal }) => {
          const process = currentProcess()
          return process
            ? sleepOf(scheduler, process, ms ?? 0, value, options?.signal)
            : real(ms, value, options)
        }) as typeof real,
    ),
  ]
}

function sleepOf(
  scheduler: Scheduler,
  process: SimulatedProcess,
  ms: number,
  value: unknown,
  signal?: AbortSignal,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(abortError(signal))
    const abort = () => {
      timer.cancel()
      reject(abortError(signal as AbortSignal))
    }
    const timer = scheduler.after(process, ms, () => {
      signal?.removeEventListener('abort', abort)
      resolve(value)
    })
    signal?.addEventListener('abort', abort, { once: true })
  })
}

const abortError = (signal: AbortSignal): Error =>
  Object.assign(new Error('The operation was aborted', { cause: signal.reason }), {
    name: 'AbortError',
    code: 'ABORT_ERR',
  })

function abortAfter(scheduler: Scheduler, process: SimulatedProcess, ms: number): AbortSignal {
  const limit = new AbortController()
  scheduler.after(process, ms, () => limit.abort(new DOMException('The operation timed out', 'TimeoutError')))
  return limit.signal
}

function uuidOf(
  process: SimulatedProcess | null,
): `${string}-${string}-${string}-${string}-${string}` | null {
  if (process === null) return null
  const hex = process.random.hex(30)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(12, 15)}-8${hex.slice(15, 18)}-${hex.slice(18)}`
}

/** The class itself, but what a simulated process makes of it is what `make` gives. */
function inProcess<T>(real: T, make: (process: SimulatedProcess, config: unknown) => object): T {
  return new Proxy(real as object, {
    construct: (target, args, newTarget) => {
      const process = currentProcess()
      return process ? make(process, args[0]) : Reflect.construct(target as never, args, newTarget)
    },
  }) as T
}

function replace<T extends object, K extends keyof T>(
  owner: T,
  key: K,
  by: (real: T[K]) => T[K],
): () => void {
  const before = Object.getOwnPropertyDescriptor(owner, key)
  Object.defineProperty(owner, key, { value: by(owner[key]), configurable: true, writable: true })
  return () => {
    if (before) Object.defineProperty(owner, key, before)
    else Reflect.deleteProperty(owner, key)
  }
}
