import { describe, expect, test } from 'vitest'
import { redactText, redactUrl } from './redact.js'

describe('redactUrl', () => {
  test.each([
    ['https://node.example', 'https://node.example'],
    ['https://node.example/', 'https://node.example'],
    ['https://node.example:8545/v3/s3cret', 'https://node.example:8545/…'],
    ['https://node.example?key=s3cret', 'https://node.example/…'],
    ['https://s3cret@node.example', 'https://node.example'],
    ['postgres://me:s3cret@host/db', 'postgres://host/…'],
    ['postgres://me:s3cret%23@[::1]:5433/db?sslpassword=s3cret', 'postgres://[::1]:5433/…'],
    ['postgres:///db?host=/run', 'postgres:///…'],
    ['postgres://me:12#s3cret@host/db', 'postgres://…'],
    ['postgres://me:12/s3cret@host/db', 'postgres://…'],
    ['me:s3cret', 'me:///…'],
    ['s3cret', '(not a URL)'],
    ['', '(not a URL)'],
  ])('%s', (url, shown) => expect(redactUrl(url)).toBe(shown))
})

describe('redactText', () => {
  test.each([
    ['connect to postgres://me:s3cret@host:5432/db failed', 'connect to postgres://host:5432/… failed'],
    ["fetch 'https://h/s3cret', then http://h2.", "fetch 'https://h/…', then http://h2."],
    ['{"url":"wss://me:s3cret@h/s3cret","n":1}', '{"url":"wss://h/…","n":1}'],
    ["at postgres://me:s3c'ret@h/db now", 'at postgres://h/… now'],
    ['HTTPS://H/S3CRET', 'https://h/…'],
    ['no address: a/b c:d @e', 'no address: a/b c:d @e'],
  ])('%s', (text, shown) => expect(redactText(text)).toBe(shown))
})
