import type { ChainKey, Hex } from '@lockstep/domain'
import { branch, type ModelBlock, type ModelChain } from './model-chain.js'
import type { ChainPicture, Picture } from './picture.js'
import type { Committed } from './session-book.js'

/** A promise of docs/design.md that did not hold. */
export class PromiseBroken extends Error {
  constructor(
    readonly promise: string,
    readonly detail: string,
  ) {
    super(`${promise}: ${detail}`)
  }
}

/** Judges one commit by the pictures before and after it. @throws PromiseBroken */
export function checkCommit(
  commit: Committed,
  before: Picture,
  after: Picture,
  models: ReadonlyMap<ChainKey, ModelChain>,
): void {
  oneWriter(commit, after)
  nothingWrittenWhileHeld(before, after)
  onlyReleasedWhenDone(before, after)
  cancelledInTime(after)
  nothingTooMuchGoes(commit, before, after)
  onePicture(before, after)
  for (const [chain, picture] of after.chains) {
    nothingAfterT(chain, picture, after)
    viewsHideWhatGoes(chain, picture, after)
    const model = models.get(chain)
    if (model) factsAreOneBranch(picture, model)
  }
}

/** Only the newest holder of a chain's lease changes it. */
function oneWriter({ process, statements }: Committed, after: Picture): void {
  for (const { text, values } of statements) {
    if (!/update checkpoint set height/.test(text)) continue
    const chain = String(values?.[0]) as ChainKey
    const holder = after.chains.get(chain)?.leaseHolder
    if (holder !== process.holder)
      throw new PromiseBroken('one writer', `${process.name} changed ${chain}, whose lease ${holder} holds`)
  }
}

/** Promise 2: from a request's commit to the release nothing is added, and no checkpoint goes forward. */
function nothingWrittenWhileHeld(before: Picture, after: Picture): void {
  const held = before.lock !== null || after.lock !== null || (before.paused && after.paused)
  if (!held) return
  for (const [chain, now] of after.chains) {
    const then = before.chains.get(chain)
    if (then === undefined) continue
    const known = new Set([...then.blocks, ...then.headers].map((block) => block.hash))
    const added = [...now.blocks, ...now.headers].find((block) => !known.has(block.hash))
    if (added)
      throw new PromiseBroken(
        'nothing after T',
        `${chain} stored block ${added.height} during a rewind or pause`,
      )
    if (heightOf(now) > heightOf(then))
      throw new PromiseBroken(
        'nothing after T',
        `${chain} went from ${heightOf(then)} to ${heightOf(now)} during a rewind or pause`,
      )
  }
}

/** A chain without a row of its own holds nothing after T; one with a row holds it from `from` on. */
function nothingAfterT(chain: ChainKey, picture: ChainPicture, { lock }: Picture): void {
  if (lock === null) return
  const from = picture.own === null ? null : picture.own.from
  const stored = [...picture.blocks, ...picture.headers, ...(picture.checkpoint ? [picture.checkpoint] : [])]
  const late = stored.find((block) => block.time > lock.timestamp && (from === null || block.height < from))
  if (late)
    throw new PromiseBroken('nothing after T', `${chain} keeps block ${late.height}, which is after T`)
}

/** Promise 3: the lock goes with the last chain's row, or by a cancel; a chain's row never stays behind. */
function onlyReleasedWhenDone(before: Picture, after: Picture): void {
  if (after.lock !== null) return
  const waiting = [...after.chains].filter(([, { own }]) => own !== null).map(([chain]) => chain)
  if (waiting.length > 0)
    throw new PromiseBroken('always released', `no lock, but rows of ${waiting.join(', ')}`)
  if (before.lock === null || after.cancelled.has(before.lock.rewindId)) return
  for (const [chain, picture] of after.chains) {
    if (!before.chains.has(chain)) continue
    nothingAfterT(chain, picture, { ...after, lock: before.lock })
  }
  if (after.openRewinds.includes(before.lock.rewindId))
    throw new PromiseBroken('always released', 'the audit of a released rewind has no end')
}

/** A rewind is taken back only while no chain has gone back. */
function cancelledInTime({ cancelled, moved }: Picture): void {
  const late = [...cancelled].find((id) => moved.has(id))
  if (late)
    throw new PromiseBroken('cancelled in time', `rewind ${late} was cancelled after a chain had gone back`)
}

