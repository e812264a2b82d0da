/*
 * Goal: the rules of style that a machine can see: names that say what is inside, files and READMEs of a size that is
 * read, and an environment that is read in few places.
 *
 * Method: the files of packages/ are listed and read.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const PACKAGES = fileURLToPath(new URL('../../packages', import.meta.url))
const README_LINES_MAX = 45 // one screen
const SOURCE_LINES_MAX = 400

const rooms = readdirSync(PACKAGES, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

const files = rooms.flatMap((room) =>
  readdirSync(join(PACKAGES, room, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      return {
        room,
        name: entry.name,
        path: relative(PACKAGES, path).replaceAll('\\', '/'),
        text: readFileSync(path, 'utf8'),
      }
    }),
)

test('there is source to look at', () => {
  expect(files.length).toBeGreaterThan(100)
})

test('no file or folder is a drawer for odds and ends', () => {
  const drawers = files.filter(({ path }) =>
    /(^|\/)(utils?|common|helpers?|types|misc)(\.[a-z]+)*(\.ts|\/)/.test(path),
  )
  expect(drawers.map(({ path }) => path)).toEqual([])
})

test('files are kebab-case', () => {
  const others = files.filter(({ name }) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.(test|fixture|d))?\.ts$/.test(name))
  expect(others.map(({ path }) => path)).toEqual([])
})

test(`no file is longer than ${SOURCE_LINES_MAX} lines`, () => {
  const long = files.filter(({ text }) => text.split('\n').length - 1 > SOURCE_LINES_MAX)
  expect(long.map(({ path, text }) => `${path}: ${text.split('\n').length - 1}`)).toEqual([])
})

test(`each package has a README of one screen`, () => {
  const wrong = rooms.flatMap((room) => {
    try {
      const lines = readFileSync(join(PACKAGES, room, 'README.md'), 'utf8')
        .trimEnd()
        .split('\n').length
      return lines > README_LINES_MAX ? [`${room}: ${lines} lines`] : []
    } catch {
      return [`${room}: none`]
    }
  })
  expect(wrong).toEqual([])
})

test('each package offers its front door alone', () => {
  for (const room of rooms) {
    const { exports } = JSON.parse(readFileSync(join(PACKAGES, room, 'package.json'), 'utf8')) as {
      exports?: object
    }
    expect([room, Object.keys(exports ?? { '.': null })]).toEqual([room, ['.']])
  }
})

test('the environment is read by the command, the config and the test kit alone', () => {
  const readers = files.filter(
    ({ room, text, name }) =>
      !['cli', 'config', 'testkit'].includes(room) &&
      !name.endsWith('.test.ts') &&
      text.includes('process.env'),
  )
  expect(readers.map(({ path }) => path)).toEqual([])
})
