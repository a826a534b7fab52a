import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { vi } from 'vitest';
import type { Connection } from '../../deploy/quickstart/connection.ts';
import { projectRoot } from './command.ts';

export type RunningQuickstart = AsyncDisposable & {
  readonly connection: Connection;
  /** Calls the API as the tenant's owner. @throws with the answer where it is not a success. */
  readonly asOwner: <T>(method: string, path: string, body?: object) => Promise<T>;
  /** Calls the API with the tenant's live key. @throws as `asOwner` does. */
  readonly asTenant: <T>(method: string, path: string, body?: object) => Promise<T>;
};

const START_MS_MAX = 90_000;

/** Starts a separate quick start on free ports, which runs until it is disposed of. */
export async function runQuickstart(): Promise<RunningQuickstart> {
  await using stack = new AsyncDisposableStack();
  const state = await mkdtemp(join(tmpdir(), 'despatch-quickstart-'));
  stack.defer(() => rm(state, { recursive: true, force: true }));
  // Postgres may run as another user, which needs access to its data folder.
  await chmod(state, 0o755);
  const args = ['deploy/quickstart/main.ts', '--any-ports', '--state', state];
  const child = spawn(process.execPath, args, { cwd: projectRoot, env: { ...process.env, NO_COLOR: '1' } });
  const ended = once(child, 'close');
  stack.defer(async () => {
    child.kill('SIGINT');
    await ended;
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  await vi.waitFor(
    () => {
      if (!stdout.includes('Then try:')) throw new Error(`The quick start is not up: ${stderr}`);
    },
    { timeout: START_MS_MAX, interval: 50 },
  );
  const connection = JSON.parse(await readFile(join(state, 'quickstart.json'), 'utf8')) as Connection;
  const { baseUrl, adminToken, platformToken, tenantSlug, serviceKey } = connection;

  const callWith =
    (credential: Readonly<Record<string, string>>) =>
    async <T>(method: string, path: string, body?: object): Promise<T> => {
      const response = await fetch(baseUrl + path, {
        method,
        headers: { ...credential, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
      return (text === '' ? null : JSON.parse(text)) as T;
    };
  const asOwner = callWith({ authorization: `Bearer ${adminToken}`, 'x-tenant-slug': tenantSlug });
  // Tests make more requests per minute than the default limit allows.
  const { tenants } = await asOwner<{ tenants: { id: string; slug: string }[] }>('GET', '/v1/admin/me');
  const tenant = tenants.find(({ slug }) => slug === tenantSlug);
  const asPlatform = callWith({ authorization: `Bearer ${platformToken}` });
  await asPlatform('PATCH', `/v1/admin/tenants/${tenant?.id}`, { plan: 'enterprise' });
  const resources = stack.move();
  return {
    connection,
    asOwner,
    asTenant: callWith({ 'x-service-key': serviceKey }),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
