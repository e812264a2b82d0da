/*
 * Goal: the list of behaviour cases is whole and true: every case is in it, and every test that it names is there.
 * Method: test/cases/README.md is read row by row, and the named files for the named titles.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const list = readFileSync(join(ROOT, 'test/cases/README.md'), 'utf8')

/** `| S01 … | tests | what waits |` */
const cases = list
  .split('\n')
  .map((line) => /^\| (S\d\d) [^|]+ \|([^|]*)\|([^|]*)\|$/.exec(line))
  .flatMap((row) => (row === null ? [] : [{ number: row[1], tests: row[2] ?? '', waits: row[3] ?? '' }]))

/** Each file in backticks, with the titles in quotes that follow it. */
const named = cases.flatMap(({ number, tests }) =>
  [...tests.matchAll(/`([^`]+\.test\.ts)`: ((?:"[^"]+"(?:; )?)+)/g)].flatMap(([, file = '', titles = '']) =>
    [...titles.matchAll(/"([^"]+)"/g)].map(([, title = '']) => ({ number, file, title })),
  ),
)

test('all 34 cases are listed, in order', () => {
  expect(cases.map(({ number }) => number)).toEqual(
    Array.from({ length: 34 }, (_, index) => `S${String(index + 1).padStart(2, '0')}`),
  )
})

test('each case has a test, or says what it waits for', () => {
  const silent = cases.filter(({ tests, waits }) => tests.trim() === '' && waits.trim() === '')
  expect(silent).toEqual([])
})

test('every test that is named is there', () => {
  expect(named.length).toBeGreaterThan(34)
  const missing = named.filter(({ file, title }) => {
    const path = join(ROOT, file)
    return !existsSync(path) || !readFileSync(path, 'utf8').includes(title)
  })
  expect(missing).toEqual([])
})

test('every test of a case that stands in test/cases is named', () => {
  const folder = join(ROOT, 'test/cases')
  const files = readdirSync(folder).filter((name) => name.endsWith('.test.ts'))
  const titles = files.flatMap((name) =>
    [...readFileSync(join(folder, name), 'utf8').matchAll(/\btest\(\s*['`](S\d\d: .+?)['`],/g)].map(
      ([, title = '']) => ({ file: `test/cases/${name}`, title }),
    ),
  )
  expect(titles.length).toBeGreaterThan(files.length - 1)
  const unnamed = titles.filter(
    ({ file, title }) => !named.some((each) => each.file === file && each.title === title),
  )
  expect(unnamed).toEqual([])
})
