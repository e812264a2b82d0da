export {
  type Comparison,
  compareFacts,
  readTables,
  type TableDifference,
  type Tables,
} from './compare-facts.js'
export { Program, type ProgramCommand, type ProgramResult, runProgram } from './program.js'
export { createProjectFolder, type ProjectFolder } from './project-folder.js'
export { waitUntil } from './wait-until.js'