/** An operator's new rewind takes exactly what lies from the first block after T on. */
function nothingTooMuchGoes({ statements }: Committed, before: Picture, { lock, chains }: Picture): void {
  const byFork = statements.some(({ text }) => text.includes('for update nowait'))
  if (before.lock !== null || lock === null || byFork) return
  for (const [chain, { own, blocks, headers, checkpoint }] of chains) {
    const stored = [...blocks, ...headers, ...(checkpoint ? [checkpoint] : [])]
    const late = stored.filter((block) => block.time > lock.timestamp).map((block) => block.height)
    const from = late.length === 0 ? null : Math.min(...late)
    if (own && own.from !== from)
      throw new PromiseBroken('nothing too much goes', `${chain} goes from ${own.from}, not from ${from}`)
  }
}

/** Promise 4: what readers see shrinks only with a new epoch. */
function onePicture(before: Picture, after: Picture): void {
  if (after.epoch < before.epoch) throw new PromiseBroken('one picture', 'the epoch fell')
  if (after.epoch !== before.epoch) return
  const lockChanged = before.lock?.timestamp !== after.lock?.timestamp && after.lock !== null
  if (lockChanged) throw new PromiseBroken('one picture', 'a request left the epoch as it was')
  for (const [chain, now] of after.chains) {
    const gone = [...(before.chains.get(chain)?.visible ?? [])].find((hash) => !now.visible.has(hash))
    if (gone)
      throw new PromiseBroken('one picture', `${chain} lost block ${gone} to its readers within one epoch`)
  }
}

/** Promise 4: no view shows what goes, nor hides what stays, nor shows a row above the published height. */
function viewsHideWhatGoes(chain: ChainKey, picture: ChainPicture, { lock }: Picture): void {
  const { own, blocks, visible, published } = picture
  const fail = (what: string): never => {
    throw new PromiseBroken('one picture', `${chain} ${what}`)
  }
  for (const block of blocks) {
    const seen = visible.has(block.hash)
    const stays = own === null || own.from === null || block.height < own.from
    if (seen !== stays) fail(`${seen ? 'shows' : 'hides'} block ${block.height}`)
    if (seen && lock && block.time > lock.timestamp) fail(`shows block ${block.height}, which is after T`)
    if (seen && (published === null || block.height > published))
      fail(`shows block ${block.height} above its published height ${published}`)
  }
  const events = blocks
    .filter((block) => visible.has(block.hash))
    .reduce((sum, block) => sum + block.events, 0)
  if (events !== picture.visibleEvents) fail(`shows ${picture.visibleEvents} events of ${events}`)
}

/**
 * Facts and progress travel together: the facts are exactly those of the branch that the checkpoint stands on, from the
 * start to it. A checkpoint that a rewind took from a node proves nothing; then the highest stored block counts.
 */
function factsAreOneBranch(picture: ChainPicture, model: ModelChain): void {
  const { chain, options } = model
  const fail = (what: string): never => {
    throw new PromiseBroken('data and progress', `${chain} ${what}`)
  }
  const stored = [...picture.blocks, ...picture.headers].sort((a, b) => b.height - a.height)
  const { checkpoint } = picture
  const highest = stored[0] ?? null
  if (checkpoint === null) {
    if (highest !== null) fail(`holds block ${highest.height} before its start`)
    return
  }
  if (highest !== null && highest.height > checkpoint.height)
    fail(`holds block ${highest.height} above its checkpoint ${checkpoint.height}`)
  const tipHash: Hex | null =
    highest?.height === checkpoint.height ? checkpoint.hash : (highest?.hash ?? null)
  const facts = branch(tipHash && known(model, tipHash), options.startHeight).filter(
    (block) => options.blocks === 'all' || block.events.length > 0,
  )
  const expected = new Map(facts.map((block) => [block.ref.hash, block]))
  const twice = new Set(picture.headers.map((header) => header.height))
  for (const block of picture.blocks) {
    const fact = expected.get(block.hash)
    if (!fact) fail(`holds block ${block.height} of another branch than its checkpoint's`)
    if (fact?.events.length !== block.events) fail(`holds ${block.events} events of block ${block.height}`)
    if (twice.has(block.height)) fail(`holds block ${block.height} twice`)
  }
  const missing = facts.find((block) => !picture.blocks.some((each) => each.hash === block.ref.hash))
  if (missing) fail(`misses block ${missing.ref.height} below its checkpoint ${checkpoint.height}`)
}

function known(model: ModelChain, hash: Hex): ModelBlock {
  const block = model.byHash(hash)
  if (block === null)
    throw new PromiseBroken('data and progress', `${model.chain} holds a block that never was: ${hash}`)
  return block
}

const heightOf = ({ checkpoint }: ChainPicture): number => checkpoint?.height ?? -1
