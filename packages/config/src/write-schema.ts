import { writeFileSync } from 'node:fs'
import { jsonSchemaText } from './editor-schema.js'

// Run by `npm run schema -w @lockstep/config`: the committed file is what the shapes say, and a test compares.
writeFileSync(new URL('../../../config/chains.schema.json', import.meta.url), jsonSchemaText())
