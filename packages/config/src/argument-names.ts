/**
 * The keys of an event's arguments in `args`, in their order: its own name, or where it has none, or one that is
 * taken, its place (`"0"`). All differ, so that nothing is lost.
 */
export function argumentNames(parameters: readonly { readonly name?: string | undefined }[]): string[] {
  const taken = new Set<string>()
  return parameters.map(({ name }, index) => {
    let key = name === undefined || name === '' || taken.has(name) ? String(index) : name
    while (taken.has(key)) key += '_' // an ABI by hand may name one "1"
    taken.add(key)
    return key
  })
}
