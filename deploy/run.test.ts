import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

const FAKE_NPM = `#!/bin/sh
echo "$@" >> npm-calls
[ -f npm-fails ] && { echo "no network" >&2; exit 7; }
mkdir -p node_modules && cp package-lock.json node_modules/.package-lock.json
`;
const PRINT_ARGS = 'process.stdout.write(JSON.stringify(process.argv.slice(2))); process.exitCode = 3;';

type Clone = AsyncDisposable & {
  readonly path: string;
  start(args: readonly string[], env?: Record<string, string>): ChildProcessByStdio<null, Readable, Readable>;
  run(
    args: readonly string[],
    env?: Record<string, string>,
  ): Promise<{ code: unknown; stdout: string; stderr: string }>;
  npmCalls(): Promise<string[]>;
  lock(version: string): Promise<void>;
};

/** Creates a project with one script, whose `npm` only records that it was called. */
async function freshClone(): Promise<Clone> {
  const path = await mkdtemp(join(tmpdir(), 'despatch-run-'));
  await mkdir(join(path, 'deploy'));
  await mkdir(join(path, 'bin'));
  await cp(new URL('run.mjs', import.meta.url), join(path, 'deploy', 'run.mjs'));
  await writeFile(join(path, 'bin', 'npm'), FAKE_NPM, { mode: 0o755 });
  await writeFile(join(path, 'script.mjs'), PRINT_ARGS);
  const start: Clone['start'] = (args, env = {}) =>
    spawn(process.execPath, ['deploy/run.mjs', ...args], {
      cwd: path,
      env: { ...env, PATH: `${join(path, 'bin')}:/usr/bin:/bin` },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  const clone: Clone = {
    path,
    start,
    async run(args, env) {
      const child = start(args, env);
      const [[code], stdout, stderr] = await Promise.all([
        once(child, 'close'),
        text(child.stdout),
        text(child.stderr),
      ]);
      return { code, stdout, stderr };
    },
    npmCalls: async () =>
      (await readFile(join(path, 'npm-calls'), 'utf8').catch(() => '')).split('\n').filter(Boolean),
    lock: (version) =>
      writeFile(
        join(path, 'package-lock.json'),
        JSON.stringify({ packages: { '': { version: '1.0.0' }, 'node_modules/a': { version } } }),
      ),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
  await clone.lock('1.0.0');
  return clone;
}

test('a fresh clone installs once, with the development tools, and then runs the script', async () => {
  await using clone = await freshClone();
  const first = await clone.run(['script.mjs', '--once', 'two words'], { NODE_ENV: 'production' });
  expect(first).toMatchObject({ code: 3, stdout: '["--once","two words"]' });
  expect(first.stderr).toContain('Installing dependencies');
  const second = await clone.run(['script.mjs']);
  expect(second).toMatchObject({ code: 3, stdout: '[]', stderr: '' });
  expect(await clone.npmCalls()).toEqual([expect.stringContaining('ci --include=dev')]);
});

test('a changed lock file installs again', async () => {
  await using clone = await freshClone();
  await clone.run(['script.mjs']);
  await clone.lock('1.0.1');
  await clone.run(['script.mjs']);
  expect(await clone.npmCalls()).toHaveLength(2);
});

test('an optional package that npm left out does not install again', async () => {
  await using clone = await freshClone();
  await clone.run(['script.mjs']);
  await writeFile(
    join(clone.path, 'package-lock.json'),
    JSON.stringify({
      packages: {
        'node_modules/a': { version: '1.0.0' },
        'node_modules/other-system': { version: '1.0.0', optional: true },
      },
    }),
  );
  await clone.run(['script.mjs']);
  expect(await clone.npmCalls()).toHaveLength(1);
});

test('a failed installation shows the output of npm and runs nothing', async () => {
  await using clone = await freshClone();
  await writeFile(join(clone.path, 'npm-fails'), '');
  const { code, stdout, stderr } = await clone.run(['script.mjs']);
  expect(code).toBe(1);
  expect(stdout).toBe('');
  expect(stderr).toContain('no network');
  expect(stderr).toContain('npm ci failed with exit code 7');
});

test('the pinned Node of the dependencies runs the script', async () => {
  await using clone = await freshClone();
  await mkdir(join(clone.path, 'node_modules', 'node', 'bin'), { recursive: true });
  await writeFile(join(clone.path, 'node_modules', 'node', 'bin', 'node'), '#!/bin/sh\necho "pinned $@"\n', {
    mode: 0o755,
  });
  const script = join(clone.path, 'script.mjs');
  expect(await clone.run(['script.mjs', 'x'])).toMatchObject({ code: 0, stdout: `pinned ${script} x\n` });
});

test("called from another folder it runs the project's script in that folder", async () => {
  await using clone = await freshClone();
  await writeFile(join(clone.path, 'where.mjs'), 'process.stdout.write(process.cwd());');
  const elsewhere = await realpath(join(clone.path, 'deploy'));
  const child = spawn(process.execPath, ['run.mjs', 'where.mjs'], {
    cwd: elsewhere,
    env: { PATH: `${join(clone.path, 'bin')}:/usr/bin:/bin` },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  expect(await text(child.stdout)).toBe(elsewhere);
});

test('a signal is forwarded to the script, and its exit code is returned', async () => {
  await using clone = await freshClone();
  await writeFile(
    join(clone.path, 'wait.mjs'),
    'process.on("SIGTERM", () => process.exit(42)); setInterval(() => {}, 1000); console.log("ready");',
  );
  const child = clone.start(['wait.mjs']);
  const closed = once(child, 'close');
  await once(child.stdout, 'data');
  child.kill('SIGTERM');
  expect(await closed).toEqual([42, null]);
});
