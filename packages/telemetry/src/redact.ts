/** A URL for people and logs: scheme, host and port. Credentials, path and query may hold keys and are left out. */
export function redactUrl(url: string): string {
  try {
    const { protocol, host, pathname } = new URL(url)
    return `${protocol}//${host}${pathname.length > 1 ? '/…' : ''}`
  } catch {
    return '(not a URL)'
  }
}

const URLS = /\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>\\]+/gi

/** Every URL inside a text, redacted: error messages of libraries quote the address they failed on. */
export const redactText = (text: string): string => text.replace(URLS, (url) => redactUrl(url))
