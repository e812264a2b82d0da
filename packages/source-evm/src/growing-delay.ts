/** Doubles from the first to the longest, in ms. */
export interface DelayBounds {
  readonly firstMs: number
  readonly mostMs: number
}

/**
 * How long to wait after so many failures in a row (1 or more): between half and the whole of a delay that doubles,
 * so that what failed together does not come back together.
 */
export function growingDelayMs(failures: number, { firstMs, mostMs }: DelayBounds): number {
  const whole = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 30))
  return Math.round(whole * (0.5 + Math.random() / 2))
}
