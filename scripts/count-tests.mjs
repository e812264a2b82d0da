// Turns vitest's JSON report into the one line that ends .ci/run. Counted as a failure is also what is no test: a file
// that could not be loaded, an error outside of tests, a check before them (second argument: how many), no report.
//
// Exit code 0 only where something passed and nothing failed.

import { readFileSync } from 'node:fs'

const [file = '', failedBefore = '0'] = process.argv.slice(2)
const report = readReport()

const passed = report.numPassedTests
const skipped = report.numPendingTests + report.numTodoTests
const unloaded = report.testResults.filter(
  (each) => each.status === 'failed' && each.assertionResults.length === 0,
)
for (const { name, message } of unloaded) console.log(`could not be run: ${name}: ${message}`)
let failed = report.numFailedTests + unloaded.length + Number(failedBefore)
if (failed === 0 && !(report.success && passed > 0)) failed = 1

console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exitCode = failed === 0 ? 0 : 1

function readReport() {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    console.log(`there is no report of the tests: ${error.message}`)
    return {
      numPassedTests: 0,
      numFailedTests: 0,
      numPendingTests: 0,
      numTodoTests: 0,
      testResults: [],
      success: false,
    }
  }
}
