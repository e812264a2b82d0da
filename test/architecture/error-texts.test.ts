/*
 * Goal: a person sees every text of an error before it lands, and a changed one shows up in review.
 *
 * Method: each class of domain/errors.ts is made with plausible values; sentence and hint are kept as a snapshot. A
 * class that is missing here fails the test.
 */
import * as domain from '@lockstep/domain'
import { chainKey, describeError, height, LockstepError } from '@lockstep/domain'
import { expect, test } from 'vitest'

const OSMOSIS = chainKey('osmosis')
const [STORED, REPORTED] = [`0x3fa9${'0'.repeat(60)}`, `0x77b0${'0'.repeat(60)}`] as const
const NODE = 'https://rpc.example.org'

const ERRORS: Readonly<Record<string, readonly LockstepError[]>> = {
  RpcUnavailableError: [new domain.RpcUnavailableError(OSMOSIS, NODE, 'connect ECONNREFUSED 192.0.2.1:443')],
  WrongChainError: [new domain.WrongChainError(OSMOSIS, NODE, 'osmosis-1', 'osmo-test-5')],
  MalformedAnswerError: [
    new domain.MalformedAnswerError(OSMOSIS, NODE, 'block_results', 'it is of block 7, not of 8'),
  ],
  HeightPrunedError: [
    new domain.HeightPrunedError(OSMOSIS, NODE, height(1001), height(1500)),
    new domain.HeightPrunedError(OSMOSIS, NODE, height(1001), null),
  ],
  DeepReorgError: [
    new domain.DeepReorgError(OSMOSIS, height(105), 64, STORED, REPORTED),
    new domain.DeepReorgError(OSMOSIS, height(105), 64, STORED, null),
  ],
  ConflictingObservationError: [new domain.ConflictingObservationError(OSMOSIS, height(105), 3, 7)],
  LeaseLostError: [new domain.LeaseLostError('chain:osmosis', 'it could not be renewed in time')],
  CheckpointMovedError: [new domain.CheckpointMovedError(OSMOSIS, '105 (0x3fa90000…)', 'before the start')],
  WriteRefusedError: [new domain.WriteRefusedError('rewind'), new domain.WriteRefusedError('pause')],
  ChainChangedError: [new domain.ChainChangedError(OSMOSIS, 'startHeight', '100', '200')],
  DatabaseUnavailableError: [
    new domain.DatabaseUnavailableError(
      'postgres://db.example.org/app',
      'connect ECONNREFUSED',
      'Start PostgreSQL there.',
    ),
  ],
  SchemaVersionError: [
    new domain.SchemaVersionError('lockstep', 'there are none yet.', 'Run "lockstep migrate".'),
  ],
  RequestRefusedError: [new domain.RequestRefusedError('A rewind runs.', 'Wait for it.')],
  BadInputError: [new domain.BadInputError('"noon" is not a moment.', 'Use a time with its zone.')],
}

test('every error is made here', () => {
  const classes = Object.entries(domain)
    .filter(([, value]) => typeof value === 'function' && value.prototype instanceof LockstepError)
    .map(([name]) => name)
  expect(Object.keys(ERRORS).sort()).toEqual(classes.sort())
})

test('codes are stable, distinct words', () => {
  const codes = Object.values(ERRORS).map(([error]) => error?.code)
  expect(new Set(codes).size).toBe(codes.length)
  expect(codes.filter((code) => !/^[a-z]+(_[a-z]+)*$/.test(code ?? ''))).toEqual([])
})

for (const [name, errors] of Object.entries(ERRORS)) {
  test(`${name} says what is wrong and what to do`, () => {
    const texts = errors.map(
      (error) => `${error.code}${error.retryable ? ' (may pass by itself)' : ''}\n${describeError(error)}`,
    )
    expect(texts.join('\n\n')).toMatchSnapshot()
  })
}
