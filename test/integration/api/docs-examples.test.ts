import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call } from '#test/support/http-call.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';
import { EXAMPLE_LANGUAGES } from '../../../services/api/docs/examples.ts';

const EXAMPLES = fileURLToPath(new URL('../../../services/api/docs/examples', import.meta.url));
const run = promisify(execFile);

/** The command that runs an example of each language, and a probe whether it is installed. */
const RUNNERS: Readonly<Record<string, { command: readonly string[]; probe: readonly string[] }>> = {
  sh: { command: ['bash', '-eu'], probe: ['curl', '--version'] },
  mjs: { command: [process.execPath], probe: [process.execPath, '--version'] },
  py: { command: ['python3'], probe: ['python3', '--version'] },
  go: { command: ['go', 'run'], probe: ['go', 'version'] },
};

let stack: ServiceStack;
let tenant: StackTenant;
let testKey: string;
let folder: string;

beforeAll(async () => {
  stack = await startServiceStack();
  tenant = await stack.tenant([]);
  folder = await mkdtemp(join(tmpdir(), 'despatch-examples-'));
  const { body } = await call(stack.apis[0].origin, 'POST', '/v1/admin/api-keys', {
    token: tenant.token,
    slug: tenant.slug,
    body: { name: 'examples', mode: 'test' },
  });
  testKey = (body as { key: string }).key;
});

afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

async function isThere([program = '', ...args]: readonly string[]): Promise<boolean> {
  return run(program, args).then(
    () => true,
    () => false,
  );
}

/** Runs an example as its reader would. @returns its output. */
async function runExample(name: string, extension: string, more: Record<string, string> = {}) {
  const [program = '', ...args] = RUNNERS[extension]?.command ?? [];
  const { stdout } = await run(program, [...args, join(EXAMPLES, `${name}.${extension}`)], {
    cwd: folder,
    env: {
      ...process.env,
      DESPATCH_URL: stack.apis[0].origin,
      DESPATCH_KEY: testKey,
      DESPATCH_TOKEN: tenant.token,
      DESPATCH_TENANT: tenant.slug,
      ...more,
    },
  });
  return stdout.trim();
}

/** Passes requests on, but not the answer on the first connection, and only the beginning of the one on the second. */
async function startLosingProxy(origin: string) {
  const { hostname, port } = new URL(origin);
  let connections = 0;
  const server = createServer((client) => {
    connections += 1;
    const nth = connections;
    const upstream = connect(Number(port), hostname);
    const end = () => void (client.destroy(), upstream.destroy());
    client.on('error', end).on('close', end);
    upstream.on('error', end).on('close', end);
    client.pipe(upstream);
    if (nth > 2) upstream.pipe(client);
    else upstream.once('data', (answer: Buffer) => (nth === 1 ? end() : client.end(answer.subarray(0, -5))));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      server.close();
    },
  };
}

/** Refuses each send until the next day, and answers the first page of a list but not the second one. */
async function startRefusingApi() {
  let sends = 0;
  const server = createHttpServer((request, response) => {
    request.resume();
    const isSend = request.method === 'POST';
    if (isSend) sends += 1;
    const isPage = !isSend && !request.url?.includes('cursor=');
    const status = isSend ? 429 : isPage ? 200 : 500;
    response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '86400' });
    const code = isSend ? 'daily_limit_reached' : 'internal_error';
    response.end(
      JSON.stringify(
        isPage
          ? { items: [{ id: 'first', status: 'delivered' }], nextCursor: 'next' }
          : { statusCode: status, code, message: code },
      ),
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sends: () => sends,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe.each(EXAMPLE_LANGUAGES)('the examples in $label', ({ extension }) => {
  test('send a message, follow it, repeat a request safely, read pages and store an account', async (context) => {
    const probe = RUNNERS[extension]?.probe ?? [];
    context.skip(!(await isThere(probe)), `${probe[0]} is not installed`);

    // The examples share their idempotency keys, so every example after the first gets the stored answer.
    const sent = JSON.parse(await runExample('send-message', extension)) as { id: string; status: string };
    expect(sent).toMatchObject({ status: 'queued', channel: 'sms', to: '+15550000001' });

    const record = await runExample('get-message', extension, { MESSAGE_ID: sent.id });
    expect(JSON.parse(record)).toMatchObject({ id: sent.id, status: 'delivered', finality: 'final' });

    await using losing = await startLosingProxy(stack.apis[0].origin);
    const lost = { DESPATCH_URL: losing.origin };
    const invoice = JSON.parse(await runExample('retry-safely', extension, lost)) as { id: string };
    expect(losing.connections()).toBeGreaterThan(2);
    expect(JSON.parse(await runExample('retry-safely', extension))).toEqual(invoice);

    expect(await runExample('list-messages', extension)).toContain(sent.id);

    const account = JSON.parse(await runExample('create-provider', extension)) as object;
    expect(account).toMatchObject({ provider: 'twilio', channel: 'sms', status: 'unverified' });
  }, 300_000);

  test('report a refusal that lasts until the next day without a retry, and a page that could not be read', async (context) => {
    const probe = RUNNERS[extension]?.probe ?? [];
    context.skip(!(await isThere(probe)), `${probe[0]} is not installed`);

    await using refusing = await startRefusingApi();
    const refused = { DESPATCH_URL: refusing.origin };
    await expect(runExample('retry-safely', extension, refused)).rejects.toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/429.*daily_limit_reached/),
    });
    expect(refusing.sends()).toBe(1);
    await expect(runExample('list-messages', extension, refused)).rejects.toMatchObject({
      code: 1,
      stdout: expect.stringContaining('first'),
      stderr: expect.stringContaining('500'),
    });
  }, 300_000);
});
