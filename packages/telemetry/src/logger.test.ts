/*
 * Goal: what reaches the log's reader, in both forms, and that no secret does.
 * Method: real loggers over a stream that keeps what is written; and a process of its own for standard output.
 */
import { spawnSync } from 'node:child_process'
import { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import {
  BadInputError,
  chainKey,
  InvariantError,
  RpcUnavailableError,
  timeFromSeconds,
} from '@lockstep/domain'
import { describe, expect, test } from 'vitest'
import { createLogger, type Logger, type LoggerOptions, silentLogger } from './logger.js'

const SECRET = 'https://me:s3cret@node.example/s3cret?key=s3cret'

function linesOf(
  format: LoggerOptions['format'],
  write: (logger: Logger) => void,
  level: LoggerOptions['level'] = 'info',
): string[] {
  let text = ''
  const destination = new Writable({
    write(chunk, _, done) {
      text += String(chunk)
      done()
    },
  })
  write(createLogger({ level, format, destination }))
  return text.split('\n').slice(0, -1)
}

const json = (write: (logger: Logger) => void): Record<string, unknown> => {
  const lines = linesOf('json', write)
  expect(lines).toHaveLength(1)
  return JSON.parse(lines[0] ?? '') as Record<string, unknown>
}

const pretty = (write: (logger: Logger) => void): string =>
  linesOf('pretty', write)
    .join('\n')
    .replace(/\d\d:\d\d:\d\d\.\d{3}/g, 'HH:MM:SS.mmm')

const ways: [string, (logger: Logger) => void][] = [
  ['a field', (logger) => logger.info({ endpoint: SECRET }, 'endpoint answered')],
  ['a field of a field', (logger) => logger.info({ a: { b: [SECRET] } }, 'endpoint answered')],
  ['a name', (logger) => logger.info({ [SECRET]: 1 }, 'endpoint answered')],
  ['a binding', (logger) => logger.child({ endpoint: SECRET }).info('endpoint answered')],
  ['the sentence', (logger) => logger.info(`asked ${SECRET}`)],
  ['a value in the sentence', (logger) => logger.info('asked %s', SECRET)],
  ['an error', (logger) => logger.info({ err: new Error(SECRET) }, 'fetch failed')],
  ['an error and nothing else', (logger) => logger.info(new Error(SECRET))],
  ['a cause', (logger) => logger.info({ err: new Error('x', { cause: new Error(SECRET) }) }, 'fetch failed')],
  ['a stack', (logger) => logger.info({ err: new TypeError(SECRET) }, 'fetch failed')],
  [
    'a hint',
    (logger) => logger.info({ err: new BadInputError('x', SECRET, { url: SECRET }) }, 'fetch failed'),
  ],
  [
    'another property of an error',
    (logger) => logger.info({ err: Object.assign(new Error('x'), { url: SECRET }) }, 'x'),
  ],
  ['an error under another name', (logger) => logger.info({ reason: new Error(SECRET) }, 'fetch failed')],
]

describe('a secret is in no line: ', () => {
  test.each(ways)('%s', (_, write) => {
    for (const format of ['json', 'pretty'] as const) {
      const text = linesOf(format, write).join('\n')
      expect(text).not.toBe('')
      expect(text).not.toContain('s3cret')
    }
  })
})

describe('json', () => {
  test('time, level, sentence, fields, bindings', () => {
    const line = json((logger) => logger.child({ chain: 'alpha' }).warn({ height: 5 }, 'block stored'))
    expect(line).toEqual({
      time: expect.any(String),
      level: 'warn',
      chain: 'alpha',
      height: 5,
      msg: 'block stored',
    })
    expect(new Date(String(line.time)).toISOString()).toBe(line.time)
  })

  test('a bigint keeps its digits, at any depth', () => {
    const big = 2n ** 70n
    const line = json((logger) =>
      logger.info({ time_us: timeFromSeconds(1), a: { b: [big] } }, 'block stored'),
    )
    expect(line).toMatchObject({ time_us: '1000000', a: { b: [big.toString()] } })
  })

  test('an error that a person can put right: sentence, hint, facts and causes, no stack', () => {
    const cause = new Error('refused', { cause: new Error('no route') })
    const err = new RpcUnavailableError(chainKey('alpha'), 'http://h', 'refused', cause)
    expect(json((logger) => logger.error({ err }, 'endpoint failed')).err).toEqual({
      code: 'rpc_unavailable',
      retryable: true,
      message: err.message,
      hint: err.hint,
      facts: { chain: 'alpha', endpoint: 'http://h', reason: 'refused' },
      causes: ['refused', 'no route'],
    })
  })

  test('a defect has its stack, a dead network has not', () => {
    const errorOf = (err: unknown) => json((logger) => logger.error({ err }, 'worker failed')).err
    expect(errorOf(new InvariantError('broken promise: x'))).toMatchObject({
      stack: expect.stringContaining('logger.test'),
    })
    expect(errorOf(new TypeError('x is undefined'))).toMatchObject({
      stack: expect.stringContaining('logger.test'),
    })
    expect(errorOf(new TypeError('fetch failed', { cause: new Error('ECONNREFUSED') }))).toEqual({
      type: 'TypeError',
      message: 'fetch failed',
      causes: ['ECONNREFUSED'],
    })
    expect(errorOf('only text')).toBe('only text')
  })

  test('an error under another name is told as well', () => {
    expect(json((logger) => logger.info({ reason: new Error('why') }, 'x'))).toMatchObject({
      reason: { message: 'why' },
    })
  })

  test('a value that holds itself is cut off', () => {
    const circle: Record<string, unknown> = { n: 1n }
    circle.self = circle
    expect(json((logger) => logger.info({ circle }, 'x'))).toMatchObject({
      circle: { n: '1', self: { n: '1' } },
    })
  })

  test('causes that lead in a circle end', () => {
    const err = new Error('a')
    err.cause = err
    expect(json((logger) => logger.error({ err }, 'x')).err).toMatchObject({ causes: Array(5).fill('a') })
  })

  test('levels below the asked one are not written', () => {
    expect(linesOf('json', (logger) => logger.info('x'), 'warn')).toEqual([])
    expect(linesOf('json', (logger) => logger.debug('x'), 'debug')).toHaveLength(1)
  })
})

describe('pretty', () => {
  test('one line: level, sentence, fields', () => {
    const text = pretty((logger) =>
      logger
        .child({ chain: 'alpha' })
        .info(
          { height: 5, lag: 12n, phase: 'live', reason: 'two words', range: [1, 2], eta: null },
          'progress made',
        ),
    )
    expect(text).toMatchInlineSnapshot(
      `"[HH:MM:SS.mmm] INFO: progress made chain=alpha height=5 lag=12 phase=live reason="two words" range=[1,2] eta=null"`,
    )
  })

  test('an error below its line', () => {
    const err = new RpcUnavailableError(chainKey('alpha'), 'http://h', 'refused', new Error('ECONNREFUSED'))
    expect(pretty((logger) => logger.error({ err, attempts: 3 }, 'endpoint failed'))).toMatchInlineSnapshot(`
      "[HH:MM:SS.mmm] ERROR: endpoint failed attempts=3
          Chain alpha: the node at http://h does not answer: refused
          because: ECONNREFUSED
          Hint: Check that the address under chains.alpha.rpc is right and that the node is up; a worker keeps trying."
    `)
  })

  test('an error that is the sentence is not told twice', () => {
    expect(pretty((logger) => logger.error(new Error('it broke')))).toMatchInlineSnapshot(
      `"[HH:MM:SS.mmm] ERROR: it broke"`,
    )
  })

  test('no colours where it is no terminal', () => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it is the character that colours begin with
    expect(pretty((logger) => logger.error({ a: 1 }, 'x'))).not.toMatch(/\u001b/)
  })
})

test('the silent logger takes everything and writes nothing', () => {
  const logger = silentLogger().child({ chain: 'alpha' })
  expect(logger.isLevelEnabled('fatal')).toBe(false)
  logger.fatal({ err: new Error('x') }, 'x')
})

test.each(['json', 'pretty'] as const)(
  'a line written just before the process ends is there: %s',
  (format) => {
    const module = JSON.stringify(fileURLToPath(new URL('./logger.ts', import.meta.url)))
    const script = `import(${module}).then(({ createLogger }) => {
    const logger = createLogger({ level: 'info', format: '${format}' })
    for (let n = 0; n < 2000; n++) logger.info({ n, filler: 'x'.repeat(100) }, 'line written')
    process.kill(process.pid, 'SIGKILL') // no exit hook may be what writes them
  })`
    const { stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', '-e', script], {
      encoding: 'utf8',
    })
    expect(stderr).toBe('')
    expect(stdout.trim().split('\n')).toHaveLength(2000)
    expect(stdout).toContain('1999')
  },
)
