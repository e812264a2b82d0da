import type { ChainOptions } from '@lockstep/config'
import type { ChainSource } from '@lockstep/domain'
import { createCosmosSource } from '@lockstep/source-cosmos'
import { createEvmSource } from '@lockstep/source-evm'
import type { Logger } from '@lockstep/telemetry'

/** The only place that asks what kind a chain is. */
export function createSource(options: ChainOptions, logger: Logger): ChainSource {
  return options.kind === 'evm'
    ? createEvmSource(options, { logger })
    : createCosmosSource(options, { logger })
}
