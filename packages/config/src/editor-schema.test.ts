import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { jsonSchema, jsonSchemaText } from './editor-schema.js'
import { cosmosChainShape, evmChainShape } from './schema.js'

const config = (name: string) => readFileSync(new URL(`../../../config/${name}`, import.meta.url), 'utf8')

test('the committed schema is what the shapes say (else: npm run schema -w @lockstep/config)', () => {
  expect(config('chains.schema.json')).toBe(jsonSchemaText())
})

test('the sample names it for editors', () => {
  expect(config('chains.yaml').split('\n')[0]).toBe('# yaml-language-server: $schema=./chains.schema.json')
})

interface Node {
  readonly properties?: Record<string, Node>
  readonly required?: string[]
  readonly additionalProperties?: Node | false
  readonly oneOf?: Node[]
  readonly anyOf?: Node[]
  readonly description?: string
  readonly type?: string
}

const chainForms = (): Node[] => {
  const { chains } = (jsonSchema() as Node).properties ?? {}
  return chains?.additionalProperties ? (chains.additionalProperties.oneOf ?? []) : []
}

test('every key of both kinds of chain is described, unknown ones are refused', () => {
  const forms = chainForms()
  expect(forms).toHaveLength(2)
  for (const [form, shape] of [
    [forms[0], evmChainShape],
    [forms[1], cosmosChainShape],
  ] as const) {
    expect(form?.additionalProperties).toBe(false)
    expect(Object.keys(form?.properties ?? {}).sort()).toEqual(Object.keys(shape.shape).sort())
    for (const [key, field] of Object.entries(form?.properties ?? {})) {
      if (key !== 'contracts') expect(field.description, key).toBeTruthy()
    }
  }
})

test('only what has no default is required, and a variable may stand for a number', () => {
  const [evm] = chainForms()
  expect(evm?.required).toEqual(['kind', 'chainId', 'startHeight', 'rpc'])
  expect(evm?.properties?.startHeight?.anyOf?.map(({ type }) => type)).toEqual(['integer', 'string'])
})

test('the sample uses no key that the schema does not have', () => {
  const sample = parse(config('chains.yaml')) as { chains: Record<string, object> }
  const keys = chainForms().flatMap((form) => Object.keys(form.properties ?? {}))
  expect(keys).toEqual(
    expect.arrayContaining(Object.values(sample.chains).flatMap((chain) => Object.keys(chain))),
  )
})
