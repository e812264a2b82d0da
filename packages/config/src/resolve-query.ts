import { evmEvent, isHashed } from './evm-event.js'
import type { ContractQuery, EvmContractOptions } from './options.js'
import type { Place } from './place.js'
import { cosmosContractShape, evmContractShape } from './schema.js'

/** What an EVM contract's `index` asks for; null where it asks for nothing, or a problem was reported. */
export function resolveEvmQuery(place: Place, contract: EvmContractOptions | null): ContractQuery | null {
  const index = place.child('index')
  const names = index.read(evmContractShape.shape.index)
  if (!names || !contract) return null
  refuseRepeats(index)
  const inputs = contract.events.flatMap((event) => evmEvent(event).inputs)
  for (const item of index.children()) {
    const found = inputs.filter(({ key }) => key === item.value)
    if (found.length === 0) {
      const known = [...new Set(inputs.map(({ key }) => key))]
      const hint =
        known.length === 0
          ? 'They have no arguments: leave index out.'
          : place.document.show(place.suggest(String(item.value), known))
      item.refuse(`no event of this contract has an argument ${place.quote(String(item.value))}`, hint)
    } else if (found.every((input) => !isHashed(input) && /^tuple|\]$/.test(input.type))) {
      const sentence = `${place.quote(String(item.value))} is a ${found[0]?.type}, which no index can search`
      item.refuse(sentence, 'Name arguments of plain types: integers, addresses, booleans, bytes or texts.')
    }
  }
  return { contract: contract.contract, attributes: [], index: names }
}

/** Which attributes a Cosmos event has is known only when it comes: their keys are taken as they are given. */
export function resolveCosmosQuery(place: Place): ContractQuery | null {
  const { attributes, index } = cosmosContractShape.shape
  const listed = place.child('attributes').read(attributes) ?? []
  const indexed = place.child('index').read(index) ?? []
  if (listed.length + indexed.length === 0) return null
  refuseRepeats(place.child('attributes'))
  refuseRepeats(place.child('index'))
  return { contract: place.key, attributes: [...new Set([...listed, ...indexed])], index: indexed }
}

function refuseRepeats(place: Place): void {
  const values = place.children().map(({ value }) => value)
  for (const [at, item] of place.children().entries()) {
    if (values.indexOf(item.value) < at) item.refuse('is listed twice', 'Remove one of the two.')
  }
}
