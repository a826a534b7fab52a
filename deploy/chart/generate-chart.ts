import { readFile } from 'node:fs/promises';
import { planLimitsSchema } from './plan-limits-schema.ts';
import { readValueTree } from './value-tree.ts';
import { valuesSchema } from './values-schema.ts';
import { valuesTable } from './values-table.ts';

const BEGIN = '<!-- values: written by `npm run gen` from values.yaml -->';
const END = '<!-- end of values -->';

export type ChartFiles = {
  /** Text of `values.schema.json`. */
  readonly schema: string;
  /** Text of `README.md`, with its hand-written parts unchanged. */
  readonly readme: string;
};

/**
 * Generates the files that are derived from the chart's `values.yaml`. `chart` is the chart's folder, with a trailing
 * slash.
 */
export async function generateChart(chart: URL): Promise<ChartFiles> {
  const read = (file: string): Promise<string> => readFile(new URL(file, chart), 'utf8');
  const values = readValueTree(await read('values.yaml'));
  const definitions = { planLimits: planLimitsSchema() };
  return {
    schema: `${JSON.stringify(valuesSchema(values, definitions), null, 2)}\n`,
    readme: replaceBetween(await read('README.md'), `\n\n${valuesTable(values)}\n\n`),
  };
}

function replaceBetween(text: string, inner: string): string {
  const [from, to] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (from === -1 || to === -1) throw new Error(`The chart's README lacks the lines ${BEGIN} and ${END}`);
  return text.slice(0, from + BEGIN.length) + inner + text.slice(to);
}
