import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startVault } from '../../../deploy/servers/vault.ts';
import type { VaultService } from '../../../deploy/vault/policies.ts';
import { configureVault, type AppRoleCredentials, type VaultSetup } from '../../../deploy/vault/setup.ts';
import { accountSecretBinding, type Binding } from '#core/domain/storage/binding.ts';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { KeyringError, type Keyring, type VaultAuth } from '#core/platform/vault/keyring.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import type { VaultRequest } from '#core/platform/vault/vault-transport.ts';
import { openVaultKeyring } from '#core/platform/vault/vault-keyring.ts';
import { testVault } from '#test/support/servers.ts';

const PLAINTEXT = Buffer.from('canary-4b77');

type OpenOptions = { address: string; mount?: string; auth: VaultAuth; deadlineMs?: number };

function open({ address, mount = 'transit', auth, deadlineMs = 5_000 }: OpenOptions) {
  const requests: VaultRequest[] = [];
  const expiries: number[] = [];
  const lines: string[] = [];
  const keyring = openVaultKeyring({
    config: { address, transitMount: mount, keyPrefix: 'despatch-', auth },
    log: createLogger({
      level: 'debug',
      component: 'test',
      destination: { write: (line) => void lines.push(line) },
    }),
    deadlineMs,
    onRequest: (request) => void requests.push(request),
    onTokenExpiry: (epochSeconds) => void expiries.push(epochSeconds),
  });
  const count = (op: VaultRequest['op']): number => requests.filter((request) => request.op === op).length;
  return { ...keyring, requests, expiries, lines, count };
}

function appRole({ roleId, secretId }: AppRoleCredentials): VaultAuth {
  return { method: 'approle', mount: 'approle', roleId, secretId: secret(secretId) };
}

function bindingOf(tenantId: TenantId): Binding {
  return accountSecretBinding(tenantId, newId());
}

/** Sets up a transit mount with the shipped policies on the shared Vault. */
async function setup(options: Partial<VaultSetup> = {}) {
  const stack = new AsyncDisposableStack();
  const vault = stack.use(await testVault());
  const roles = await configureVault({
    address: vault.address,
    rootToken: vault.rootToken,
    transitMount: vault.mount,
    namePrefix: `${vault.mount}-`,
    ...options,
  });
  const openAs = (service: VaultService): ReturnType<typeof open> =>
    stack.use(open({ address: vault.address, mount: vault.mount, auth: appRole(roles[service]) }));
  const openWith = (auth: VaultAuth): ReturnType<typeof open> =>
    stack.use(open({ address: vault.address, mount: vault.mount, auth }));
  const request = (method: string, path: string, body?: unknown) =>
    vault.request(method, `${vault.mount}/${path}`, body);
  const tenantId = newId<TenantId>();
  return {
    vault,
    roles,
    openAs,
    openWith,
    request,
    tenantId,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'done',
    (error: unknown) => (error instanceof KeyringError ? error.code : `not a KeyringError: ${String(error)}`),
  );
}

