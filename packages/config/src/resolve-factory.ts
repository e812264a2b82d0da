import { toEventSignature } from 'viem'
import { argumentNames } from './argument-names.js'
import type { EvmContractOptions, EvmEventOptions, FactoryOptions } from './options.js'
import type { Place } from './place.js'
import { isCalled } from './select-events.js'

/** A contract of which all but its factory is known; null options where a problem was reported. */
export interface ContractDraft {
  readonly place: Place
  readonly options: EvmContractOptions | null
}

/**
 * Puts to each contract the factory that it names: a contract of the same chain, which may itself be the child of a
 * third, but never of itself. In the order of the drafts; null where a problem was reported.
 */
export function resolveFactories(drafts: readonly ContractDraft[]): (EvmContractOptions | null)[] {
  const byKey = new Map(drafts.map((draft) => [draft.place.key, draft]))
  const resolved = new Map<string, EvmContractOptions | null>() // so that each problem is reported once
  const resolve = (draft: ContractDraft): EvmContractOptions | null => {
    const { key } = draft.place
    const known = resolved.get(key)
    if (known !== undefined) return known
    const of = byKey.get(factoryNameOf(draft) ?? '')
    const line = lineOf(draft, byKey)
    const whole = line === null ? refuseCircle(draft, byKey) : withFactory(draft, of && resolve(of), byKey)
    resolved.set(key, whole)
    return whole
  }
  return drafts.map(resolve)
}

function factoryNameOf({ place }: ContractDraft): string | null {
  const { value } = place.child('factory').child('contract')
  return typeof value === 'string' ? value : null
}

type Drafts = ReadonlyMap<string, ContractDraft>

/** The contract, its factory, the factory's factory and so on; null where that goes in a circle. */
function lineOf(draft: ContractDraft, drafts: Drafts): string[] | null {
  const line: string[] = []
  for (let next: ContractDraft | undefined = draft; next; next = drafts.get(factoryNameOf(next) ?? '')) {
    if (line.includes(next.place.key)) return null
    line.push(next.place.key)
  }
  return line
}

/** Reported at the first of the circle in the file; those that hang on it are silent. */
function refuseCircle({ place }: ContractDraft, drafts: Drafts): null {
  const line: string[] = []
  let next = place.key
  while (!line.includes(next)) {
    line.push(next)
    next = factoryNameOf(drafts.get(next) as ContractDraft) as string
  }
  const circle = line.slice(line.indexOf(next))
  const first = [...drafts.keys()].find((key) => circle.includes(key))
  if (first !== place.key) return null
  return place
    .child('factory')
    .refuse(
      `is a circle: ${place.document.show([...circle, next].join(', created by '))}`,
      'The first factory of a line is no child: give it an address.',
    )
}

/** @param of undefined: there is no such contract; null: it has problems of its own */
function withFactory(
  { place, options }: ContractDraft,
  of: EvmContractOptions | null | undefined,
  drafts: Drafts,
): EvmContractOptions | null {
  const factory = place.child('factory')
  if (factory.value === undefined) return options
  const contract = factory.child('contract')
  if (typeof contract.value !== 'string') return null // reported with the shape
  if (of === undefined) return refuseUnknownContract(contract, [...drafts.keys()])
  const found = of && resolveFactory(factory, of)
  return options && found && { ...options, factory: found }
}

function refuseUnknownContract(place: Place, known: readonly string[]): null {
  const sentence = `there is no contract ${place.quote(String(place.value))} on this chain`
  return place.refuse(sentence, place.document.show(place.suggest(String(place.value), known)))
}

/** Problems of the factory's own are reported at the factory; here only what its children say of it. */
function resolveFactory(place: Place, of: EvmContractOptions): FactoryOptions | null {
  const [event, argument] = [place.child('event'), place.child('argument')]
  if (typeof event.value !== 'string' || typeof argument.value !== 'string') return null
  const name = event.value
  const telling = of.events.filter((each) => isCalled(each, name))
  const signatures = [...new Set(telling.map((each) => toEventSignature(each)))]
  const [signature, another] = signatures
  if (signature === undefined) return refuseUnknownEvent(event, name, of)
  if (another !== undefined) {
    const hint = `Name it by its signature: ${signatures.join(' or ')}.`
    return event.refuse(`the contract ${of.contract} has several events ${event.quote(name)}`, hint)
  }
  const refused = telling.some((each) => refuseArgument(argument, argument.value as string, each) === null)
  return refused ? null : { of, event: signature, argument: argument.value }
}

function refuseUnknownEvent(place: Place, name: string, of: EvmContractOptions): null {
  const known = of.events.map((each) => (name.includes('(') ? toEventSignature(each) : each.name))
  return place.refuse(
    `the contract ${place.quote(of.contract)} indexes no event ${place.quote(name)}`,
    place.document.show(`${place.suggest(name, [...new Set(known)])} List it there under events.`),
  )
}

function refuseArgument(place: Place, name: string, event: EvmEventOptions): true | null {
  const names = argumentNames(event.inputs)
  const found = event.inputs[names.indexOf(name)]
  if (found?.type === 'address') return true
  const addresses = names.filter((_, index) => event.inputs[index]?.type === 'address')
  const sentence =
    found === undefined
      ? `the event ${place.quote(event.name)} has no argument ${place.quote(name)}`
      : `is of type ${found.type}, not address`
  const hint =
    addresses.length === 0
      ? 'No argument of this event is an address: choose another event.'
      : found === undefined
        ? place.suggest(name, addresses)
        : `Addresses here: ${addresses.join(', ')}.`
  return place.refuse(sentence, place.document.show(hint))
}
