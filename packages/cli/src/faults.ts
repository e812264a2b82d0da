import { REWIND_STEPS, type RewindStep, type StepHook } from '@lockstep/rewind'

/**
 * For tests of crashes: `LOCKSTEP_FAULT=kill@chain.removed` ends this process as kill -9 does when it reaches that step
 * of a rewind, `stop@…` freezes it. Of `lockstep start` it strikes the coordinator; its workers do not inherit it.
 * Unset, nothing happens.
 */
export function faultFromEnvironment(env: NodeJS.ProcessEnv): StepHook {
  const [fault, at] = (env.LOCKSTEP_FAULT ?? '@').split('@')
  const step = REWIND_STEPS.find((each) => each === at)
  return (reached: RewindStep) => {
    if (step === reached) process.kill(process.pid, fault === 'stop' ? 'SIGSTOP' : 'SIGKILL')
  }
}