describe('with the shipped policies', () => {
  test('the api encrypts and the worker decrypts', async () => {
    await using b = await setup();
    const [api, worker] = [b.openAs('api'), b.openAs('worker')];
    await api.ensureKey(b.tenantId);
    const binding = bindingOf(b.tenantId);
    const ciphertext = await api.encrypt(binding, PLAINTEXT);
    expect(ciphertext).toMatch(/^vault:v1:/);
    expect(Buffer.from(await worker.decrypt(binding, ciphertext))).toEqual(PLAINTEXT);
  });

  test('the api cannot decrypt, and the worker can neither encrypt nor create a key', async () => {
    await using b = await setup();
    const [api, worker] = [b.openAs('api'), b.openAs('worker')];
    await api.ensureKey(b.tenantId);
    const binding = bindingOf(b.tenantId);
    const ciphertext = await api.encrypt(binding, PLAINTEXT);
    expect(await codeOf(api.decrypt(binding, ciphertext))).toBe('refused');
    expect(await codeOf(worker.encrypt(binding, PLAINTEXT))).toBe('refused');
    expect(await codeOf(worker.ensureKey(newId()))).toBe('refused');
  });

  test('encrypting for a tenant without a key is refused and creates no key', async () => {
    await using b = await setup();
    const api = b.openAs('api');
    expect(await codeOf(api.encrypt(bindingOf(b.tenantId), PLAINTEXT))).toBe('refused');
    expect((await b.request('GET', `keys/despatch-${b.tenantId}`)).status).toBe(404);
  });

  test("a tenant's key is derived, not convergent and not exportable, and is created once", async () => {
    await using b = await setup();
    const api = b.openAs('api');
    await api.ensureKey(b.tenantId);
    const before = await b.request('GET', `keys/despatch-${b.tenantId}`);
    await api.ensureKey(b.tenantId);
    const after = await b.request('GET', `keys/despatch-${b.tenantId}`);
    expect(after.body).toMatchObject({
      data: {
        type: 'aes256-gcm96',
        derived: true,
        exportable: false,
        latest_version: 1,
        allow_plaintext_backup: false,
      },
    });
    expect((after.body as { data: object }).data).toEqual((before.body as { data: object }).data);
    const binding = bindingOf(b.tenantId);
    expect(await api.encrypt(binding, PLAINTEXT)).not.toBe(await api.encrypt(binding, PLAINTEXT));
  });

  test.each<[VaultService, string, string, unknown, number]>([
    ['api', 'POST', 'keys/KEY/rotate', {}, 403],
    ['api', 'POST', 'keys/KEY/config', { deletion_allowed: true }, 403],
    ['api', 'DELETE', 'keys/KEY', undefined, 403],
    ['api', 'GET', 'keys/KEY', undefined, 403],
    [
      'api',
      'POST',
      'keys/despatch-weak',
      { type: 'aes256-gcm96', derived: true, convergent_encryption: false, exportable: true },
      403,
    ],
    ['api', 'POST', 'keys/despatch-weak', {}, 403],
    ['api', 'GET', 'export/encryption-key/KEY', undefined, 403],
    ['api', 'POST', 'rewrap/KEY', { ciphertext: 'vault:v1:x' }, 403],
    ['worker', 'POST', 'keys/KEY/rotate', {}, 403],
    ['worker', 'GET', 'keys/KEY', undefined, 403],
    ['worker', 'POST', 'rewrap/KEY', { ciphertext: 'vault:v1:x' }, 403],
    ['controller', 'POST', 'encrypt/KEY', { plaintext: '' }, 403],
    ['controller', 'POST', 'decrypt/KEY', { ciphertext: 'vault:v1:x' }, 403],
    ['controller', 'GET', 'export/encryption-key/KEY', undefined, 403],
    ['controller', 'GET', 'backup/KEY', undefined, 403],
    ['controller', 'POST', 'keys/other-key', {}, 403],
    ['controller', 'POST', 'keys/KEY/rotate', {}, 200],
    ['controller', 'POST', 'keys/KEY/config', { deletion_allowed: true }, 200],
    ['controller', 'GET', 'keys/KEY', undefined, 200],
  ])('%s: %s %s %o is allowed or denied by the policy', async (service, method, path, body, status) => {
    await using b = await setup();
    await b.openAs('api').ensureKey(b.tenantId);
    const { roleId, secretId } = b.roles[service];
    const login = await b.vault.request('POST', 'auth/approle/login', {
      role_id: roleId,
      secret_id: secretId,
    });
    const token = (login.body as { auth: { client_token: string } }).auth.client_token;
    const answer = await fetch(
      `${b.vault.address}/v1/${b.vault.mount}/${path.replace('KEY', `despatch-${b.tenantId}`)}`,
      {
        method,
        headers: { 'x-vault-token': token },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      },
    );
    await answer.arrayBuffer();
    expect(answer.status).toBe(status);
  });
});

