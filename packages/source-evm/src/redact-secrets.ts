import { redactText } from '@lockstep/telemetry'

const SECRET_CHARS_MIN = 8 // shorter parts of a path are words such as "v3" or "mainnet"

/**
 * For texts that come from the node at `url`: addresses are cut to their host, and wherever a part of the path, a
 * query value or a password shows up alone ("invalid project id 3fa9…") it is left out too.
 */
export function redactSecretsOf(url: string): (text: string) => string {
  const secrets = secretsOf(url)
  return (text) => secrets.reduce((rest, secret) => rest.replaceAll(secret, '…'), redactText(text))
}

function secretsOf(url: string): string[] {
  if (!URL.canParse(url)) return []
  const { username, password, pathname, searchParams } = new URL(url)
  const parts = [username, password, ...pathname.split('/'), ...searchParams.values()]
  return [...new Set([...parts, ...parts.map(decode)])].filter((part) => part.length >= SECRET_CHARS_MIN)
}

/** A node may quote a key as it was meant rather than as it stands in the address. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
