import {
  bytesOf,
  type ChainKey,
  type ChainSource,
  formatTimeShort,
  type Moment,
  RequestRefusedError,
  type TimeUs,
} from '@lockstep/domain'
import {
  type Database,
  readBlockOfTransaction,
  readChain,
  readClock,
  readNewestBlockTime,
  readStoredBlock,
} from '@lockstep/store'

/**
 * The one time that a moment stands for. A block or transaction is looked up among what is stored first, then at the
 * chain's node.
 *
 * @throws RequestRefusedError for a time that lies ahead, and for a block or transaction that nobody knows
 */
export async function resolveMoment(
  db: Database,
  moment: Moment,
  sourceOf: (chain: ChainKey) => ChainSource | null,
): Promise<TimeUs> {
  const { now, newest } = await db.transaction(async (tx) => ({
    now: await readClock(tx),
    newest: await readNewestBlockTime(tx),
  }))
  if (moment.kind === 'span') return (now - moment.spanUs) as TimeUs
  const time = moment.kind === 'time' ? moment.time : await timeOnChain(db, moment, sourceOf)
  if (time <= now || (newest !== null && time <= newest)) return time
  throw new RequestRefusedError(
    `${formatTimeShort(time)} lies ahead: the database's clock says ${formatTimeShort(now)}` +
      `${newest === null ? '' : `, the newest stored block is of ${formatTimeShort(newest)}`}.`,
    'A rewind goes back. Nothing was changed.',
  )
}

type OnChain = Extract<Moment, { kind: 'block' | 'transaction' }>

async function timeOnChain(
  db: Database,
  moment: OnChain,
  sourceOf: (chain: ChainKey) => ChainSource | null,
): Promise<TimeUs> {
  const { chain } = moment
  const stored = await db.transaction(async (tx) => {
    if ((await readChain(tx, chain)) === null) throw unknownChain(chain)
    return moment.kind === 'block'
      ? readStoredBlock(tx, chain, moment.height)
      : readBlockOfTransaction(tx, chain, bytesOf(moment.txHash))
  })
  const source = sourceOf(chain)
  const block =
    stored ??
    (moment.kind === 'block'
      ? await source?.header(moment.height)
      : await source?.blockOfTransaction(moment.txHash))
  if (block) return block.time
  const what = moment.kind === 'block' ? `block ${moment.height}` : `transaction ${moment.txHash}`
  throw new RequestRefusedError(
    `Chain ${chain}: ${what} is neither stored nor known to the chain's node.`,
    'Give a time instead, or check the chain and the number.',
  )
}

const unknownChain = (chain: ChainKey): RequestRefusedError =>
  new RequestRefusedError(
    `There is no chain "${chain}" in this database.`,
    'See "lockstep status" for the chains that there are.',
  )
