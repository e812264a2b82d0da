/** A URL for people and logs: scheme, host and port. Credentials, path and query may hold keys and are left out. */
export function redactUrl(url: string): string {
  if (!URL.canParse(url)) return '(not a URL)'
  const { protocol, host, pathname, search, username, password } = new URL(url)
  // A `#` or `/` in a password that was not encoded ends the host early: what then looks like a host is the user.
  const strayed = url.includes('@') && username === '' && password === ''
  if (strayed) return `${protocol}//…`
  return `${protocol}//${host}${pathname.length > 1 || search !== '' ? '/…' : ''}`
}

// A quotation mark ends a URL, save in front of an @: passwords may hold an apostrophe.
const URLS = /\b[a-z][a-z0-9+.-]*:\/\/(?:[^\s"<>\\]*@)?[^\s"'<>\\]*/gi

/** Every URL inside a text, redacted: error messages of libraries quote the address they failed on. */
export const redactText = (text: string): string => text.replace(URLS, (url) => redactUrl(url))
