import { type CosmosContractOptions, type CosmosEventFilter, cosmosFilter } from '@lockstep/config'
import type { Attribute } from './attribute-encoding.js'

/** What of an event decides whose it is. */
export interface EventFeatures {
  readonly type: string
  readonly address: string | null
  readonly attributes: readonly Attribute[]
  /** Its transaction failed. */
  readonly failed: boolean
}

/**
 * The config's filters, and which of them are asked for. An event belongs to the first filter of the *whole* config
 * that fits it: asking for a later one alone must not give it an event that is another's.
 */
export class EventFilters {
  readonly #filters: readonly {
    readonly fits: (event: EventFeatures) => boolean
    readonly contract: string
  }[]
  readonly #given: ReadonlySet<number>

  /** @param only digests of the filters whose events are given; null: all */
  constructor(contracts: readonly CosmosContractOptions[], only: ReadonlySet<string> | null = null) {
    const filters = contracts.flatMap((contract) =>
      (contract.events ?? [null]).map((event) => ({
        contract: contract.contract,
        digest: cosmosFilter(contract, event),
        fits: (given: EventFeatures) => fits(contract, event, given),
      })),
    )
    this.#filters = filters
    this.#given = new Set(
      filters.flatMap(({ digest }, index) => (only === null || only.has(digest) ? [index] : [])),
    )
  }

  /** Key of the contract that the event is given to; null: of none, or of one that is not asked for. */
  contractOf(event: EventFeatures): string | null {
    const index = this.#filters.findIndex((filter) => filter.fits(event))
    return this.#given.has(index) ? (this.#filters[index]?.contract ?? null) : null
  }
}

function fits(
  { address, failedTransactions }: CosmosContractOptions,
  filter: CosmosEventFilter | null,
  event: EventFeatures,
): boolean {
  if (event.failed && !failedTransactions) return false
  if (address !== null && address !== event.address) return false
  if (filter === null) return true
  if (filter.type !== event.type) return false
  return (
    filter.action === null ||
    event.attributes.some(({ key, value }) => key === 'action' && value === filter.action)
  )
}
