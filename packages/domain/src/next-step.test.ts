import { expect, it } from 'vitest'
import { height, nextStep, type StepInput } from './index.js'

const step = (input: { [K in keyof StepInput]?: number | null }) =>
  nextStep({
    checkpoint: null,
    startHeight: height(0),
    endHeight: null,
    head: height(1000),
    finalized: null,
    rangeWidthMax: 100,
    ...input,
  } as StepInput)

it('takes ranges far below the finalized height, and single blocks from there', () => {
  expect(step({ startHeight: 10, finalized: 900 })).toEqual({ do: 'range', from: 10, to: 109 })
  expect(step({ checkpoint: 850, finalized: 900 })).toEqual({ do: 'range', from: 851, to: 900 })
  expect(step({ checkpoint: 895, finalized: 900 })).toEqual({ do: 'block', height: 896 })
  expect(step({ checkpoint: 900, finalized: 900 })).toEqual({ do: 'block', height: 901 })
})

it('never asks above the head, nor above what is finalized in a range', () => {
  expect(step({ checkpoint: 1000 })).toEqual({ do: 'wait', for: 1001 })
  expect(step({ startHeight: 2000 })).toEqual({ do: 'wait', for: 2000 })
  expect(step({ checkpoint: 980, finalized: 2000 })).toEqual({ do: 'range', from: 981, to: 1000 })
})

it('ends at the end height', () => {
  expect(step({ checkpoint: 40, endHeight: 60, finalized: 900 })).toEqual({ do: 'range', from: 41, to: 60 })
  expect(step({ checkpoint: 60, endHeight: 60 })).toEqual({ do: 'finish' })
})
