// Searches the models of the rewind protocol (rewind.pml; forks.pml with forks and pauses around it) with spin: the
// protocol must keep its promises in every order of steps, and each protocol that leaves one thing out must be caught,
// for the reason that is written here.
//
//   node model/run.mjs            everything: about three minutes, below 1 GiB
//   node model/run.mjs --quick    a small part
//   node model/run.mjs NO_TOKEN   one broken protocol, and the steps that break it
//
// Without spin or a C compiler it says so and ends with 0; with 1 where something is not as expected.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'

const modelOf = ({ model = 'rewind.pml' }) => fileURLToPath(new URL(model, import.meta.url))
const COMPILER = 'cc'

/** What an error of spin says about the protocol, by the assertion that failed. */
const REASONS = [
  ['invalid end state', 'somebody waits for ever'],
  ['acceptance cycle', 'never released'],
  ['!lockId && !lockLock', 'never released'],
  ['!pause&&!held', 'written under a pause'],
  ['pause==pauseBefore', 'a pause went, or stayed, with the wrong rewind'],
  ['!wished', 'a fork was not taken back'],
  ['CUTown.from', 'a chain went on instead of back'],
  ['!lockId', 'written during the rewind'],
  ['token==lastToken', "a sleeper's change passed"],
  ['lockId==own.id', "another rewind's row was deleted"],
  ['lockId==seen', 'decided on a rewind that was gone'],
  ['ck[x]==want[x]&&', 'released, but not at the cut'],
  ['lockId ?', 'not one picture'],
]

/** Of forks.pml: with two chains always. */
const around = (onFork, commands, forks, lapses) => ({
  model: 'forks.pml',
  sizes: { REWINDS: onFork === 'rewind' ? 1 : 0, COMMANDS: commands, FORKS: forks, LAPSES: lapses },
})
const sizes = (chains, commands, blows) => ({ CHAINS: chains, COMMANDS: commands, BLOWS: blows })

/** Chosen so that together every step of the model is taken. A blow that hits nothing changes nothing: so "at most". */
const CHECKS = [
  { name: 'two commands', sizes: sizes(2, 2, 0), quick: true },
  { name: 'three commands', sizes: sizes(2, 3, 0) },
  { name: 'three chains', sizes: sizes(3, 1, 0) },
  { name: 'two commands, one blow', sizes: sizes(2, 2, 1) },
  { name: 'one command, two blows', sizes: sizes(2, 1, 2) },
  { name: 'always released (LTL)', sizes: sizes(2, 2, 0), liveness: true },
  { name: 'the same, one blow', sizes: sizes(2, 1, 1), liveness: true },
  { name: 'fork, rolled back', ...around('rollback', 2, 1, 0) },
  { name: 'fork, rewinds all', ...around('rewind', 2, 1, 0) },
  { name: 'forks, rolled back', ...around('rollback', 1, 2, 1) },
  { name: 'forks, rewind all', ...around('rewind', 1, 2, 0), quick: true },
  { name: 'fork, sleeping worker', ...around('rewind', 1, 1, 1) },
  { name: 'fork, released (LTL)', ...around('rewind', 1, 1, 0), liveness: true },
]

