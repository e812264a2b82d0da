// How many requests are under way: work that a test lets end.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { RequestSlots } from './request-slots.js'

function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

it('holds so many at once, the others in order', async () => {
  const slots = new RequestSlots(2, null)
  const gates = [0, 1, 2, 3].map(gate)
  const begun: number[] = []
  const works = gates.map(({ opened }, index) =>
    slots.hold(undefined, async () => {
      begun.push(index)
      await opened
      return index
    }),
  )
  await sleep(5)
  expect(begun).toEqual([0, 1])
  gates[1]?.open()
  await works[1]
  await sleep(5)
  expect(begun).toEqual([0, 1, 2])
  for (const { open } of gates) open()
  expect(await Promise.all(works)).toEqual([0, 1, 2, 3])
})

it('gives its slot back where the work fails, and passes over who was aborted', async () => {
  const slots = new RequestSlots(1, null)
  const first = gate()
  const failing = slots.hold(undefined, async () => {
    await first.opened
    throw new Error('failed')
  })
  const abort = new AbortController()
  const aborted = slots.hold(abort.signal, async () => 'never')
  const last = slots.hold(undefined, async () => 'last')
  abort.abort(new Error('enough'))
  await expect(aborted).rejects.toThrow('enough')
  first.open()
  await expect(failing).rejects.toThrow('failed')
  expect(await last).toBe('last')
})

it('spaces them where so many a second are allowed', async () => {
  const slots = new RequestSlots(10, 20)
  const began = performance.now()
  const at = await Promise.all([1, 2, 3, 4].map(() => slots.hold(undefined, async () => performance.now())))
  expect(Math.max(...at) - began).toBeGreaterThan(3 * 50 - 10)
})
