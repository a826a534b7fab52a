import type { ChartValue } from './value-tree.ts';

/** Formats the values as Markdown: one table per heading, one row per value that may be set. */
export function valuesTable(values: readonly ChartValue[]): string {
  const lines: string[] = [];
  for (const value of values) {
    if (value.section !== undefined) {
      if (lines.length > 0) lines.push('');
      lines.push(`### ${value.section}`, '', '| value | default | description |', '|---|---|---|');
    }
    lines.push(...rowsOf(value));
  }
  return lines.join('\n');
}

function rowsOf(value: ChartValue): string[] {
  const { children } = value;
  // If no child has a description, the map's own description covers all of them in one row.
  const isOneRow = children === undefined || children.every((child) => child.description === '');
  if (isOneRow) return [row(value)];
  const own = value.description === '' ? [] : [`| \`${value.path}\` | | ${cell(value.description)} |`];
  return [...own, ...children.flatMap(rowsOf)];
}

function row({ path, default: preset, description }: ChartValue): string {
  return `| \`${path}\` | \`${cell(JSON.stringify(preset))}\` | ${cell(description)} |`;
}

function cell(text: string): string {
  return text.replaceAll('|', String.raw`\|`);
}
