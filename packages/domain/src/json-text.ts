/** As JSON, for people and for judging by words. A node may send what is nested deeper than JSON.stringify goes. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value)
  } catch (error) {
    if (error instanceof RangeError) return '(nested too deeply to be shown)'
    throw error
  }
}
