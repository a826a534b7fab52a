import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openKeptFile, requireSame } from './kept-file.ts';

test('a second run resumes from the last saved state of the first', async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'run', 'soak.json');
  const first = await openKeptFile(file, () => ({ slices: [1] }));
  await first.save();
  first.state.slices.push(2);
  await first.save();
  first.state.slices.push(3);
  const second = await openKeptFile(file, () => ({ slices: [0] }));
  expect(second.state).toEqual({ slices: [1, 2] });
});

test('without a file the state is kept in memory only', async () => {
  const kept = await openKeptFile(undefined, () => ({ slices: [1] }));
  await kept.save();
  expect(kept.state).toEqual({ slices: [1] });
});

test('a run with another option is refused, and the error names the option', () => {
  const kept = { minutes: 30, share: 70 };
  expect(() => requireSame('The soak', kept, { minutes: 30, share: 70 })).not.toThrow();
  expect(() => requireSame('The soak', kept, { minutes: 60, share: 70 })).toThrow(
    'The soak was begun with minutes 30: go on with the same, or in another folder',
  );
});

async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'despatch-kept-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