const BROKEN = [
  { name: 'NO_ROW_LOCK', sizes: sizes(2, 1, 0), breaks: 'never released', quick: true },
  { name: 'RELEASE_IN_ONE', sizes: sizes(2, 1, 0), breaks: 'never released' },
  { name: 'WRITE_IN_ONE', sizes: sizes(2, 1, 0), breaks: 'written during the rewind', quick: true },
  { name: 'NO_SHARED_KEY', sizes: sizes(2, 1, 0), breaks: 'written during the rewind' },
  { name: 'NO_GENERATION', sizes: sizes(2, 2, 0), breaks: 'released, but not at the cut' },
  { name: 'DELETE_BY_T', sizes: sizes(2, 3, 0), breaks: "another rewind's row was deleted" },
  { name: 'DEEPEN_LEAVES_DONE', sizes: sizes(2, 2, 0), breaks: 'not one picture' },
  { name: 'DECIDE_BEFORE_LOCK', sizes: sizes(2, 2, 0), breaks: 'decided on a rewind that was gone' },
  { name: 'NO_TOKEN', sizes: sizes(2, 1, 1), breaks: "a sleeper's change passed" },
  {
    name: 'ROLLBACK_UNDER_REWIND',
    ...around('rollback', 1, 1, 0),
    breaks: 'written during the rewind',
    quick: true,
  },
  { name: 'WRITE_UNDER_PAUSE', ...around('rollback', 1, 1, 0), breaks: 'written under a pause' },
  { name: 'HOLD_LATER', ...around('rollback', 1, 1, 0), breaks: 'written under a pause', quick: true },
  {
    name: 'HOLD_TAKES_PAUSE',
    ...around('rollback', 3, 0, 0),
    breaks: 'a pause went, or stayed, with the wrong rewind',
  },
  {
    name: 'CANCEL_LEAVES_PAUSE',
    ...around('rollback', 2, 0, 0),
    breaks: 'a pause went, or stayed, with the wrong rewind',
  },
  { name: 'JOIN_WITHOUT_HEIGHT', ...around('rewind', 1, 1, 0), breaks: 'a fork was not taken back' },
  { name: 'BY_TIME_ALONE', ...around('rewind', 0, 1, 0), breaks: 'a fork was not taken back' },
  { name: 'NO_PROOF', ...around('rewind', 1, 1, 1), breaks: 'not one picture' },
]

process.exitCode = main(process.argv.slice(2))

function main(args) {
  const missing = ['spin', COMPILER].filter((tool) => spawnSync(tool, ['--version']).error)
  if (missing.length > 0) {
    console.log(
      `model was skipped: ${missing.join(' and ')} not found (Debian: apt-get install spin gcc libc6-dev)`,
    )
    return 0
  }
  const wanted = BROKEN.find((each) => each.name === args[0])
  if (wanted) return run(wanted, { trace: true }).ok ? 0 : 1
  if (args.some((arg) => arg !== '--quick')) {
    console.log(`Give nothing, --quick, or one of: ${BROKEN.map((each) => each.name).join(' ')}`)
    return 1
  }
  const quick = args.includes('--quick')
  const results = [...CHECKS, ...BROKEN].filter((each) => each.quick || !quick).map((each) => run(each, {}))
  const searched = results.filter((each) => each.unreached !== null)
  const models = quick ? [] : [...new Set(searched.map((each) => each.model))]
  const idle = models.flatMap((model) => neverTaken(searched.filter((each) => each.model === model)))
  for (const step of idle) console.log(`no check ever takes this step: ${step}`)
  const failed = results.filter((each) => !each.ok).length + idle.length
  console.log(failed === 0 ? 'model: all as expected' : `model: ${failed} not as expected`)
  return failed === 0 ? 0 : 1
}

/** Translates, compiles and searches one protocol in a room of its own, and prints its line. */
function run(check, { trace }) {
  const room = mkdtempSync(join(tmpdir(), 'lockstep-model-'))
  try {
    const startedAt = performance.now()
    const output = search(check, room)
    const seconds = (performance.now() - startedAt) / 1000
    const found = reasonIn(output)
    const ok = found === (check.breaks ?? 'holds')
    const given = Object.entries(check.sizes).filter(([size]) => size !== 'REWINDS')
    console.log(
      [
        ok ? 'ok    ' : 'FAILED',
        check.name.padEnd(24),
        given.map(([size, count]) => `${count} ${size.toLowerCase()}`).join(' '),
        `${Number(/(\d\S*) states, stored/.exec(output)?.[1] ?? 0)} states`.padStart(15),
        `${seconds.toFixed(1)} s`.padStart(7),
        ` ${found}`,
      ].join('  '),
    )
    const comparable = !check.breaks && !check.liveness && check.sizes.CHAINS !== 3 // steps are numbered alike
    if (trace || !ok) console.log(stepsOf(check, room) || output)
    return { ok, model: modelOf(check), unreached: comparable ? unreachedIn(output) : null }
  } finally {
    rmSync(room, { recursive: true, force: true })
  }
}

