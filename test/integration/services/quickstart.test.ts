import { spawn, type ChildProcess } from 'node:child_process';
import { on, once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { MINUTE_MS } from '#core/domain/text/duration.ts';
import { runProgram } from '../../../deploy/servers/run-program.ts';
import type { Connection } from '../../../deploy/quickstart/connection.ts';
import { chooseFormatter, credentialLines, curlLines } from '../../../deploy/quickstart/guide.ts';
import { eventOf } from '../../../deploy/quickstart/received-event.ts';
import type { ReceivedWebhook } from '../../../deploy/quickstart/webhook-receiver.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { projectRoot } from '#test/support/command.ts';

async function stateFolder() {
  const path = await mkdtemp(join(tmpdir(), 'despatch-quickstart-'));
  // Postgres may run as another user, who must reach the data folder.
  await chmod(path, 0o755);
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

type Run = { readonly child: ChildProcess; readonly stdout: () => string; readonly stderr: () => string };

function start(...args: string[]): Run {
  const child = spawn(process.execPath, ['deploy/quickstart/main.ts', '--any-ports', ...args], {
    cwd: projectRoot,
    env: { ...process.env, NO_COLOR: '1' },
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  return { child, stdout: () => stdout, stderr: () => stderr };
}

async function runOnce(
  state: string,
  ...args: string[]
): Promise<{ code: number | null } & Omit<Run, 'child'>> {
  const { child, ...output } = start('--once', '--state', state, ...args);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...output };
}

async function untilPrinted({ child, stdout, stderr }: Run, text: string): Promise<void> {
  if (child.stdout === null) throw new Error('no standard output');
  for await (const _ of on(child.stdout, 'data', { close: ['end'] })) if (stdout().includes(text)) return;
  throw new Error(`ended without printing ${text}: ${stderr()}`);
}

function expectSuccess({ code, stderr }: Awaited<ReturnType<typeof runOnce>>): void {
  // Compares both at once, so that a failure shows the program's output.
  expect({ code, stderr: stderr() }).toEqual({ code: 0, stderr: expect.any(String) });
}

async function readConnection(state: string): Promise<Connection> {
  return JSON.parse(await readFile(join(state, 'quickstart.json'), 'utf8')) as Connection;
}

function urlsOf({ baseUrl, metricsUrls, inboxUrl, webhookReceiverUrl, providerUrls }: Connection): string[] {
  const { api, worker } = metricsUrls;
  return [baseUrl, api, worker, inboxUrl, webhookReceiverUrl, ...Object.values(providerUrls)];
}

async function expectNothingLeft(state: string): Promise<void> {
  for (const url of urlsOf(await readConnection(state)))
    await expect(fetch(url)).rejects.toThrow('fetch failed');
  // The servers' command lines contain their folder.
  const processes = await runProgram('ps', ['-A', '-o', 'args=']);
  expect(processes.split('\n').filter((line) => line.includes(state))).toEqual([]);
}

/** FCM sends no delivery reports. */
const CHANNEL_LINES = [
  ['sms', 'delivered +\\d+ ms +\\d+ ms  3 of 3, verified'],
  ['email', 'delivered +\\d+ ms +\\d+ ms  3 of 3, verified'],
  ['push', 'sent +\\d+ ms +-  2 of 2, verified +its provider reports no deliveries'],
  ['whatsapp', 'delivered +\\d+ ms +\\d+ ms  3 of 3, verified'],
  [
    'sms',
    'delivered +\\d+ ms +\\d+ ms  4 of 4, verified +Twilio \\(stand-in\\) failed: provider_unavailable, Plivo \\(stand-in\\) chosen: next_in_route',
  ],
].map(([channel, rest]) => expect.stringMatching(new RegExp(`^[0-9a-f-]{36}  ${channel} +${rest}$`)));

test(
  '--once delivers on four channels, fails over to a second provider, and leaves no process running',
  { timeout: 5 * MINUTE_MS },
  async () => {
    await using state = await stateFolder();
    const first = await runOnce(state.path);
    expectSuccess(first);
    expect(first.stdout().split('\n')).toEqual(expect.arrayContaining(CHANNEL_LINES));
    const connection = await readConnection(state.path);
    expect(connection).toEqual({
      baseUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      metricsUrls: { api: expect.stringMatching(/\/metrics$/), worker: expect.stringMatching(/\/metrics$/) },
      tenantSlug: 'acme',
      serviceKey: expect.stringMatching(/^dsp_live_/),
      testKey: expect.stringMatching(/^dsp_test_/),
      adminToken: expect.stringMatching(/^ey/),
      platformToken: expect.stringMatching(/^ey/),
      viewerToken: expect.stringMatching(/^ey/),
      otherTenant: {
        slug: 'globex',
        serviceKey: expect.stringMatching(/^dsp_live_/),
        adminToken: expect.stringMatching(/^ey/),
      },
      inboxUrl: expect.any(String),
      providerUrls: Object.fromEntries(
        [...PROVIDERS.keys()].map((id) => [id, expect.stringMatching(/^http:/)]),
      ),
      webhookReceiverUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
    } satisfies Record<keyof Connection, unknown>);
    expect((await stat(join(state.path, 'quickstart.json'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(state.path, 'local/state.json'))).mode & 0o777).toBe(0o600);
    await expectNothingLeft(state.path);

    const second = await runOnce(state.path);
    expectSuccess(second);
    // Addresses and keys survive a restart; sign-in tokens are new.
    const { adminToken: _, viewerToken: _v, platformToken: _p, otherTenant: _o, ...kept } = connection;
    expect(await readConnection(state.path)).toMatchObject(kept);

    const fresh = await runOnce(state.path, '--fresh');
    expectSuccess(fresh);
    expect((await readConnection(state.path)).serviceKey).not.toBe(connection.serviceKey);
  },
);

test('--vault delivers with a real Vault', { timeout: 5 * MINUTE_MS }, async () => {
  await using state = await stateFolder();
  const run = await runOnce(state.path, '--vault');
  expectSuccess(run);
  expect(run.stderr()).toContain('Vault on port');
  expect(run.stdout().split('\n')).toEqual(expect.arrayContaining(CHANNEL_LINES));
  await expectNothingLeft(state.path);
});

test(
  'without --once it runs until SIGINT, its commands, roles and pages work, and a restart repairs it',
  { timeout: 5 * MINUTE_MS },
  async () => {
    await using state = await stateFolder();
    const run = start('--state', state.path);
    const { child, stdout } = run;
    const ended = once(child, 'close') as Promise<[number | null]>;
    try {
      await untilPrinted(run, 'Then try:');
      const connection = await readConnection(state.path);
      const failedOver = /admin\/messages\/([0-9a-f-]{36})/.exec(stdout())?.[1] ?? '';
      const printed = curlLines(connection, await chooseFormatter(), failedOver);
      for (const { command } of printed) expect(stdout()).toContain(command);
      for (const { title, command } of [
        ...printed,
        ...curlLines(connection, 'node', failedOver).slice(0, 1),
      ]) {
        const text = await runProgram('sh', ['-c', [...credentialLines(connection), command].join('\n')]);
        expect(text.split('\n').length).toBeGreaterThan(3);
        expect({ title, ...(JSON.parse(text) as object) }).not.toHaveProperty('statusCode');
      }
      await expectFailovers(connection, failedOver);
      await expectRestarts(run, connection);
      await expectRoles(connection);
      await expectPages(connection);
      await expectEvents(connection);

      const second = await runOnce(state.path);
      expect(second.code).toBe(1);
      expect(second.stderr()).toContain('another quick start runs on');
      await breakTenant(connection);
    } finally {
      child.kill('SIGINT');
    }
    expect((await ended)[0]).toBe(0);
    await expectNothingLeft(state.path);

    const fixed = await runOnce(state.path);
    expectSuccess(fixed);
    expect(fixed.stdout().split('\n')).toEqual(expect.arrayContaining(CHANNEL_LINES));
  },
);

/** Checks the failover of the message sent at the start and of the one sent by the printed command. */
async function expectFailovers(connection: Connection, first: string): Promise<void> {
  const { baseUrl, adminToken, tenantSlug, providerUrls } = connection;
  const headers = { authorization: `Bearer ${adminToken}`, 'x-tenant-slug': tenantSlug };
  const look = async <T>(path: string) =>
    (await (await fetch(`${baseUrl}/v1/admin/messages${path}`, { headers })).json()) as T;
  const to = encodeURIComponent('+14155550102');
  const { items } = await look<{ items: { id: string }[] }>(`?to=${to}`);
  expect(items).toHaveLength(1);
  for (const id of [first, items[0]?.id])
    await expect
      .poll(() => look(`/${id}`))
      .toMatchObject({
        status: 'delivered',
        routeVersion: 1,
        route: [
          { label: 'Twilio (stand-in)', verdict: 'failed', reason: 'provider_unavailable', attempt: 1 },
          { label: 'Plivo (stand-in)', verdict: 'chosen', reason: 'next_in_route', attempt: 2 },
        ],
      });
  expect(await (await fetch(providerUrls.twilio)).text()).toContain('503, as it was told to refuse');
  expect(await (await fetch(providerUrls.plivo)).text()).toContain('Hello by the second');
}

/**
 * Kills both services with SIGKILL, as the kernel does when memory runs out. The restarted services complete the accepted work.
 */
async function expectRestarts({ child, stderr }: Run, { baseUrl, testKey }: Connection): Promise<void> {
  const processes = await runProgram('ps', ['-A', '-o', 'pid=,ppid=,args=']);
  for (const name of ['api', 'worker']) {
    const line = processes
      .split('\n')
      .find(
        (one) => one.includes(`services/${name}/main.ts`) && one.trim().split(/ +/)[1] === String(child.pid),
      );
    process.kill(Number(line?.trim().split(/ +/)[0]), 'SIGKILL');
    await expect
      .poll(stderr)
      .toContain(`The ${name} ended with signal SIGKILL: starting it again in 0.5 s (`);
  }
  const ask = async (path: string, body?: object): Promise<{ id: string; status: string }> => {
    const response = await fetch(`${baseUrl}/v1/messages${path}`, {
      headers: { 'x-service-key': testKey, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
    return (await response.json()) as { id: string; status: string };
  };
  const body = { channel: 'sms', to: '+15550000001', body: 'Still there?' };
  let id: string | undefined;
  // Until the services are back, the request fails or its answer has no id.
  await expect.poll(async () => (id ??= (await ask('', body)).id)).toEqual(expect.any(String));
  await expect.poll(async () => (await ask(`/${id}`)).status).toBe('delivered');
}

async function expectRoles(connection: Connection): Promise<void> {
  const { baseUrl, tenantSlug, adminToken, viewerToken, platformToken, otherTenant } = connection;
  const ask = async (token: string, slug: string | null, path: string, method = 'GET') => {
    const headers = { authorization: `Bearer ${token}`, ...(slug === null ? {} : { 'x-tenant-slug': slug }) };
    const { status } = await fetch(`${baseUrl}${path}`, { method, headers });
    return status;
  };
  const { id } = await fetch(`${baseUrl}/v1/admin/me`, { headers: { authorization: `Bearer ${adminToken}` } })
    .then((response) => response.json() as Promise<{ tenants: { id: string; slug: string; role: string }[] }>)
    .then(({ tenants }) => {
      expect(tenants).toEqual([expect.objectContaining({ slug: tenantSlug, role: 'owner' })]);
      return tenants[0] ?? { id: '' };
    });
  expect(await ask(adminToken, tenantSlug, '/v1/admin/members')).toBe(200);
  expect(await ask(adminToken, null, `/v1/admin/tenants/${id}/resume`, 'POST')).toBe(403);
  expect(await ask(viewerToken, tenantSlug, '/v1/admin/providers')).toBe(200);
  expect(await ask(viewerToken, tenantSlug, '/v1/admin/members')).toBe(403);
  expect(await ask(platformToken, null, `/v1/admin/tenants/${id}`)).toBe(200);
  expect(await ask(otherTenant.adminToken, tenantSlug, '/v1/admin/providers')).toBe(404);
  expect(await ask(otherTenant.adminToken, otherTenant.slug, '/v1/admin/providers')).toBe(200);
}

async function expectPages({ inboxUrl, providerUrls, baseUrl }: Connection): Promise<void> {
  const read = async (url: string): Promise<string> => {
    const response = await fetch(url);
    expect({ url, status: response.status }).toEqual({ url, status: 200 });
    return response.text();
  };
  // The printed curl commands sent this message before.
  await expect.poll(() => read(inboxUrl)).toContain('you@example.com');
  const mails = JSON.parse(await read(`${inboxUrl}/received`)) as { id: number; subject: string }[];
  const welcome = mails.find(({ subject }) => subject === 'Welcome to Acme');
  expect(await read(`${inboxUrl}/mails/${welcome?.id}`)).toContain('<iframe');
  expect(await read(`${inboxUrl}/mails/${welcome?.id}/html`)).toContain('<p>Hello Ada,</p>');
  expect((await fetch(`${inboxUrl}/mails/0`)).status).toBe(404);
  expect(await read(providerUrls.twilio)).toContain('Your code is ');
  expect(await read(providerUrls.fcm)).toContain('Order shipped');
  expect(await read(providerUrls['whatsapp-cloud'])).toContain('has arrived');
  expect(await read(`${providerUrls.twilio}/received`)).toContain('Messages.json');
  for (const url of Object.values(providerUrls))
    expect(JSON.parse(await read(`${url}/received`))).toEqual(expect.any(Array));
  await read(`${baseUrl}/v1/openapi.json`);
  await read(`${baseUrl}/docs`);
}

/** Sends a message and expects its event at the receiver, for the tenant's first endpoint and for an added one. */
async function expectEvents({ baseUrl, tenantSlug, testKey, adminToken, webhookReceiverUrl }: Connection) {
  const post = async <T>(path: string, headers: Record<string, string>, body: object): Promise<T> => {
    const json = { 'content-type': 'application/json', ...headers };
    const response = await fetch(baseUrl + path, {
      method: 'POST',
      headers: json,
      body: JSON.stringify(body),
    });
    expect({ path, isFine: response.ok }).toEqual({ path, isFine: true });
    return (await response.json()) as T;
  };
  const owner = { authorization: `Bearer ${adminToken}`, 'x-tenant-slug': tenantSlug };
  const url = `${webhookReceiverUrl}/own?of=mine`;
  const added = await post<{ id: string; secret: string }>('/v1/admin/webhook-endpoints', owner, {
    url,
    eventTypes: ['message.delivered'],
  });
  const message = { channel: 'sms', to: '+15550000001', body: 'Tell me more' };
  const { id } = await post<{ id: string }>('/v1/messages', { 'x-service-key': testKey }, message);

  const received = async () =>
    (await (await fetch(`${webhookReceiverUrl}/received`)).json()) as ReceivedWebhook[];
  const ofMessage = async () => (await received()).filter(({ body }) => body.includes(id));
  await expect.poll(async () => (await ofMessage()).length).toBe(4);
  const calls = await ofMessage();
  const typesAt = (path: string) =>
    calls.filter((call) => call.path === path).map((call) => eventOf(call).type);
  expect(typesAt(`/${tenantSlug}`).toSorted()).toEqual([
    'message.delivered',
    'message.queued',
    'message.sent',
  ]);
  expect(typesAt('/own?of=mine')).toEqual(['message.delivered']);
  for (const { path, signature } of calls) {
    if (path === '/own?of=mine')
      expect(signature).toEqual({ verified: true, endpointId: added.id, schemes: ['v1'] });
    else
      expect(signature).toEqual({
        verified: true,
        endpointId: expect.any(String),
        schemes: ['v1', 'v1a'],
      });
  }

  const [genuine] = calls;
  const tampered = await fetch(webhookReceiverUrl + genuine?.path, {
    method: 'POST',
    headers: Object.fromEntries(
      Object.entries(genuine?.headers ?? {}).filter(([name]) => name.startsWith('webhook-')),
    ),
    body: String(genuine?.body).replace('"seq":', '"seq":9'),
  });
  expect(tampered.status).toBe(401);
  const readPage = async () => (await fetch(webhookReceiverUrl)).text();
  // Events of earlier messages may still arrive, in any order; those that the killed worker had claimed after the lease of a minute.
  await expect.poll(readPage, { timeout: 2 * MINUTE_MS }).not.toContain('missing:');
  const page = await readPage();
  expect(page).toContain(`<td>${id}</td>`);
  expect(page).toContain('verified (v1, v1a)');
  expect(page).toContain('<b>not verified</b>: its signature does not hold');
  expect(page).toContain('none missing');
}

/** Makes changes that a user may try: revokes a key, removes a provider, disables one, pauses endpoints, suspends the tenant. */
async function breakTenant(connection: Connection): Promise<void> {
  const { baseUrl, tenantSlug, adminToken, platformToken } = connection;
  const call = async <T>(token: string, method: string, path: string): Promise<T> => {
    const headers = {
      authorization: `Bearer ${token}`,
      ...(token === adminToken ? { 'x-tenant-slug': tenantSlug } : {}),
    };
    const response = await fetch(`${baseUrl}/v1/admin/${path}`, { method, headers });
    expect({ method, path, isFine: response.ok }).toEqual({ method, path, isFine: true });
    const text = await response.text();
    return (text === '' ? null : JSON.parse(text)) as T;
  };
  type Page = { items: { id: string; slug?: string; provider?: string }[] };
  const keys = await call<Page>(adminToken, 'GET', 'api-keys');
  for (const { id } of keys.items) await call(adminToken, 'DELETE', `api-keys/${id}`);
  const providers = await call<Page>(adminToken, 'GET', 'providers');
  const idOf = (provider: string) => providers.items.find((item) => item.provider === provider)?.id;
  await call(adminToken, 'DELETE', `providers/${idOf('fcm')}`);
  await call(adminToken, 'POST', `providers/${idOf('twilio')}/disable`);
  const endpoints = await call<Page>(adminToken, 'GET', 'webhook-endpoints');
  for (const { id } of endpoints.items) await call(adminToken, 'POST', `webhook-endpoints/${id}/pause`);
  const tenants = await call<Page>(platformToken, 'GET', 'tenants');
  const tenant = tenants.items.find(({ slug }) => slug === tenantSlug);
  await call(platformToken, 'POST', `tenants/${tenant?.id}/suspend`);
}
