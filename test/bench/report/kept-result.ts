import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { projectRoot } from '../../support/command.ts';
import type { BenchResult } from './result.ts';

/** Format version of the file; other versions are ignored. */
const FORMAT = 3;
const FILE = join(projectRoot, '.despatch', 'bench.json');

/** Returns the last results on this machine; undefined where there are none. */
export async function lastResult(): Promise<BenchResult | undefined> {
  const text = await readFile(FILE, 'utf8').catch(() => null);
  if (text === null) return undefined;
  const { format, result } = JSON.parse(text) as { format?: number; result: BenchResult };
  return format === FORMAT ? result : undefined;
}

export async function keepResult(result: BenchResult): Promise<void> {
  await mkdir(dirname(FILE), { recursive: true });
  await writeFile(FILE, `${JSON.stringify({ format: FORMAT, result })}\n`);
}
