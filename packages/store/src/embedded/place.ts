import { createHash } from 'node:crypto'
import { lstat, realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { DatabaseUnavailableError, describeError } from '@lockstep/domain'
import { canEnter, type OsUser, serverUser, weAreRoot } from './os-user.js'

/**
 * Where the PostgreSQL of a project lives, and as whom it runs. Everything is in one folder, `home`: the data
 * (`data`), the password, the server's log, and where it must be the programs.
 */
export interface Place {
  readonly home: string
  readonly dataDir: string
  /** Null: as ourselves. */
  readonly user: OsUser | null
  /** Whether there are data already. */
  readonly exists: boolean
  /** Whether it is elsewhere than in the project, since the server's user cannot go there. */
  readonly elsewhere: boolean
}

/**
 * Inside the project, `.lockstep/pg`. Where the server must run as another user (we are root) and that one cannot
 * enter the project, as with a clone under `/root`: in `/var/lib/lockstep`, or where that cannot be written in the
 * folder for temporary files. Data that are there decide before anything else: a project whose folder changed its
 * mode must not begin anew elsewhere without a word.
 */
export async function locate(projectDir: string): Promise<Place> {
  const places = await candidates(projectDir)
  const [kept] = places.filter((place) => place.exists)
  if (kept !== undefined) {
    if (await isOpenTo(kept)) return kept
    throw closedPlace(kept, 'the data that are there cannot be reached')
  }
  for (const place of places) if (await isOpenTo(place)) return place
  throw closedPlace(places[0], 'nothing can be written there')
}

/** Where data are, for those who only look; the first choice where there are none. */
export async function locateData(projectDir: string): Promise<Place> {
  const places = await candidates(projectDir)
  return places.find((place) => place.exists) ?? places[0]
}

async function candidates(projectDir: string): Promise<[Place, ...Place[]]> {
  const project = await realpath(projectDir).catch((error: unknown) => {
    throw unusable(projectDir, describeError(error), 'Run Lockstep in the folder of the project.', error)
  })
  const first = await placeAt(join(project, '.lockstep', 'pg'), false)
  const others = weAreRoot() ? homesElsewhere(project).map((home) => placeAt(home, true)) : []
  return [first, ...(await Promise.all(others))]
}

/** Named after the project for people, and after its whole path since names repeat. */
function homesElsewhere(project: string): readonly string[] {
  const digest = createHash('sha256').update(project).digest('hex').slice(0, 12)
  const name = `${basename(project)}-${digest}`
  return [join('/var/lib/lockstep', name), join(tmpdir(), `lockstep-${name}`)]
}

async function placeAt(home: string, elsewhere: boolean): Promise<Place> {
  const dataDir = join(home, 'data')
  const user = await serverUser(dataDir)
  if (user === undefined) {
    const hint = 'Run Lockstep as an ordinary user, or set DATABASE_URL to a PostgreSQL of your own.'
    throw unusable(
      home,
      'PostgreSQL refuses root, and there is neither a user "postgres" nor "nobody".',
      hint,
    )
  }
  return { home, dataDir, user, exists: await isThere(dataDir), elsewhere }
}

/** Whether the server's user can enter the nearest folder above that exists, and we can write in it. */
async function isOpenTo(place: Place): Promise<boolean> {
  let nearest = place.home
  while (!(await isThere(nearest))) nearest = dirname(nearest)
  if (nearest === place.home && place.elsewhere && !(await isOurs(nearest))) return false
  return (await canEnter(nearest, place.user)) && (await canEnter(nearest, null, { write: true }))
}

/** In a folder where everybody may make things, the name could have been taken by anybody. */
async function isOurs(folder: string): Promise<boolean> {
  const status = await lstat(folder)
  return status.isDirectory() && status.uid === process.getuid?.()
}

const isThere = async (path: string): Promise<boolean> => (await lstat(path).catch(() => null)) !== null

function closedPlace(place: Place, problem: string): DatabaseUnavailableError {
  const who = place.user === null ? 'you' : `the user that PostgreSQL runs as here (${place.user.name})`
  const hint =
    `Let ${who} enter that folder and those above it, and write in it; or set DATABASE_URL to a PostgreSQL of your ` +
    'own. Data of a run as another user are reached by running as that user again.'
  return unusable(place.home, `${problem} by ${who}.`, hint)
}

/** Every error about the embedded server names its folder. */
export function unusable(
  home: string,
  reason: string,
  hint: string,
  cause?: unknown,
): DatabaseUnavailableError {
  return new DatabaseUnavailableError(`${home} (embedded PostgreSQL)`, reason, hint, cause)
}
