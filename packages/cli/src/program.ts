import { BadInputError } from '@lockstep/domain'
import { Command, Help } from 'commander'
import { configCheck } from './commands/config-check.js'
import { type ForksWords, forks } from './commands/forks.js'
import { migrate } from './commands/migrate.js'
import { type PauseWords, pause, resume } from './commands/pause.js'
import { type RewindWords, rewind } from './commands/rewind.js'
import {
  type AuditWords,
  rewindCancel,
  rewindHistory,
  rewindShow,
  rewindStatus,
} from './commands/rewind-audit.js'
import { start } from './commands/start.js'
import { type StatusWords, status } from './commands/status.js'
import { type DigestWords, digest, type VerifyWords, verify } from './commands/verify.js'
import { worker } from './commands/worker.js'
import { EXIT_CODES_HELP } from './exit-codes.js'
import type { GlobalWords } from './session.js'

/** The words of the command line; what they do is in `commands/`. */
export function createProgram(env: NodeJS.ProcessEnv): Command {
  const program = new Command('lockstep')
    .description(
      'Indexes events of many chains into one PostgreSQL, and takes all of them back to one moment.',
    )
    .option('-c, --config <file>', 'the config file', env.LOCKSTEP_CONFIG ?? 'config/chains.yaml')
    .option(
      '--log-level <level>',
      'trace, debug, info, warn, error, fatal or silent; default: info for start and worker, else error',
      env.LOCKSTEP_LOG_LEVEL,
    )
    .option(
      '--log-format <format>',
      'pretty, json, or auto: pretty at a terminal',
      env.LOCKSTEP_LOG_FORMAT ?? 'auto',
    )
    .configureHelp({
      showGlobalOptions: true,
      visibleGlobalOptions: (command) => {
        const all = Object.assign(new Help(), { showGlobalOptions: true }).visibleGlobalOptions(command)
        return command.parent?.name() === 'rewind'
          ? all.filter(({ long }) => SHARED_OPTIONS.includes(long ?? ''))
          : all
      },
    })
    .addHelpText('after', `${GETTING_STARTED}\n${EXIT_CODES_HELP}`)
    .showHelpAfterError('(lockstep --help explains the commands)')
    .exitOverride()
  addRunning(program)
  addRewind(program)
  addWatching(program)
  addSetup(program)
  return program
}

function addRunning(program: Command): void {
  program
    .command('start')
    .description(
      'index all chains of the config on this machine: migrates, runs one worker process per chain, until Ctrl-C',
    )
    .addHelpText('after', START)
    .action((_words, command: Command) => start(command.optsWithGlobals<GlobalWords>()))
  program
    .command('worker <chain>')
    .description('follow one chain in this process, on any machine that reaches the database')
    .action((chain: string, _words, command: Command) =>
      worker(chain, command.optsWithGlobals<GlobalWords>()),
    )
  program
    .command('pause')
    .description('hold all fetching and writing, until "lockstep resume"')
    .option('--reason <text>', 'why: shown by status')
    .action((_words, command: Command) => pause(command.optsWithGlobals<PauseWords>()))
  program
    .command('resume')
    .description('end a pause; during a rewind everybody goes on when it is done')
    .action((_words, command: Command) => resume(command.optsWithGlobals<GlobalWords>()))
}

function addRewind(program: Command): void {
  const group = program
    .command('rewind')
    .description('take every chain back to one moment, then let them go on')
    .option('--to <when>', 'the moment: what has a later block time goes, on every chain')
    .option('--yes', 'do not ask')
    .option('--dry-run', 'print the plan and change nothing')
    .option('--hold', 'stay paused when all chains are back, until "lockstep resume"')
    .option(
      '--force <blocker>',
      'go on in spite of a blocker of the plan; may be repeated',
      (each: string, all: string[]) => [...all, each],
      [],
    )
    .option('--detach', 'do not follow the rewind to its end')
    .option('--reason <text>', 'why: kept in the audit')
    .option('--json', 'one JSON document instead of text')
    .addHelpText('after', REWIND)
    .action((_words, command: Command) => rewind(command.optsWithGlobals<RewindWords>()))
  group
    .command('cancel')
    .description('take a rewind back, while no chain has removed anything')
    .action((_words, command: Command) => rewindCancel(onlyJson<AuditWords>(command)))
  group
    .command('status')
    .description('the running rewind: which chains are back, whom it waits for and why')
    .action((_words, command: Command) => rewindStatus(onlyJson<AuditWords>(command)))
  group
    .command('history')
    .description('earlier rewinds, newest first')
    .option('--limit <n>', 'how many', '20')
    .action((_words, command: Command) => rewindHistory(onlyJson<AuditWords & { limit: string }>(command)))
  group
    .command('show <id>')
    .description('one rewind: who, why, when, and what each chain removed; the beginning of its id is enough')
    .action((id: string, _words, command: Command) => rewindShow(id, onlyJson<AuditWords>(command)))
}

