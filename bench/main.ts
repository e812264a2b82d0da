import { benchDecode } from './decode.js'
import { benchRewind } from './rewind.js'

/*
 * `npm run bench -- <rewind | decode> [--json]`. Numbers are ratios against something that runs beside them in the same run:
 * machines are shared, and seconds alone say nothing.
 */

const [what, ...words] = process.argv.slice(2)
const benches: Record<string, () => Promise<readonly BenchRow[]>> = {
  rewind: benchRewind,
  decode: benchDecode,
}

export interface BenchRow {
  readonly what: string
  readonly measured: string
  readonly against: string
  readonly goal: string
  readonly values: Readonly<Record<string, number>>
}

const bench = benches[what ?? '']
if (bench === undefined) {
  process.stderr.write(`Usage: npm run bench -- <${Object.keys(benches).join(' | ')}> [--json]\n`)
  process.exitCode = 2
} else {
  const rows = await bench()
  if (words.includes('--json')) process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`)
  else
    for (const row of rows)
      process.stdout.write(
        `${row.what}\n  measured  ${row.measured}\n  against   ${row.against}\n  goal      ${row.goal}\n`,
      )
}
