import type { EvmChainOptions } from '@lockstep/config'
import { KnownChildren, type SourceWish } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { EventIndex } from './event-index.js'
import { EventReader } from './event-reader.js'
import { OddityLog } from './oddity-log.js'

/** A reader of all that the options ask for, unless the wish says otherwise; it warns nobody. */
export const readerOf = (options: EvmChainOptions, wish: Partial<SourceWish> = {}): EventReader =>
  new EventReader(
    new EventIndex(options),
    { children: new KnownChildren(), only: null, ...wish },
    new OddityLog(options.chain, silentLogger()),
  )
