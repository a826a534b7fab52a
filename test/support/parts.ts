import type { Tally } from './tally.ts';

/** A part of a test run with its duration. */
export type Part = { readonly name: string; readonly tally: Tally; readonly seconds: number };

export type FileTime = { readonly path: string; readonly seconds: number };

const SLOWEST = 10;

export async function runPart(name: string, work: () => Promise<Tally>): Promise<Part> {
  const started = performance.now();
  const tally = await work();
  return { name, tally, seconds: secondsSince(started) };
}

export function secondsSince(started: number): number {
  return (performance.now() - started) / 1_000;
}

/** Returns the times to print at the end of a run, so that a change that makes it slower is visible. */
export function timesOf(parts: readonly Part[], files: readonly FileTime[], seconds: number): string {
  const all = [...parts, { name: 'in all; parts run side by side', seconds }];
  const slowest = files.toSorted((one, other) => other.seconds - one.seconds).slice(0, SLOWEST);
  return [
    'time of each part',
    ...all.map((part) => lineOf(part.seconds, part.name)),
    ...(slowest.length === 0 ? [] : ['slowest test files']),
    ...slowest.map(({ seconds: took, path }) => lineOf(took, path)),
  ].join('\n');
}

function lineOf(seconds: number, name: string): string {
  return `${seconds.toFixed(1).padStart(7)} s  ${name}`;
}
