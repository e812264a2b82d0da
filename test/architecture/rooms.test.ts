/*
 * Goal: the rooms of docs/design.md, section 4, are what the code is: each package imports what the table lets it, and
 * declares what it imports.
 *
 * Method: every import in packages/<room>/src is read from the source text and held against the table and package.json.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { expect, test } from 'vitest'

const PACKAGES = fileURLToPath(new URL('../../packages', import.meta.url))

/** A room imports only rooms below it; what stands behind the name is all that it may import. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  cli: [
    'coordinator',
    'worker',
    'rewind',
    'store',
    'source-evm',
    'source-cosmos',
    'telemetry',
    'config',
    'domain',
  ],
  coordinator: ['worker', 'rewind', 'store', 'source-evm', 'source-cosmos', 'telemetry', 'config', 'domain'],
  worker: ['rewind', 'store', 'source-evm', 'source-cosmos', 'telemetry', 'config', 'domain'],
  rewind: ['store', 'telemetry', 'config', 'domain'],
  store: ['telemetry', 'config', 'domain'],
  'source-evm': ['telemetry', 'config', 'domain'],
  'source-cosmos': ['telemetry', 'config', 'domain'],
  telemetry: ['domain'],
  config: ['domain'],
  domain: [],
  // Beside them: imported by tests, examples, the demo and users only.
  testkit: [
    'coordinator',
    'worker',
    'rewind',
    'store',
    'source-evm',
    'source-cosmos',
    'telemetry',
    'config',
    'domain',
  ],
  demo: [
    'testkit',
    'coordinator',
    'worker',
    'rewind',
    'store',
    'source-evm',
    'source-cosmos',
    'telemetry',
    'config',
    'domain',
  ],
}

/** Tests beside the code may also use the test kit and what the workspace's root installs. */
const isTest = (file: string): boolean => /\.(test|fixture)\.ts$/.test(file)

interface Import {
  readonly file: string
  readonly from: string
}

const rooms = readdirSync(PACKAGES, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

const importsOf = (room: string): Import[] =>
  sourcesOf(room).flatMap((file) =>
    ts.preProcessFile(readFileSync(file, 'utf8'), true, true).importedFiles.map(({ fileName }) => ({
      file: relative(PACKAGES, file).replaceAll('\\', '/'),
      from: fileName,
    })),
  )

const sourcesOf = (room: string): string[] =>
  readdirSync(join(PACKAGES, room, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))

/** `@lockstep/store` and `viem/chains` to the package's own name. */
const packageOf = (from: string): string =>
  from
    .split('/')
    .slice(0, from.startsWith('@') ? 2 : 1)
    .join('/')
const isOutside = (from: string): boolean => !from.startsWith('.') && !isBuiltin(from)

test('every package is in the table', () => {
  expect(rooms.sort()).toEqual(Object.keys(MAY_IMPORT).sort())
})

for (const room of rooms) {
  const imports = importsOf(room)
  const manifest = JSON.parse(readFileSync(join(PACKAGES, room, 'package.json'), 'utf8')) as {
    dependencies?: Record<string, string>
  }

  test(`${room} imports only rooms below it`, () => {
    const allowed = new Set([room, ...(MAY_IMPORT[room] ?? [])].map((each) => `@lockstep/${each}`))
    const strangers = imports.filter(
      ({ file, from }) =>
        from.startsWith('@lockstep/') &&
        !allowed.has(packageOf(from)) &&
        !(isTest(file) && packageOf(from) === '@lockstep/testkit'),
    )
    expect(strangers).toEqual([])
  })

  test(`${room} is entered, and enters others, by the front door`, () => {
    const deep = imports.filter(
      ({ file, from }) =>
        /^@lockstep\/[^/]+\//.test(from) || (!isTest(file) && /\.\.\/[a-z-]+\/src\//.test(from)),
    )
    expect(deep).toEqual([])
  })

  test(`${room} declares what it imports, and imports what it declares`, () => {
    const used = new Set(
      imports.filter(({ file, from }) => isOutside(from) && !isTest(file)).map(({ from }) => packageOf(from)),
    )
    const declared = Object.keys(manifest.dependencies ?? {})
    expect({ undeclared: [...used].filter((each) => !declared.includes(each)).sort() }).toEqual({
      undeclared: [],
    })
    expect({ unused: declared.filter((each) => !used.has(each) && !namedIn(room, each)).sort() }).toEqual({
      unused: [],
    })
  })
}

/** Found at run time by its name: packages that hold programs, and pino's transports. */
const namedIn = (room: string, dependency: string): boolean =>
  !dependency.startsWith('@lockstep/') &&
  sourcesOf(room).some((file) => !isTest(file) && readFileSync(file, 'utf8').includes(dependency))
