import { type ChainOptions, filtersOf } from '@lockstep/config'
import type { ChainSource } from '@lockstep/domain'

/** The same source, which tells what its blocks are asked for: `a+b 1..9` (contracts), `* 10` for all of the config. */
export function askedSource(
  inner: ChainSource,
  options: ChainOptions,
  tell: (what: string) => void,
  what = '*',
): ChainSource {
  return {
    chain: inner.chain,
    check: (signal) => inner.check(signal),
    tip: (signal) => inner.tip(signal),
    header: (height, signal) => inner.header(height, signal),
    block: (height, signal) => {
      tell(`${what} ${height}`)
      return inner.block(height, signal)
    },
    range: (from, to, signal) => {
      tell(`${what} ${from}..${to}`)
      return inner.range(from, to, signal)
    },
    asking: (wish) => askedSource(inner.asking(wish), options, tell, contractsOf(options, wish.only)),
    blockOfTransaction: (txHash, signal) => inner.blockOfTransaction(txHash, signal),
    onHead: (listener) => inner.onHead(listener),
    trouble: () => inner.trouble(),
    close: () => inner.close(),
  }
}

function contractsOf(options: ChainOptions, only: ReadonlySet<string> | null): string {
  if (only === null) return '*'
  const asked = filtersOf(options).filter(({ filter }) => only.has(filter))
  return [...new Set(asked.map(({ contract }) => contract))].join('+')
}
