export { type AdoptedConfig, adoptConfig, readConfigChange } from './adopt-config.js'
export {
  anyChainMoved,
  cancelRewindRecord,
  deepenRewind,
  findRewinds,
  finishRewind,
  insertRewind,
  type RewindChainRecord,
  type RewindRecord,
  type RollbackRecord,
  readRemovalRate,
  readRewind,
  readRewindChains,
  readRewinds,
  readRollbacks,
  recordChainRewind,
} from './audit.js'
export { type RegisteredChain, readChain, readChains, registerChains } from './chains.js'
export {
  type ChainWriter,
  type Checkpoint,
  checkpointOf,
  proveCheckpoint,
  readCheckpoint,
  setCheckpoint,
} from './checkpoint.js'
export { compareStored, type FactDifference, type StoredComparison } from './compare-stored.js'
export { type ConfigChange, type CoveredFilter, describeFilter, refusedChange } from './config-change.js'
export { type GapInWords, readCovered, readGaps, readGapsInWords } from './covered-filters.js'
export {
  applicationName,
  Database,
  type DatabaseSettings,
  databaseUnavailable,
  type TransactionOptions,
  type Tx,
} from './database.js'
export { type DigestedTable, digestChain, type TableDigest } from './digest.js'
export {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  type FoundPostgres,
  findEmbeddedPostgres,
  startEmbeddedPostgres,
  startTemporaryPostgres,
  type TemporaryPostgres,
  type TemporaryPostgresOptions,
} from './embedded/index.js'
export { type Removed, removeAbove } from './facts.js'
export {
  acquireChainLease,
  acquireLease,
  COORDINATOR_LEASE,
  chainLease,
  type HeldLease,
  type LeaseTaken,
  readFreeChains,
  surrenderLeasesOf,
} from './lease.js'
export { LeaseKeeper } from './lease-keeper.js'
export { Listener } from './listener.js'
export { type Blocker, endStaleKeyHolders } from './lock-wait.js'
export { checkSchema, migrate } from './migrate.js'
export { keepOrphans, setKeepOrphans } from './orphans.js'
export { countAttempt, shortenRanges } from './ranges.js'
export { type ChildRow, childRows, readChildren } from './registry.js'
export { errorCode, isConnectionGone, LOCK_NOT_AVAILABLE } from './retry-table.js'
export {
  anyRewindRowLeft,
  type ChainRewind,
  type CutHint,
  deleteAllChainRewinds,
  deleteChainRewind,
  deletePause,
  deleteRewindLock,
  lockPause,
  lockRewindLock,
  notify,
  type Pause,
  putChainRewind,
  putCutHint,
  putPause,
  putRewindLock,
  type RewindLock,
  type RewindState,
  raiseEpoch,
  readChainRewind,
  readEpoch,
  readRewindState,
} from './rewind-rows.js'
export {
  type ChainStatus,
  countAbove,
  type Phase,
  readClock,
  readNewestBlockTime,
  readStatus,
  type WorkerReport,
  writeReport,
} from './status.js'
export {
  lastStoredBelow,
  readBlockOfTransaction,
  readFrom,
  readStoredBlock,
  readTimeAt,
  storedBlocksDown,
} from './stored-blocks.js'
export { type IndexesMade, makeIndexes } from './views/make-indexes.js'
export { findStaleViews, makeTypedViews, type ViewsMade } from './views/make-views.js'
export { planViews, type TypedView } from './views/plan-views.js'
export { type BlockBatch, rollBack, stepDownTo, writeBatch } from './write-chain.js'
export { type FilledGap, type GapFill, writeGap } from './write-gap.js'
export { lockKeyExclusive, lockKeyShared, refuseDuringRewind } from './write-key.js'
