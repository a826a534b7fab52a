import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestApi, type TestApi } from '../support/api.ts';
import { GENERATED_CLIENTS } from './generated-clients.ts';

/** Compilers of four ecosystems, possibly with an empty cache. */
const CLIENT_MS_MAX = 15 * 60_000;

const run = promisify(execFile);
let api: TestApi;
let origin: string;
let folder: string;
let document: string;

beforeAll(async () => {
  api = await startTestApi();
  origin = await api.first.app.listen({ port: 0, host: '127.0.0.1' });
  folder = await mkdtemp(join(tmpdir(), 'despatch-clients-'));
  document = join(folder, 'openapi.json');
  const served = (await (await fetch(`${origin}/v1/openapi.json`)).json()) as { servers: unknown };
  // Some clients read the server address only from the document.
  await writeFile(document, JSON.stringify({ ...served, servers: [{ url: origin }] }));
});

afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const RECIPIENTS = [
  ['sms', '+15550000001'],
  ['email', 'delivered@simulator.invalid'],
  ['push', 'delivered'],
  ['whatsapp', '+15550000001'],
] as const;

test.each(Object.entries(GENERATED_CLIENTS))(
  'a client made by %s sends and reads a message of every channel, lists them and knows an error',
  async (_name, generate) => {
    const own = await mkdtemp(join(folder, 'client-'));
    const program = await generate(document, own);
    const { tenantId } = await api.tenant();
    const key = await api.key(tenantId, { mode: 'test' });
    const [command = '', ...args] = program.command;
    const { stdout } = await run(command, args, {
      cwd: program.folder,
      env: { ...process.env, DESPATCH_URL: origin, DESPATCH_KEY: key.text, ...program.environment },
    });
    const now = Date.now() / 1_000;
    const said = JSON.parse(stdout) as { messages: { enqueuedAt: number; recordedAt: number }[] };
    expect(said).toEqual({
      messages: RECIPIENTS.map(([channel, to]) => ({
        channel,
        to,
        status: 'queued',
        test: true,
        isSame: true,
        finality: 'pending',
        enqueuedAt: expect.any(Number) as unknown,
        recordedAt: expect.any(Number) as unknown,
      })),
      listed: 2,
      hasMore: true,
      error: { statusCode: 400, code: 'validation_failed', field: 'to' },
    });
    for (const { enqueuedAt, recordedAt } of said.messages) {
      expect(recordedAt).toBeCloseTo(enqueuedAt, 2);
      expect(Math.abs(now - enqueuedAt)).toBeLessThan(600);
    }
  },
  CLIENT_MS_MAX,
);
