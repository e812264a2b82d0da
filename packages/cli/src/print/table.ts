/** Columns as wide as their widest cell; numbers (`right`) to the right. */
export function formatTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  right: ReadonlySet<number>,
): string {
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  )
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) =>
        right.has(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd()
  return [line(header), ...rows.map(line)].join('\n')
}

/** `—` where there is nothing to say. */
export const orDash = (value: string | number | null): string => (value === null ? '—' : String(value))

/** 95 → `1m35s`. */
export function formatSeconds(seconds: number | null): string {
  if (seconds === null) return '—'
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole}s`
  if (whole < 3600) return `${Math.floor(whole / 60)}m${whole % 60}s`
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h${Math.floor((whole % 3600) / 60)}m`
  return `${Math.floor(whole / 86_400)}d${Math.floor((whole % 86_400) / 3600)}h`
}
