/*
 * The words of Lockstep. Code, logs, SQL and documents use them and no synonyms.
 *
 *   chain        one entry under `chains:` in the config; its key names it everywhere
 *   height       a block's number on its chain
 *   block time   the chain's own timestamp of a block, in microseconds (`TimeUs`)
 *   event        one normalised observation: an EVM log or a Cosmos ABCI event
 *   position     (height, tx_index, event_index) on one chain
 *   identity     (chain, block hash, tx_index, transaction hash, event_index)
 *   fact         a stored block or event: only inserted, or removed by a rollback or a rewind
 *   checkpoint   the last block of a chain up to which everything is committed, and nothing after it
 *   head         the chain's newest block; finalized: the newest that the chain will not take back
 *   fork         the chain replaced blocks that are stored; rollback: that one chain goes back to the fork point
 *   rewind       every chain goes back to one moment T
 *   cut          the height a chain goes back to in a rewind: just below its first block with block time > T
 *   pause        nobody fetches or writes until an operator resumes
 *   lease        the right of one process to write one chain; fencing token: the number that proves the newest holder
 */
export * from './block.js'
export * from './errors.js'
export * from './fork-point.js'
export * from './gap.js'
export * from './json-text.js'
export * from './known-children.js'
export * from './moment.js'
export * from './next-step.js'
export * from './scalars.js'
export * from './search-cut.js'
export * from './source.js'
export * from './storable-text.js'
export * from './time.js'
