/**
 * `work` on each item, at most `limit` at a time, answers in the items' order. The first failure is thrown, and
 * nothing new is begun after it.
 */
export async function eachLimited<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const answers: R[] = []
  const pending = items.entries() // shared: each lane takes the next item that none has taken
  let failed = false
  const lane = async () => {
    for (const [index, item] of pending) {
      if (failed) return
      try {
        answers[index] = await work(item)
      } catch (error) {
        failed = true
        throw error
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane))
  return answers
}