describe('bindings', () => {
  test.each<[string, (binding: Binding) => Binding]>([
    ['account', (binding) => ({ ...binding, subject: newId() })],
    ['purpose', (binding) => ({ ...binding, purpose: 'webhook-secret' })],
  ])('a ciphertext moved to another %s does not decrypt', async (_, move) => {
    await using b = await setup();
    const [api, worker] = [b.openAs('api'), b.openAs('worker')];
    await api.ensureKey(b.tenantId);
    const binding = bindingOf(b.tenantId);
    const ciphertext = await api.encrypt(binding, PLAINTEXT);
    expect(await codeOf(worker.decrypt(move(binding), ciphertext))).toBe('corrupt');
  });

  test('a ciphertext moved to another tenant does not decrypt', async () => {
    await using b = await setup();
    const [api, worker] = [b.openAs('api'), b.openAs('worker')];
    const other = newId<TenantId>();
    await api.ensureKey(b.tenantId);
    await api.ensureKey(other);
    const binding = bindingOf(b.tenantId);
    const ciphertext = await api.encrypt(binding, PLAINTEXT);
    expect(await codeOf(worker.decrypt({ ...binding, tenantId: other }, ciphertext))).toBe('corrupt');
  });

  test.each([
    'vault:v1:AAAA',
    'vault:v9:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
    'vault:v1:!',
    'local:v1:AAAA',
    '',
  ])('decrypting the invalid ciphertext %o fails as corrupt', async (ciphertext) => {
    await using b = await setup();
    await b.openAs('api').ensureKey(b.tenantId);
    expect(await codeOf(b.openAs('worker').decrypt(bindingOf(b.tenantId), ciphertext))).toBe('corrupt');
  });

  test('an old ciphertext still decrypts after its key was rotated', async () => {
    await using b = await setup();
    const [api, worker] = [b.openAs('api'), b.openAs('worker')];
    await api.ensureKey(b.tenantId);
    const binding = bindingOf(b.tenantId);
    const old = await api.encrypt(binding, PLAINTEXT);
    await b.request('POST', `keys/despatch-${b.tenantId}/rotate`, {});
    expect(await api.encrypt(binding, PLAINTEXT)).toMatch(/^vault:v2:/);
    expect(Buffer.from(await worker.decrypt(binding, old))).toEqual(PLAINTEXT);
  });

  test('decrypting with a destroyed key fails as key_missing', async () => {
    await using b = await setup();
    const [api, worker] = [b.openAs('api'), b.openAs('worker')];
    await api.ensureKey(b.tenantId);
    const binding = bindingOf(b.tenantId);
    const ciphertext = await api.encrypt(binding, PLAINTEXT);
    await b.request('POST', `keys/despatch-${b.tenantId}/config`, { deletion_allowed: true });
    await b.request('DELETE', `keys/despatch-${b.tenantId}`);
    expect(await codeOf(worker.decrypt(binding, ciphertext))).toBe('key_missing');
  });
});

