import { BadInputError } from '@lockstep/domain'

/** A whole number from 1 on, as it stands on the command line. */
export function positiveNumber(word: string, option: string): number {
  const number = Number(word)
  if (/^\d{1,9}$/.test(word) && number > 0) return number
  throw new BadInputError(`"${word}" is no number for ${option}.`, 'Give a whole number from 1 on.')
}
