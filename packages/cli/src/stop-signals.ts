import { EXIT } from './exit-codes.js'

export interface StopSignals {
  /** Aborts at the first signal, or when the process that started this one is gone. */
  readonly stop: AbortSignal
  /** Takes the listeners away again. */
  readonly dispose: () => void
}

/**
 * First signal: finish the batch and leave. Second: leave at once; transactions protect the data.
 *
 * @param onFirst told which signal came
 * @param onSecond for what must not be left behind
 */
export function listenForStop(
  onFirst: (signal: string) => void,
  onSecond: () => void = () => {},
): StopSignals {
  const controller = new AbortController()
  const onSignal = (signal: string): void => {
    if (controller.signal.aborted) {
      onSecond()
      process.exit(EXIT.interrupted)
    }
    onFirst(signal)
    controller.abort()
  }
  const onGone = (): void => {
    if (!controller.signal.aborted) onSignal('the end of its parent')
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  process.on('disconnect', onGone)
  // It may have ended while this process was still loading: that event was told to nobody.
  if (process.connected === false) onGone()
  return {
    stop: controller.signal,
    dispose: () => {
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
      process.off('disconnect', onGone)
    },
  }
}
