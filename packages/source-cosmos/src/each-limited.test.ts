import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { eachLimited } from './each-limited.js'

it('answers in the order of the items, with at most so many at a time', async () => {
  let running = 0
  let most = 0
  const answers = await eachLimited([30, 5, 20, 1, 10], 2, async (ms) => {
    running += 1
    most = Math.max(most, running)
    await sleep(ms)
    running -= 1
    return ms * 2
  })
  expect(answers).toEqual([60, 10, 40, 2, 20])
  expect(most).toBe(2)
})

it('throws the first failure and begins nothing after it', async () => {
  const begun: number[] = []
  const work = async (item: number) => {
    begun.push(item)
    await sleep(item === 2 ? 5 : 20)
    if (item === 2) throw new Error('two')
  }
  await expect(eachLimited([1, 2, 3, 4, 5], 2, work)).rejects.toThrow('two')
  await sleep(40)
  expect(begun).toEqual([1, 2])
  expect(await eachLimited([], 3, work)).toEqual([])
})
