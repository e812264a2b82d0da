export { type CoordinateOptions, coordinate } from './coordinate.js'
export { type ChainView, describeChain, readStatusView, type StatusView } from './describe-status.js'
export type { Refetch } from './estimate-duration.js'
export { BLOCKER_NAMES, type BlockerName, findBlockers, type PlanBlocker } from './find-blockers.js'
export { type FollowOptions, followRewind, type RewindProgress } from './follow-rewind.js'
export { type RewindHistory, readForks, readHistory, readOneRewind } from './history.js'
export {
  type ChainPlan,
  leaveCutHints,
  type PlanOptions,
  planRewind,
  type RewindPlan,
} from './plan-rewind.js'
export { resolveMoment } from './resolve-moment.js'
export { type SuperviseOptions, superviseWorker, type WorkerCommand } from './supervise.js'
export {
  type ChainVerification,
  type VerifiedRange,
  type VerifyOptions,
  verifyChain,
} from './verify-chain.js'
