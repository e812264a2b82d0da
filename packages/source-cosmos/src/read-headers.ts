import type { Height } from '@lockstep/domain'
import { type BlockHeader, type HeaderPage, parseHeaderPage } from './answers.js'
import type { CometEndpoint } from './comet-endpoint.js'
import { eachLimited } from './each-limited.js'

/** How many headers `blockchain` gives at most: CometBFT's own limit. */
const HEADERS_PER_PAGE = 20

/** Pages in flight at once: a backfill would otherwise spend most of its time on the way to the node. */
const PAGES_AT_ONCE = 4

/**
 * The headers from `from` to `to`, ascending and without a hole, each naming the one before it as its parent; fewer
 * where the node's head is below `to`. `blockchain` is asked, since `header` says no hash.
 *
 * @throws HeightPrunedError, MalformedAnswerError
 */
export async function readHeaders(
  endpoint: CometEndpoint,
  from: Height,
  to: Height,
  signal?: AbortSignal,
): Promise<BlockHeader[]> {
  const lows: Height[] = []
  for (let low: number = from; low <= to; low += HEADERS_PER_PAGE) lows.push(low as Height)
  const pages = await eachLimited(lows, PAGES_AT_ONCE, (low) =>
    readPage(endpoint, low, Math.min(low + HEADERS_PER_PAGE - 1, to) as Height, signal),
  )
  // The head may have risen between two pages: what follows a short page has a hole before it.
  const short = pages.findIndex((page) => page.length < HEADERS_PER_PAGE)
  const headers = pages.slice(0, short === -1 ? pages.length : short + 1).flat()
  refuseBrokenLinks(endpoint, headers)
  return headers
}

export async function readHeader(
  endpoint: CometEndpoint,
  height: Height,
  signal?: AbortSignal,
): Promise<BlockHeader | null> {
  const [header] = await readHeaders(endpoint, height, height, signal)
  return header ?? null
}

async function readPage(
  endpoint: CometEndpoint,
  low: Height,
  high: Height,
  signal: AbortSignal | undefined,
): Promise<readonly BlockHeader[]> {
  if (high === 0) return [] // no chain has a block 0, and to CometBFT a bound of 0 means "as far as there is"
  const bounds = { minHeight: String(low), maxHeight: String(high) }
  let page: HeaderPage
  try {
    page = await endpoint.ask('blockchain', bounds, parseHeaderPage, signal)
  } catch (error) {
    const says = endpoint.refusal('blockchain', error, low)
    if (says === 'not yet') return []
    throw error
  }
  for (const { network } of page.headers) endpoint.refuseOtherNetwork(network)
  refuseHoles(endpoint, page, low, high)
  return page.headers
}

function refuseHoles(
  endpoint: CometEndpoint,
  { headers, head }: HeaderPage,
  low: Height,
  high: Height,
): void {
  const lowest = headers[0]?.ref.height
  if (lowest === undefined) {
    if (head >= low)
      throw endpoint.malformed('blockchain', `it has no header from ${low} on, but its head is ${head}`)
    return
  }
  if (lowest > low) throw endpoint.pruned(low, lowest)
  if (headers.some(({ ref }, index) => ref.height !== low + index)) {
    throw endpoint.malformed('blockchain', `the headers from ${low} to ${high} have holes or repeat`)
  }
  const missing = low + headers.length
  if (missing > high + 1)
    throw endpoint.malformed('blockchain', `it gives headers above ${high}, the highest asked for`)
  if (missing <= Math.min(high, head)) {
    throw endpoint.malformed('blockchain', `header ${missing} is missing, but its head is ${head}`)
  }
}

function refuseBrokenLinks(endpoint: CometEndpoint, headers: readonly BlockHeader[]): void {
  headers.forEach(({ ref }, index) => {
    const below = headers[index - 1]?.ref
    if (below === undefined || ref.parentHash === below.hash) return
    const problem = `block ${ref.height} names ${ref.parentHash} as its parent, but block ${below.height} is ${below.hash}`
    throw endpoint.malformed('blockchain', problem)
  })
}
