// The two steps of prepare.mjs, on a Node that is new enough. No packages may be imported here: none are installed.

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { withLock } from './prepare-lock.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const at = (...path) => join(root, ...path)
/** With what npm says to the scripts that it runs. */
const environment = process.env

/** Of a failed step's output. */
const LAST_LINES = 40

export const prepare = () =>
  withLock(at('.turbo', 'prepare.lock'), () => {
    step('packages', install)
    step('build', build)
  })

/** One line for each step, with what it did and how long that took. */
function step(name, work) {
  const start = performance.now()
  const did = work()
  console.log(`prepare: ${name} ${did} (${((performance.now() - start) / 1000).toFixed(1)} s)`)
}

function fail(sentence, advice, output = '') {
  const lines = output.trimEnd().split('\n').slice(-LAST_LINES).join('\n')
  console.error(`${lines ? `${lines}\n\n` : ''}${sentence}\nHint: ${advice}`)
  process.exit(1)
}

// ---- packages ---------------------------------------------------------------------------------------------------

/** What was installed last, written when it had succeeded. */
const stamp = at('node_modules', '.lockstep-installed')

function install() {
  const wanted = digestOfManifests()
  if (read(stamp) === wanted) return 'up to date'
  if (!isInstalled()) {
    console.log('prepare: installing packages; the first time this takes about a minute')
    npmInstall()
  }
  writeFileSync(stamp, digestOfManifests())
  return 'installed'
}

function digestOfManifests() {
  const files = [
    'package-lock.json',
    'package.json',
    ...workspaces().map((folder) => `${folder}/package.json`),
  ]
  const digest = createHash('sha256')
  for (const file of files) digest.update(`${file}\n${read(at(file))}\n`)
  return digest.digest('hex')
}

const workspaces = () =>
  readdirSync(at('packages'))
    .sort()
    .map((name) => `packages/${name}`)
    .filter((folder) => existsSync(at(folder, 'package.json')))

/** Without a stamp, somebody ran npm by hand: npm's own record says what it installed. */
function isInstalled() {
  const lock = parse(at('package-lock.json'))
  const installed = parse(at('node_modules', '.package-lock.json'))
  if (lock === null || installed === null) return false
  const isThere = ([path, entry]) =>
    !path.startsWith('node_modules/') || entry.optional || installed.packages[path]?.version === entry.version
  return (
    Object.entries(lock.packages).every(isThere) && workspaces().every((folder) => isInLock(lock, folder))
  )
}

function isInLock(lock, folder) {
  const { dependencies, devDependencies } = parse(at(folder, 'package.json'))
  const locked = lock.packages[folder]
  const same = (one = {}, other = {}) =>
    JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort())
  return (
    locked !== undefined &&
    same(dependencies, locked.dependencies) &&
    same(devDependencies, locked.devDependencies)
  )
}

function npmInstall() {
  const command = existsSync(at('package-lock.json')) ? 'ci' : 'install'
  // The tools that build and test are wanted too, whatever NODE_ENV says.
  const args = [command, '--include=dev', '--include=optional', '--no-audit', '--no-fund', '--loglevel=error']
  const cache = writableCache()
  const { npm_execpath: npm } = environment // by which npm we were called
  const result = npm?.endsWith('.js')
    ? run(process.execPath, [npm, ...args], cache.env)
    : run('npm', args, cache.env)
  cache.remove()
  if (result.ok) return
  fail(
    `"npm ${command}" failed.`,
    /in sync|EUSAGE/.test(result.output)
      ? 'package.json and package-lock.json do not fit together: run "npm install".'
      : 'Look at the lines above: usually the network, a proxy or a full disk. Then run the same command again.',
    result.output,
  )
}

/** npm keeps its cache in the home directory, which may be missing or read-only. */
function writableCache() {
  const usual = environment.npm_config_cache || join(homedir() || '/nonexistent', '.npm')
  try {
    mkdirSync(usual, { recursive: true })
    accessSync(usual, constants.W_OK)
    return { env: {}, remove: () => {} }
  } catch {
    const folder = mkdtempSync(join(tmpdir(), 'lockstep-npm-'))
    return {
      env: { npm_config_cache: folder },
      remove: () => rmSync(folder, { recursive: true, force: true }),
    }
  }
}

// ---- build ------------------------------------------------------------------------------------------------------

function build() {
  if (!existsSync(at('packages/cli/dist/main.js')))
    console.log('prepare: building; the first time this takes about a minute')
  const quiet = { TURBO_TELEMETRY_DISABLED: '1', DO_NOT_TRACK: '1', TURBO_NO_UPDATE_NOTIFIER: '1' }
  const turbo = run(
    process.execPath,
    [at('node_modules/turbo/bin/turbo'), 'run', 'build', '--output-logs=errors-only'],
    quiet,
  )
  if (turbo.ok) return 'done'
  // turbo only saves time; where it cannot run at all, the compiler does the same.
  const tsc = run(process.execPath, [at('node_modules/typescript/bin/tsc'), '-b'])
  if (tsc.ok) return 'done without turbo, which could not run'
  fail('The build failed.', 'Correct what the compiler names above.', tsc.output)
}

function run(program, args, env = {}) {
  const { status, error, stdout, stderr } = spawnSync(program, args, {
    cwd: root,
    env: { ...environment, ...env },
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return { ok: status === 0, output: `${stdout ?? ''}${stderr ?? ''}${error ? `${error.message}\n` : ''}` }
}

function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

function parse(file) {
  const text = read(file)
  return text === '' ? null : JSON.parse(text)
}
