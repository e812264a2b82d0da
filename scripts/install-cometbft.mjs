// Builds the CometBFT node that some tests run against, where Go is at hand. Without it those tests skip and say so;
// everything else works. Bare Node: this may run before any package is installed.
//
// Exit code 0: the binary is there, or it was skipped with the reason said. 1: Go was found and failed.

import { spawnSync } from 'node:child_process'
import { accessSync, constants, mkdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

// The newest 0.38 that was tried; newer ones may word their errors differently.
const MODULE = 'github.com/cometbft/cometbft/cmd/cometbft@v0.38.26'

const project = fileURLToPath(new URL('../', import.meta.url))
const folder = join(project, '.tools', 'bin')

process.exitCode = installCometBft()

function installCometBft() {
  const present = findBinary('cometbft', [process.env.COMETBFT_BIN, join(folder, 'cometbft')])
  if (present !== null) return say(`cometbft is there: ${present}`)
  const go = findBinary('go', [])
  if (go === null) {
    return say('cometbft was not built: Go is not installed. Tests against a real CometBFT node will skip.')
  }
  say(`building ${MODULE} into ${folder} (a minute or two) …`)
  mkdirSync(folder, { recursive: true })
  const built = spawnSync(go, ['install', MODULE], {
    env: { ...process.env, GOBIN: folder },
    stdio: 'inherit',
  })
  if (built.status === 0) return say(`cometbft was built: ${join(folder, 'cometbft')}`)
  const reason = built.error?.message ?? `exit code ${built.status ?? built.signal}`
  console.error(`cometbft could not be built: "go install ${MODULE}" failed (${reason}); Go says why above.`)
  return 1
}

function say(sentence) {
  console.log(sentence)
  return 0
}

/** The first that can be run: of the files given, then of the folders in PATH. */
function findBinary(name, files) {
  const inPath = (process.env.PATH ?? '')
    .split(delimiter)
    .filter(Boolean)
    .map((each) => join(each, name))
  return [...files.filter(Boolean), ...inPath].find(isExecutable) ?? null
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
