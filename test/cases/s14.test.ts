/*
 * Goal: no time zone, of the process or of the database, moves a cut or a stored time.
 * Method: a real worker and `lockstep rewind` run in Chicago on a database in Kolkata, and in UTC on one in UTC; block 10
 * is at 2023-11-14T22:13:20Z.
 */
import { afterEach, expect, test } from 'vitest'
import { Project } from '../e2e/kit/project.js'
import { headOf, Scene, transfers } from '../worker/scene.js'
import { servedEvm } from './served-chains.js'

let scene = new Scene()
afterEach(async () => {
  await scene.end()
  scene = new Scene()
})

const secondOf = (block: number): number => 1_700_000_000 + 12 * (block - 10)

/** What a rewind to the moment does where process and database have these zones. */
async function rewindIn(processZone: string, databaseZone: string) {
  const node = await scene.evm(transfers(20), { firstTime: secondOf(0) })
  const project = await Project.create([servedEvm('alpha', node)], {
    settings: { lease: { time: '1m' } },
  })
  scene.later(() => project.close())
  const name = new URL(project.database.url).pathname.slice(1)
  await project.query(`alter database "${name}" set timezone = '${databaseZone}'`)
  const options = { env: { TZ: processZone } }
  await project.succeed(['migrate'], options)
  await project.worker('alpha', options)
  await project.reached({ alpha: 20 })
  const times = await project.query(
    'select height::int, extract(epoch from block_time)::bigint::text as second from block order by height',
  )
  await project.succeed(['rewind', '--to', '2023-11-14T22:13:20Z', '--yes'], options)
  const [audit] = await project.query(
    `select "from_height"::int as "from", cut::int, extract(epoch from timestamp)::bigint::text as second
     from rewind_chain join rewind on id = rewind_id`,
  )
  const zoneless = await project.run(['rewind', '--to', '2023-11-14T22:13:20', '--yes'], options)
  await project.reached({ alpha: headOf(node).height })
  return { times, audit, zoneless }
}

test('S14: a rewind from Chicago with the database in Kolkata cuts where one in UTC does', async () => {
  const far = await rewindIn('America/Chicago', 'Asia/Kolkata')
  const near = await rewindIn('UTC', 'UTC')
  expect(far.audit).toEqual({ from: 11, cut: 10, second: '1700000000' })
  expect(near.audit).toEqual(far.audit)
  const heights = Array.from({ length: 20 }, (_, index) => index + 1)
  expect(far.times).toEqual(heights.map((height) => ({ height, second: String(secondOf(height)) })))
  expect(near.times).toEqual(far.times)
  for (const { zoneless } of [far, near])
    expect(zoneless).toMatchObject({ code: 2, stderr: expect.stringContaining('names no time zone') })
})
