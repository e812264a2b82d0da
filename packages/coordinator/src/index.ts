export { type CoordinateOptions, coordinate } from './coordinate.js'
export { type ChainView, describeChain, readStatusView, type StatusView } from './describe-status.js'
export { type FollowOptions, followRewind, type RewindProgress } from './follow-rewind.js'
export {
  type ChainPlan,
  leaveCutHints,
  type PlanOptions,
  planRewind,
  type RewindPlan,
} from './plan-rewind.js'
export { resolveMoment } from './resolve-moment.js'
export { type SuperviseOptions, superviseWorker, type WorkerCommand } from './supervise.js'
