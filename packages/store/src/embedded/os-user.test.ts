import { chmod, chown, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { canEnter, type OsUser, serverUser, weAreRoot } from './os-user.js'

const stranger: OsUser = { name: 'stranger', uid: 54_321, gid: 54_321 }
let top: string
let inner: string

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), 'lockstep-enter-'))
  inner = join(top, 'inner')
  await mkdir(inner)
  await chmod(top, 0o755)
  await chmod(inner, 0o755)
})
afterEach(() => rm(top, { recursive: true }))

test('another user enters where every folder on the way lets it', async () => {
  expect(await canEnter(inner, stranger)).toBe(true)
  await chmod(top, 0o700)
  expect(await canEnter(inner, stranger)).toBe(false)
})

test('by the folder that a link leads to', async () => {
  await symlink(inner, join(top, 'link'))
  await chmod(inner, 0o700)
  expect(await canEnter(join(top, 'link'), stranger)).toBe(false)
})

test('entering, reading and writing are three things', async () => {
  await chmod(inner, 0o711)
  expect(await canEnter(inner, stranger)).toBe(true)
  expect(await canEnter(inner, stranger, { read: true })).toBe(false)
  expect(await canEnter(inner, stranger, { write: true })).toBe(false)
  expect(await canEnter(inner, null, { write: true })).toBe(true)
})

test('a folder that is not there cannot be entered', async () => {
  expect(await canEnter(join(top, 'nowhere'), stranger)).toBe(false)
  expect(await canEnter(join(top, 'nowhere'), null)).toBe(false)
})

describe.runIf(weAreRoot())('as root', () => {
  test('the owner and its group are judged by their own bits, also where others may more', async () => {
    await chown(inner, stranger.uid, 0)
    await chmod(inner, 0o077)
    expect(await canEnter(inner, stranger)).toBe(false)
    await chown(inner, 0, stranger.gid)
    await chmod(inner, 0o707)
    expect(await canEnter(inner, stranger)).toBe(false)
    await chmod(inner, 0o710)
    expect(await canEnter(inner, stranger)).toBe(true)
  })

  test('the server runs as the owner of the data, else as an account that is no root', async () => {
    await chown(inner, stranger.uid, stranger.gid)
    expect(await serverUser(inner)).toMatchObject({ uid: stranger.uid, gid: stranger.gid })
    expect((await serverUser(join(top, 'nowhere')))?.uid).toBeGreaterThan(0)
  })
})

test.runIf(!weAreRoot())('an ordinary user runs the server itself', async () => {
  expect(await serverUser(inner)).toBeNull()
})