describe('tokens', () => {
  async function working(b: Awaited<ReturnType<typeof setup>>, keyring: Keyring): Promise<void> {
    await keyring.encrypt(bindingOf(b.tenantId), PLAINTEXT);
  }

  async function revoke(b: Awaited<ReturnType<typeof setup>>): Promise<void> {
    // Considers only tokens of this test's roles, because the Vault is shared.
    const accessors = await b.vault.request('LIST', 'auth/token/accessors');
    for (const accessor of (accessors.body as { data: { keys: string[] } }).data.keys) {
      const { body } = await b.vault.request('POST', 'auth/token/lookup-accessor', { accessor });
      const policies = (body as { data?: { policies: string[] } } | null)?.data?.policies ?? [];
      if (policies.some((policy) => policy.startsWith(b.vault.mount))) {
        await b.vault.request('POST', 'auth/token/revoke-accessor', { accessor });
      }
    }
  }

  test('many calls at start share one login', async () => {
    await using b = await setup();
    const api = b.openAs('api');
    await Promise.all(Array.from({ length: 20 }, () => api.ensureKey(b.tenantId)));
    expect(api.count('login')).toBe(1);
    expect(api.isUsable()).toBe(true);
  });

  test('a revoked token is replaced by one login, and no call fails', async () => {
    await using b = await setup();
    const api = b.openAs('api');
    await api.ensureKey(b.tenantId);
    await revoke(b);
    const logins = api.count('login');
    await Promise.all(Array.from({ length: 10 }, () => working(b, api)));
    expect(api.count('login') - logins).toBe(1);
  });

  test('repeated refusals by policy cause only one more login', async () => {
    await using b = await setup();
    const api = b.openAs('api');
    await api.ensureKey(b.tenantId);
    const binding = bindingOf(b.tenantId);
    const ciphertext = await api.encrypt(binding, PLAINTEXT);
    for (let round = 0; round < 10; round += 1)
      expect(await codeOf(api.decrypt(binding, ciphertext))).toBe('refused');
    expect(api.count('login')).toBe(2);
  });

  test('a short-lived token is renewed before it expires', async () => {
    await using b = await setup({ tokenTtlSeconds: 3, tokenMaxTtlSeconds: 600 });
    const api = b.openAs('api');
    await api.ensureKey(b.tenantId);
    await expect.poll(() => api.count('renew')).toBeGreaterThanOrEqual(2);
    await working(b, api);
    expect(api.count('login')).toBe(1);
    expect(api.expiries.length).toBeGreaterThanOrEqual(3);
    expect(api.expiries.at(-1)).toBeGreaterThan(api.expiries[0] ?? Infinity);
  });

  test('a token near its maximum TTL is replaced before it expires', async () => {
    await using b = await setup({ tokenTtlSeconds: 2, tokenMaxTtlSeconds: 3 });
    const api = b.openAs('api');
    await api.ensureKey(b.tenantId);
    await expect.poll(() => api.count('login')).toBeGreaterThanOrEqual(2);
    await working(b, api);
    // Vault may refuse the last renewal; the client then logs in.
    expect(api.requests.filter(({ op, code }) => op !== 'renew' && code !== '200')).toEqual([]);
  });

  test('a batch token, which cannot be renewed, is replaced before it expires', async () => {
    await using b = await setup({ tokenTtlSeconds: 2, tokenType: 'batch' });
    const api = b.openAs('api');
    await api.ensureKey(b.tenantId);
    await expect.poll(() => api.count('login')).toBeGreaterThanOrEqual(2);
    expect(api.count('renew')).toBe(0);
    await working(b, api);
  });

  test('a configured token that runs out is never taken for one without an end', async () => {
    await using b = await setup();
    const { body } = await b.vault.request('POST', 'auth/token/create', {
      policies: [`${b.vault.mount}-api`],
      ttl: '3s',
      renewable: false,
    });
    const { client_token: token } = (body as { auth: { client_token: string } }).auth;
    const api = b.openWith({ method: 'token', token: secret(token) });
    await expect
      .poll(() => api.requests.some(({ op, code }) => op === 'lookup' && code === '403'))
      .toBe(true);
    expect(api.isUsable()).toBe(false);
    expect(api.expiries.length).toBeGreaterThanOrEqual(1);
    expect(Math.max(...api.expiries)).toBeLessThan(Date.now() / 1_000 + 1);
    // Asking again and again would not prolong it.
    expect(api.count('lookup')).toBeLessThan(20);
    const root = b.openWith({ method: 'token', token: secret(b.vault.rootToken) });
    await expect.poll(() => root.expiries).toEqual([Infinity]);
  });

  test('a configured token works, and a token file is read again after its token is revoked', async () => {
    await using b = await setup();
    const makeToken = async (): Promise<string> => {
      const { body } = await b.vault.request('POST', 'auth/token/create', {
        policies: [`${b.vault.mount}-api`],
        ttl: '1h',
      });
      return (body as { auth: { client_token: string } }).auth.client_token;
    };
    const dir = await mkdtemp(join(tmpdir(), 'despatch-token-'));
    try {
      const file = join(dir, 'token');
      await writeFile(file, `${await makeToken()}\n`);
      const api = b.openWith({ method: 'token', token: secret('unused'), tokenFile: file });
      await api.ensureKey(b.tenantId);
      await revoke(b);
      await writeFile(file, await makeToken());
      await working(b, api);
      const direct = b.openWith({ method: 'token', token: secret(await makeToken()) });
      await working(b, direct);
      expect([api.isUsable(), direct.isUsable()]).toEqual([true, true]);
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  test('wrong credentials fail as unavailable, logins back off, and no secret is logged', async () => {
    await using b = await setup();
    const api = b.openWith({
      method: 'approle',
      mount: 'approle',
      roleId: b.roles.api.roleId,
      secretId: secret('canary-secret-id'),
    });
    for (let round = 0; round < 50; round += 1) expect(await codeOf(working(b, api))).toBe('unavailable');
    expect(api.isUsable()).toBe(false);
    expect(api.count('login')).toBeLessThan(10);
    await expect.poll(() => api.lines.length).toBeGreaterThan(0);
    expect(api.lines.join('')).not.toContain('canary');
  });
});

describe('a Vault outage', () => {
  test('calls fail as unavailable while Vault is sealed or stopped, and succeed afterwards', async () => {
    await using vault = await startVault();
    const roles = await configureVault({ address: vault.address, rootToken: vault.rootToken });
    await using api = open({ address: vault.address, auth: appRole(roles.api), deadlineMs: 2_000 });
    await using worker = open({ address: vault.address, auth: appRole(roles.worker), deadlineMs: 2_000 });
    const tenantId = newId<TenantId>();
    const binding = bindingOf(tenantId);
    await api.ensureKey(tenantId);
    const ciphertext = await api.encrypt(binding, PLAINTEXT);
    await worker.decrypt(binding, ciphertext);

    await vault.seal();
    expect(await codeOf(worker.decrypt(binding, ciphertext))).toBe('unavailable');
    expect(await codeOf(api.encrypt(binding, PLAINTEXT))).toBe('unavailable');
    await using late = open({ address: vault.address, auth: appRole(roles.worker), deadlineMs: 2_000 });
    expect(await codeOf(late.decrypt(binding, ciphertext))).toBe('unavailable');
    await vault.unseal();
    expect(await codeOf(worker.decrypt(binding, ciphertext))).toBe('done');
    await expect.poll(() => codeOf(late.decrypt(binding, ciphertext))).toBe('done');

    await vault.stop();
    expect(await codeOf(worker.decrypt(binding, ciphertext))).toBe('unavailable');
    await vault.restart();
    await expect.poll(() => codeOf(worker.decrypt(binding, ciphertext))).toBe('done');
    expect(worker.requests.some((request) => request.code === '503')).toBe(true);
    expect(worker.requests.some((request) => request.code === 'network')).toBe(true);
  });

  test('a call that Vault accepts but never answers fails as unavailable at the deadline', async () => {
    await using silent = await standIn(() => undefined);
    await using api = open({
      address: silent.address,
      auth: { method: 'token', token: secret('t') },
      deadlineMs: 300,
    });
    const started = performance.now();
    expect(await codeOf(api.ensureKey(newId()))).toBe('unavailable');
    // Earlier than the call's own deadline.
    expect(performance.now() - started).toBeLessThan(4_000);
    expect(api.requests.every((request) => request.code === 'timeout')).toBe(true);
  });
});

describe('a Kubernetes login', () => {
  test('sends the role and the token file, reread at each login, and uses the returned token', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'despatch-jwt-'));
    const tokenFile = join(dir, 'token');
    await writeFile(tokenFile, 'jwt-1\n');
    const logins: unknown[] = [];
    let valid = 'none';
    await using vault = await standIn((path, body, token) => {
      if (path === '/v1/auth/cluster/login') {
        logins.push(body);
        valid = `hvs.${logins.length}`;
        return {
          status: 200,
          body: { auth: { client_token: valid, lease_duration: 3_600, renewable: true } },
        };
      }
      if (token !== valid) return { status: 403, body: { errors: ['permission denied'] } };
      return { status: 200, body: { data: { ciphertext: `vault:v1:${path.split('/').at(-2)}` } } };
    });
    const auth: VaultAuth = { method: 'kubernetes', mount: 'cluster', role: 'despatch-api', tokenFile };
    await using api = open({ address: vault.address, auth });
    const binding = bindingOf(newId());
    expect(await api.encrypt(binding, PLAINTEXT)).toBe('vault:v1:encrypt');
    await writeFile(tokenFile, 'jwt-2');
    valid = 'revoked';
    expect(await api.encrypt(binding, PLAINTEXT)).toBe('vault:v1:encrypt');
    expect(logins).toEqual([
      { role: 'despatch-api', jwt: 'jwt-1' },
      { role: 'despatch-api', jwt: 'jwt-2' },
    ]);
    await rm(dir, { recursive: true });
    expect(api.lines.join('')).not.toContain('jwt-');
  });

  test('fails as unavailable if the token file is missing', async () => {
    await using vault = await standIn(() => ({ status: 500, body: {} }));
    const auth: VaultAuth = {
      method: 'kubernetes',
      mount: 'kubernetes',
      role: 'r',
      tokenFile: '/nowhere/token',
    };
    await using api = open({ address: vault.address, auth });
    expect(await codeOf(api.ensureKey(newId()))).toBe('unavailable');
  });
});

type Reply = { status: number; body: unknown };

/**
 * Starts a server that speaks the part of Vault's protocol that a test scripts. It does not answer where the script returns
 * `undefined`.
 */
async function standIn(
  answer: (path: string, body: unknown, token: string | undefined) => Reply | undefined,
) {
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const token = request.headers['x-vault-token'];
    const reply = answer(
      request.url ?? '',
      await bodyOf(request),
      typeof token === 'string' ? token : undefined,
    );
    if (reply === undefined) return;
    response.writeHead(reply.status, { 'content-type': 'application/json' }).end(JSON.stringify(reply.body));
  };
  const server = createServer((request, response) => void serve(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  return text === '' ? null : (JSON.parse(text) as unknown);
}