/**
 * The options of a subcommand of `rewind`. Those of a rewind itself are read anywhere on the line, so they are refused
 * here: `rewind cancel --dry-run` would cancel.
 */
function onlyJson<Words extends GlobalWords>(command: Command): Words {
  const words = command.optsWithGlobals<Words & RewindWords>()
  const { to, yes, dryRun, hold, force, detach, reason } = words
  const given = Object.entries({
    to,
    yes,
    dryRun,
    hold,
    force: force.length > 0 || undefined,
    detach,
    reason,
  })
  const strange = given
    .filter(([, value]) => value !== undefined)
    .map(([name]) => `--${name === 'dryRun' ? 'dry-run' : name}`)
  if (strange.length === 0) return words
  throw new BadInputError(
    `"lockstep rewind ${command.name()}" takes no ${strange.join(', ')}.`,
    'Nothing was changed. See "lockstep rewind --help".',
  )
}

/** In the help of the subcommands of `rewind`: what they take of the options above them. */
const SHARED_OPTIONS: readonly string[] = ['--config', '--log-level', '--log-format', '--json']

function addWatching(program: Command): void {
  program
    .command('status')
    .description('each chain: phase, checkpoint, head, lag, rates; a running rewind and whom it waits for')
    .option('--watch', 'again each second, until Ctrl-C')
    .option('--json', 'one JSON document (with --watch one a line)')
    .action((_words, command: Command) => status(command.optsWithGlobals<StatusWords>()))
  program
    .command('forks')
    .description('rollbacks of chains after forks, newest first')
    .option('--chain <chain>', 'of this chain only')
    .option('--limit <n>', 'how many', '20')
    .option('--json', 'one JSON document instead of text')
    .action((_words, command: Command) => forks(command.optsWithGlobals<ForksWords>()))
  program
    .command('verify')
    .description('prove from the nodes that what is stored is what the chains say; exit code 1 where not')
    .option('--chain <chain>', 'this chain only')
    .option('--from <height>', 'from this height on (with --chain); default: the start')
    .option('--json', 'one JSON document instead of text')
    .action((_words, command: Command) => verify(command.optsWithGlobals<VerifyWords>()))
  program
    .command('digest')
    .description('one number per chain and table: equal in two databases that hold the same')
    .option('--chain <chain>', 'this chain only')
    .option(
      '--to <height or moment>',
      'up to this height, or to a moment as "rewind --to" takes it; default: the checkpoint',
    )
    .option('--json', 'one JSON document instead of text')
    .action((_words, command: Command) => digest(command.optsWithGlobals<DigestWords>()))
}

function addSetup(program: Command): void {
  program
    .command('migrate')
    .description(
      'create or upgrade the tables, make room for the chains of the config, and make its views and indexes; needs the role that owns them',
    )
    .action((_words, command: Command) => migrate(command.optsWithGlobals<GlobalWords>()))
  program
    .command('config')
    .description('the config file')
    .command('check')
    .description('list every mistake in the config, or print what was understood; makes no connection')
    .action((_words, command: Command) => configCheck(command.optsWithGlobals<GlobalWords>()))
}

const GETTING_STARTED = `
Getting started:
  1. Declare your chains in config/chains.yaml        lockstep config check
  2. Start, and leave it running                      lockstep start
  3. Watch it from another terminal                   lockstep status --watch
  4. When something was wrong, take everything back   lockstep rewind --to 2026-03-01T12:00:00Z
     and see first what that would do                 lockstep rewind --to -2h --dry-run

  Without DATABASE_URL an embedded PostgreSQL is used; its data stay in .lockstep/pg.
  Query it through the views: select * from indexed.events order by block_time desc limit 10;

Environment: LOCKSTEP_CONFIG, LOCKSTEP_LOG_LEVEL and LOCKSTEP_LOG_FORMAT stand for the options of those names.`

const START = `
The first Ctrl-C (or SIGTERM) lets every worker finish its block and leave; the second ends everything at once, which
is safe as well: a block is stored wholly or not at all. Start again to go on.`

const REWIND = `
When is one of:
  2026-03-01T12:00:00Z      a time with its zone (2026-03-01T13:00:00+01:00)
  @1772366400               unix seconds
  -2h, -30m, -1d            so long before now
  ethereum:19000000         the time of that block
  ethereum:0x5c50…          the time of the block that holds that transaction

Blocks with a time after that moment go, with all that came from them; those at it stay. Meanwhile no chain fetches or
writes. When all chains are back, they index again from there to their heads. Interrupting this command after the
request does not stop the rewind.

Blockers are named in the plan, and each asks for its own --force (or --force <chain>:<blocker>):
  no-worker   nobody would index again what goes
  refetch     the chain's node cannot serve again what goes
  fork        the chain's node does not agree with what is stored`
