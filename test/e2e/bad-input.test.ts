/**
 * Goal: whatever is wrong with the words, the config or the database is said in a sentence with a hint, with the exit
 * code that `lockstep --help` promises, and changes nothing. Method: the real command against a migrated database, and
 * against databases that are not there; standard error is compared, and no stack trace may be in it.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TestChain } from './kit/chains.js'
import { configOf, Project } from './kit/project.js'

/** Nothing listens at port 4, which is assigned to nobody (and 9, the usual one, is refused by `fetch` itself). */
const alpha: TestChain = {
  name: 'alpha',
  config: {
    kind: 'evm',
    chainId: 1,
    rpc: ['http://127.0.0.1:4'],
    startHeight: 0,
    contracts: {
      token: { abi: ['event Transfer(address indexed from, address indexed to, uint256 value)'] },
    },
  },
  stop: async () => {},
}

let project: Project
let untouched: Awaited<ReturnType<Project['dump']>>

beforeAll(async () => {
  project = await Project.create([alpha])
  await project.succeed(['migrate'])
  untouched = await project.dump()
})

afterAll(() => project?.close())

/** Runs it; a sentence, a hint and no stack, and nothing on standard output, whatever it is. */
async function refused(
  words: readonly string[],
  config?: string,
): Promise<{ code: number | null; said: string }> {
  const { code, stdout, stderr } = await project.run(words, config === undefined ? {} : { config })
  expect(stderr).not.toMatch(/\n\s+at /)
  expect(stdout).not.toMatch(/\n\s+at /)
  return { code, said: stderr }
}

const afterwards = async () => expect(await project.dump()).toEqual(untouched)

describe('words', () => {
  test.each<[words: string, code: number, sentence: RegExp]>([
    [
      'rewind --to 2026-03-01T12:00:00 --yes',
      2,
      /^lockstep: "2026-03-01T12:00:00" names no time zone, so it means another moment on every machine\.\nHint: Add the zone: 2026-03-01T12:00:00Z for UTC/,
    ],
    ['rewind --to 2026-03-01 --yes', 2, /names no time zone.*\nHint: Add the zone: 2026-03-01T00:00:00Z/],
    [
      'rewind --to 2026-02-30T12:00:00Z --yes',
      2,
      /^lockstep: "2026-02-30T12:00:00Z" is not a moment that can be rewound to\.\nHint: Use a time with its zone/,
    ],
    [
      'rewind --to yesterday --yes',
      2,
      /^lockstep: "yesterday" is not a moment that can be rewound to\.\nHint: /,
    ],
    ['rewind --yes', 2, /^lockstep: A rewind needs the moment to go back to\.\nHint: Give it with --to: /],
    [
      'rewind --to 2999-01-01T00:00:00Z --yes',
      3,
      /^lockstep: 2999-01-01T00:00:00Z lies ahead: the database's clock says .*\nHint: A rewind goes back\. Nothing was changed\./,
    ],
    [
      'rewind --to osmosis:5 --yes',
      3,
      /^lockstep: There is no chain "osmosis" in this database\.\nHint: See "lockstep status"/,
    ],
    [
      'rewind --to alpha:5 --yes',
      1,
      /^lockstep: Chain alpha: the node at http:\/\/127\.0\.0\.1:\d+\S* does not answer: .*ECONNREFUSED.*\nHint: Check that the address under chains\.alpha\.rpc/m,
    ],
    [
      'rewind --to 2026-03-01T12:00:00Z --yes --force nonsense',
      2,
      /^lockstep: "--force nonsense" names no blocker\.\nHint: Nothing was changed\. Use one of no-worker, refetch, fork,/,
    ],
    [
      'rewind --to 2026-03-01T12:00:00Z --yes --force no-worker --force alpha:all',
      2,
      /^lockstep: "--force alpha:all" names no blocker\./,
    ],
    [
      'rewind --to 2026-03-01T12:00:00Z --yes --force osmosis:refetch',
      2,
      /^lockstep: "--force osmosis:refetch" names a chain that this rewind does not have\.\nHint: .* Its chains are alpha\./m,
    ],
    ['rewind --to -1h --json', 2, /^lockstep: With --json nobody can be asked\.\nHint: Add --yes/],
    ['rewind --to -1h', 2, /^lockstep: There is no terminal to ask at\.\nHint: Add --yes/],
    [
      'worker osmosis',
      2,
      /^lockstep: The config has no enabled chain "osmosis"\.\nHint: Use one of alpha, or add it under chains: in /,
    ],
    ['verify --chain osmosis', 2, /^lockstep: There is no chain "osmosis"\./],
    ['verify --chain alpha --from 5', 2, /^lockstep: Nothing is stored of alpha yet/],
    ['worker', 2, /^error: missing required argument 'chain'/],
    [
      'reminder',
      2,
      /^error: unknown command 'reminder'\n\(Did you mean rewind\?\)|^error: unknown command 'reminder'/,
    ],
    ['status --fast', 2, /^error: unknown option '--fast'/],
    ['status --log-level loud', 2, /^lockstep: "loud" is no log level\.\nHint: Use one of trace, debug/],
  ])('lockstep %s', async (words, code, sentence) => {
    const result = await refused(words.split(' '))
    expect(result.said).toMatch(sentence)
    expect(result.code).toBe(code)
    await afterwards()
  })
})

