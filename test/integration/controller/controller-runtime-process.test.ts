import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { projectRoot } from '#test/support/command.ts';
import { adminKubeconfig } from '#test/support/kube-gate.ts';
import { startKubeApiServer, type KubeApiServer } from '#test/support/kube-apiserver.ts';
import { startTcpProxy } from '#test/support/tcp-proxy.ts';
import { startChild, untilReady, type Child } from '../../../deploy/servers/child.ts';
import { freePort } from '../../../deploy/servers/ports.ts';

let server: KubeApiServer;
let folder: string;
let namespace: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'despatch-runtime-'));
  server = await startKubeApiServer();
});

afterAll(async () => {
  await server?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

type Runtime = AsyncDisposable & {
  readonly name: string;
  readonly child: Child;
  readonly log: () => Promise<string>;
  readonly leads: () => Promise<boolean>;
};

/** Starts a controller in a process of its own and waits until its caches are filled. */
async function start(
  name: string,
  { kubeconfig = server.kubeconfigPath, leaseMs = 6_000 } = {},
): Promise<Runtime> {
  const port = await freePort();
  const logFile = join(folder, `${name}-${port}.log`);
  const child = await startChild({
    command: process.execPath,
    args: [join('test', 'support', 'runtime-main.ts')],
    cwd: projectRoot,
    logFile,
    env: {
      PATH: process.env['PATH'],
      KUBECONFIG: kubeconfig,
      NAMESPACE: namespace,
      NAME: name,
      PORT: String(port),
      LEASE_MS: String(leaseMs),
    },
  });
  const origin = `http://127.0.0.1:${port}`;
  const isReady = () =>
    fetch(`${origin}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await untilReady(child, { name, logFile, isReady });
  return {
    name,
    child,
    log: () => readFile(logFile, 'utf8'),
    leads: async () =>
      /^leader_election_master_status.* 1$/m.test(await (await fetch(`${origin}/metrics`)).text()),
    async [Symbol.asyncDispose]() {
      // A stopped process (SIGSTOP) reacts to SIGKILL only.
      await child.stop('SIGKILL');
    },
  };
}

async function leader(name: string, options?: Parameters<typeof start>[1]): Promise<Runtime> {
  const one = await start(name, options);
  await expect.poll(one.leads).toBe(true);
  return one;
}

type Data = { readonly begun?: string; readonly ended?: string };

const configPath = (name = ''): string => `/api/v1/namespaces/${namespace}/configmaps/${name}`;
const leasePath = () => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/runtime`;
const merge = { contentType: 'application/merge-patch+json' };
const read = async (name: string): Promise<Data> =>
  (await server.request('GET', configPath(name))).body.data ?? {};
const holder = async (): Promise<string> =>
  (await server.request('GET', leasePath())).body.spec.holderIdentity;
const steal = () => server.request('PATCH', leasePath(), { spec: { holderIdentity: 'thief' } }, merge);
const go = (name: string) => server.request('PATCH', configPath(name), { data: { go: 'yes' } }, merge);

/** Creates an object whose pass has begun and waits to continue. */
async function begun(by: Runtime): Promise<string> {
  const name = `c-${randomUUID().slice(0, 8)}`;
  await server.request('POST', configPath(), { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } });
  await expect.poll(() => read(name)).toEqual({ begun: by.name });
  return name;
}

test('on SIGTERM a leader finishes its pass and releases the lease; a standby leads at once', async () => {
  namespace = await server.createNamespace();
  // So long that a released lease differs clearly from an expired one, on any machine.
  const leaseMs = 30_000;
  await using first = await leader('first', { leaseMs });
  await using second = await start('second', { leaseMs });
  const name = await begun(first);
  process.kill(first.child.pid, 'SIGTERM');
  await expect.poll(first.log).toContain('Ending on a signal');
  // No process begins a new pass, because the first one still holds the lease.
  const late = `late-${name}`;
  await server.request('POST', configPath(), {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: late },
  });
  expect(await holder()).toMatch(/^first_/);
  await go(name);
  expect(await first.child.exited).toBe('exit code 0');
  expect(await read(name)).toMatchObject({ ended: 'first' });
  expect(await first.log()).toContain('Gave up the lease');
  const endedAt = performance.now();
  await expect.poll(second.leads, { interval: 20 }).toBe(true);
  expect(performance.now() - endedAt).toBeLessThan(leaseMs / 2);
  await expect.poll(() => read(late)).toMatchObject({ begun: 'second' });
});

test('a leader whose lease is stolen during a pass exits at once and writes nothing more', async () => {
  namespace = await server.createNamespace();
  await using first = await leader('first');
  const name = await begun(first);
  await steal();
  expect(await first.child.exited).toBe('exit code 1');
  await go(name);
  expect(await read(name)).not.toHaveProperty('ended');
  expect(await holder()).toBe('thief');
  expect(await first.log()).toContain('Lost the lease, and so exited');
});

test('a leader paused for longer than its lease exits when it resumes, without writing', async () => {
  namespace = await server.createNamespace();
  await using first = await leader('first');
  await using second = await start('second');
  const name = await begun(first);
  process.kill(first.child.pid, 'SIGSTOP');
  await expect.poll(second.leads).toBe(true);
  await expect.poll(() => read(name)).toMatchObject({ begun: 'second' });
  await go(name);
  const done = { begun: 'second', go: 'yes', ended: 'second' };
  await expect.poll(() => read(name)).toEqual(done);
  // The condition it waited for holds now, so it would write if it continued.
  process.kill(first.child.pid, 'SIGCONT');
  expect(await first.child.exited).toBe('exit code 1');
  expect(await read(name)).toEqual(done);
});

test('a leader that loses the API server exits before a standby starts to lead', async () => {
  namespace = await server.createNamespace();
  await using proxy = await startTcpProxy(Number(new URL(server.url).port));
  await using first = await leader('first', {
    kubeconfig: adminKubeconfig(server.access, `https://127.0.0.1:${proxy.port}`),
  });
  await using second = await start('second');
  const name = await begun(first);
  proxy.freeze();
  await expect.poll(second.leads, { interval: 20 }).toBe(true);
  expect(first.child.endedWith()).toBe('exit code 1');
  proxy.thaw();
  await expect.poll(() => read(name)).toMatchObject({ begun: 'second' });
});

test('after a restart, only an object that was re-created meanwhile is reconciled again', async () => {
  namespace = await server.createNamespace();
  const first = await leader('first');
  const [name, done] = [await begun(first), await begun(first)];
  await go(done);
  await expect.poll(() => read(done)).toMatchObject({ ended: 'first' });
  await first.child.stop('SIGKILL');
  await server.request('DELETE', configPath(name));
  await server.request('POST', configPath(), { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } });
  await using second = await leader('second');
  await expect.poll(() => read(name)).toEqual({ begun: 'second' });
  expect(await read(done)).toMatchObject({ begun: 'first', ended: 'first' });
  expect(await second.log()).not.toContain('Could not');
});
