export { cancelRewind } from './cancel.js'
export { type CarryOutOptions, carryOutFreeChains } from './carry-out.js'
export { decideRequest, lowerFrom, type RequestDecision } from './decide.js'
export { type Cut, type CutOptions, findCut } from './find-cut.js'
export type { AttemptOptions } from './key-attempts.js'
export { pause, resume } from './pause.js'
export {
  type Fork,
  type RequestAnswer,
  type RequestOptions,
  type RewindRequest,
  requestRewind,
} from './request.js'
export { noSteps, REWIND_STEPS, type RewindStep, type StepHook } from './steps.js'
export { type TakenPart, type TakePartOptions, takePart } from './take-part.js'