test('a chain that is stored, but not in the config, has no node to ask', async () => {
  const config = await project.folder.write(
    'without.yaml',
    configOf(project.database.url, 'lockstep', [{ ...alpha, name: 'beta' }], {}),
  )
  const { code, said } = await refused(['verify', '--chain', 'alpha'], config)
  expect(said).toMatch(/^lockstep: alpha is not in this config, so there is no node to ask\.\nHint: /)
  expect(code).toBe(2)
  await afterwards()
})

describe('the config', () => {
  const withAbi = (abi: unknown) =>
    configOf(
      project.database.url,
      'other',
      [{ ...alpha, config: { ...alpha.config, contracts: { token: { abi } } } }],
      {},
    )

  test.each<[what: string, abi: unknown, sentence: RegExp]>([
    ['an ABI file that is not there', 'nowhere.json', /the file "?nowhere\.json"? is not there/],
    ['an ABI file that is not JSON', 'broken.json', /the file "?broken\.json"? is not JSON/],
    ['an ABI file without an ABI', 'empty.json', /the file "?empty\.json"? holds no ABI/],
    [
      'a signature that cannot be read',
      ['event Transfer(address from'],
      /is not a signature that can be read/,
    ],
  ])('%s', async (_what, abi, sentence) => {
    await writeFile(join(project.folder.dir, 'config', 'broken.json'), '[{"type": "event"')
    await writeFile(join(project.folder.dir, 'config', 'empty.json'), '{"name": "Token"}')
    const config = await project.folder.write('abi.yaml', withAbi(abi))
    for (const words of [['config', 'check'], ['start']]) {
      const { code, said } = await refused(words, config)
      expect(said).toMatch(sentence)
      expect(code).toBe(2)
    }
    expect(await project.query(`select from pg_namespace where nspname = 'other'`)).toEqual([])
  })

  test('a file that is not there', async () => {
    const { code, said } = await refused(['status'], join(project.folder.dir, 'nowhere.yaml'))
    expect(said).toMatch(/nowhere\.yaml.*the file is not there/s)
    expect(code).toBe(2)
  })
})

describe('the database', () => {
  const COMMANDS = ['start', 'migrate', 'status', 'worker alpha', 'rewind --to -1h --yes']
  const configAt = (change: (url: URL) => void) => {
    const url = new URL(project.database.url)
    change(url)
    return project.folder.write('database.yaml', configOf(url.href, 'lockstep', [alpha], {}))
  }

  test.each(COMMANDS)('nothing listens there: lockstep %s', async (words) => {
    const config = await configAt((url) => {
      url.port = '9'
    })
    const { code, said } = await refused(words.split(' '), config)
    expect(said).toMatch(
      /^lockstep: The database at \S+ cannot be used: connect ECONNREFUSED 127\.0\.0\.1:9\nHint: Start PostgreSQL there, or correct DATABASE_URL/,
    )
    expect(code).toBe(4)
  })

  test('a wrong password is named, and not printed', async () => {
    const config = await configAt((url) => {
      url.password = 'not-the-password'
    })
    const { code, said } = await refused(['start'], config)
    expect(said).toMatch(
      /cannot be used: password authentication failed for user "\w+"\nHint: Correct user and password in DATABASE_URL/,
    )
    expect(said).not.toContain('not-the-password')
    expect(code).toBe(4)
  })

  test('a database that does not exist', async () => {
    const config = await configAt((url) => {
      url.pathname = '/nowhere'
    })
    const { code, said } = await refused(['migrate'], config)
    expect(said).toMatch(/database "nowhere" does not exist\nHint: Create that database, or correct its name/)
    expect(code).toBe(4)
  })

  test.each(['status', 'worker alpha', 'rewind --to -1h --yes'])(
    'not migrated: lockstep %s',
    async (words) => {
      const config = await project.folder.write(
        'other.yaml',
        configOf(project.database.url, 'other', [alpha], {}),
      )
      const { code, said } = await refused(words.split(' '), config)
      expect(said).toMatch(
        /^lockstep: The tables in schema "other" do not fit this program: there are none yet\.\nHint: Run "lockstep migrate"/,
      )
      expect(code).toBe(4)
      expect(await project.query(`select from pg_namespace where nspname = 'other'`)).toEqual([])
    },
  )

  test('a chain that has no room yet', async () => {
    const config = await project.folder.write(
      'more.yaml',
      configOf(project.database.url, 'lockstep', [alpha, { ...alpha, name: 'beta' }], {}),
    )
    const { code, said } = await refused(['worker', 'beta'], config)
    expect(said).toMatch(/chain beta has no room in them yet\.\nHint: Run "lockstep migrate"/)
    expect(code).toBe(4)
    await afterwards()
  })
})
