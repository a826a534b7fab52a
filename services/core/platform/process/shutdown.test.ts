import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { createLogger, silentLogger } from '../telemetry/logger.ts';
import { drain } from './shutdown.ts';

/** Runs a process that watches for its end and does `work`; returns how it ended. */
async function run(
  work: string,
  act?: (kill: (signal: NodeJS.Signals) => void, text: () => string, closeLog: () => void) => Promise<void>,
) {
  const script = `
    import { watchForEnd } from '${new URL('shutdown.ts', import.meta.url).href}';
    const log = { info: (...a) => console.log('info', a.at(-1)), error: (f, m) => console.log('error', m, f.err.message) };
    using watch = watchForEnd(log);
    const alive = setInterval(() => {}, 1000);
    console.log('started', watch.isEnding());
    ${work}
    const ending = await watch.ended;
    console.log('ended', ending.kind, ending.signal ?? '', watch.isEnding());
    if (${work.includes('SLOW')}) await new Promise((resolve) => setTimeout(resolve, 300));
    if (${work.includes('HANG')}) await new Promise(() => {});
    clearInterval(alive);
  `;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => void (text += chunk.toString()));
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  try {
    await expect.poll(() => text).toContain('started false');
    await act?.(
      (signal) => void child.kill(signal),
      () => text,
      () => void child.stdout.destroy(),
    );
    const [code, signal] = await exited;
    return { code, signal, text };
  } finally {
    // A process that survived a failed test would keep the output of the test run open.
    child.kill('SIGKILL');
  }
}

test.each<NodeJS.Signals>(['SIGTERM', 'SIGINT'])(
  '%s ends the process gracefully with exit code 0',
  async (signal) => {
    const ended = await run('', async (kill) => kill(signal));
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(ended.text).toContain(`ended signal ${signal} true`);
  },
);

test.each([
  ['an exception', "setTimeout(() => { throw new Error('boom'); }, 1);"],
  ['a rejection', "setTimeout(() => void Promise.reject(new Error('boom')), 1);"],
])('%s that is not caught is logged and ends the process gracefully with exit code 1', async (_, work) => {
  const ended = await run(work);
  expect(ended).toMatchObject({ code: 1, signal: null });
  expect(ended.text).toContain('error Ending on an exception that nobody caught boom');
  expect(ended.text).toContain('ended fault  true');
});

test('a second signal kills a process that hangs during shutdown', async () => {
  const ended = await run('/* HANG */', async (kill, text) => {
    kill('SIGTERM');
    await expect.poll(text).toContain('ended signal');
    kill('SIGTERM');
  });
  expect(ended).toMatchObject({ code: null, signal: 'SIGTERM' });
});

test('a process with a closed log output still ends by itself, with exit code 1', async () => {
  const ended = await run('/* SLOW */', async (kill, _text, closeLog) => {
    closeLog();
    kill('SIGTERM');
  });
  // Each failed write of the log is a fault.
  expect(ended).toMatchObject({ code: 1, signal: null });
});

test('draining waits for the work', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const drained = drain('calls', promise, 10_000, silentLogger);
  resolve();
  expect(await drained).toBe(true);
});

test('draining ends at its deadline and logs the unfinished part', async () => {
  const lines: string[] = [];
  const log = createLogger({
    level: 'info',
    component: 'test',
    destination: { write: (line) => void lines.push(line) },
  });
  expect(await drain('calls', new Promise(() => undefined), 20, log)).toBe(false);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 'warn', part: 'calls', deadlineMs: 20 });
});

test('work that fails while it is drained ends the draining and is logged', async () => {
  const lines: string[] = [];
  const log = createLogger({
    level: 'info',
    component: 'test',
    destination: { write: (line) => void lines.push(line) },
  });
  expect(await drain('calls', Promise.reject(new Error('no')), 10_000, log)).toBe(true);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 'error', part: 'calls' });
});