function defines({ name, sizes, breaks }) {
  const given = Object.entries(sizes).map(([key, value]) => `-D${key}=${value}`)
  return breaks ? [`-D${name}`, ...given] : given
}

/*
 * NOREDUCE: partial order reduction does not go with `provided`. COLLAPSE packs states; 2^25 slots suit some millions.
 * The depth is far above what is reached (below 1000): were it too small, spin would say so and it would count as failed.
 */
function search(check, room) {
  const how = check.liveness ? [] : ['-DSAFETY', '-DNOCLAIM']
  must(room, 'spin', [...defines(check), '-a', modelOf(check)])
  must(room, COMPILER, [
    '-O1',
    '-w',
    '-DNOREDUCE',
    '-DCOLLAPSE',
    '-DMEMLIM=3500',
    ...how,
    '-o',
    'pan',
    'pan.c',
  ])
  return must(room, './pan', ['-m20000', '-w25', ...(check.liveness ? ['-a', '-f'] : [])])
}

function must(cwd, command, args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  })
  if (error) throw error
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}:\n${stdout}${stderr}`)
  return stdout
}

function reasonIn(output) {
  const errors = /errors: (\d+)/.exec(output)?.[1]
  const whole = !/max search depth too small|out of memory|Search not completed/.test(output)
  if (errors === '0') return whole ? 'holds' : 'not searched whole'
  // Brackets and spaces as pan prints them mean nothing here.
  const said = (/pan:\d+: (.*)/.exec(output)?.[1] ?? '').replace(/[() ]/g, '')
  const known = REASONS.find(([mark]) => said.includes(mark.replace(/[() ]/g, '')))
  return known?.[1] ?? `unknown: ${said}`
}

/** The lines of the model that led to the error, one after the other, with who took them. */
function stepsOf(check, room) {
  const source = readFileSync(modelOf(check), 'utf8').split('\n')
  const quiet = source.flatMap((line, at) =>
    /^ +(d_step|EACH|if|do|od|fi|break|init)\b/.test(line) ? [at] : [],
  )
  const taken = must(room, 'spin', [
    ...defines(check),
    '-k',
    `${basename(modelOf(check))}.trail`,
    '-p',
    modelOf(check),
  ]).matchAll(/proc +(\d+) \(:?(\w+)\S*\) \S*\w+\.pml:(\d+)/g)
  const lines = [...taken]
    .filter(([, , , line]) => !quiet.includes(line - 1))
    .map(([, pid, who, line]) => `${who} ${pid}`.padEnd(12) + line.padEnd(5) + source[line - 1].trim())
  return lines.filter((line, at) => line !== lines[at - 1]).join('\n')
}

/** Steps that a search has never taken, by proctype and number: their texts differ with the sizes. */
function unreachedIn(output) {
  const steps = new Map()
  let where = ''
  for (const line of output.split('\n')) {
    where = /^unreached in (.*)/.exec(line)?.[1] ?? where
    const [, at, state, text] = /(\w+\.pml:\d+), state (\d+), "(.*)"/.exec(line) ?? []
    if (state !== undefined && text !== '-end-') steps.set(`${where} ${state}`, `${at} ${text}`)
  }
  return steps
}

/** A step that no check takes would be a promise about nothing. */
function neverTaken([first, ...others]) {
  return [...first.unreached]
    .filter(([key]) => others.every(({ unreached }) => unreached.has(key)))
    .map(([, step]) => step)
}
