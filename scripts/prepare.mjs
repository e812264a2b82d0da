/*
 * Makes a fresh clone ready: installs the packages and builds, where that is missing or out of date. Runs on bare
 * Node before `npm test` and `npm run demo`, and does next to nothing where all is there.
 *
 * This file imports nothing and is written in words that an old Node reads too: it has to tell that one so.
 */

/** As `engines` in package.json. */
const NODE_MIN = [20, 19]

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < NODE_MIN[0] || (major === NODE_MIN[0] && minor < NODE_MIN[1])) {
  console.error(
    `Lockstep needs Node ${NODE_MIN.join('.')} or newer, and this is Node ${process.versions.node}.`,
  )
  console.error('Hint: install a newer one from https://nodejs.org, and run the same command again.')
  process.exitCode = 1
} else {
  import('./prepare-steps.mjs')
    .then((steps) => steps.prepare())
    .catch((error) => {
      console.error(`This folder could not be prepared: ${error.message}`)
      console.error('Hint: look at free space, and whether you may write in it.')
      process.exitCode = 1
    })
}
