import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { createLineSink } from './line-sink.ts';

test('the lines of one turn of the event loop are written together, in their order', async () => {
  const written: string[] = [];
  const sink = createLineSink((text) => written.push(text));
  sink.write('a\n');
  sink.write('b\n');
  expect(written).toEqual([]);
  await new Promise((resolve) => setImmediate(resolve));
  sink.write('c\n');
  await expect.poll(() => written).toEqual(['a\nb\n', 'c\n']);
});

test('a flush writes the pending lines, and no line twice', async () => {
  const written: string[] = [];
  const sink = createLineSink((text) => written.push(text));
  sink.write('a\n');
  sink.flush();
  sink.flush();
  await new Promise((resolve) => setImmediate(resolve));
  expect(written).toEqual(['a\n']);
});

test('pending lines are written at once if they take much memory', () => {
  const written: string[] = [];
  const sink = createLineSink((text) => written.push(text));
  for (let i = 0; i < 100; i++) sink.write(`${'x'.repeat(1_000)}\n`);
  expect(written.length).toBe(1);
});

test.each([
  ['ends', ''],
  ['exits', 'process.exit(0);'],
  ['fails', "throw new Error('no');"],
])('a process that %s has written all of its lines', (_, end) => {
  const url = (name: string): string => JSON.stringify(new URL(name, import.meta.url).href);
  const lines = Array.from({ length: 50 }, (_unused, i) => `line ${i} ${'x'.repeat(500)}\n`);
  const script = `import { createLineSink } from ${url('line-sink.ts')};
    import { standardOutput } from ${url('logger.ts')};
    const sink = createLineSink(standardOutput());
    for (const line of ${JSON.stringify(lines)}) sink.write(line);
    ${end}`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    encoding: 'utf8',
    cwd: import.meta.dirname,
  });
  expect(stdout).toBe(lines.join(''));
});
