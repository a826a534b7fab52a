import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { bindingText, accountSecretBinding } from '#core/domain/storage/binding.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Keyring } from '#core/platform/vault/keyring.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { createWorkerMetrics } from '#core/platform/telemetry/worker-metrics.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { openVaultKeyring } from '#core/platform/vault/vault-keyring.ts';
import { workerStore } from '#core/store/worker-store.ts';
import type { StandIn } from '#providers/stand-in.ts';
import { startTwilioStandIn } from '#providers/twilio/stand-in.ts';
import {
  ADDRESS_KEYS,
  acceptBatch,
  acceptRow,
  seedAccount,
  seedTenant,
  type SeededTenant,
} from '#test/support/seed.ts';
import { testDatabase, type TestVault } from '#test/support/servers.ts';
import { openVaultLogins, vaultConfigAs, type VaultLogins } from '#test/support/shared-vault.ts';
import { startTestWorker } from '#test/support/test-worker.ts';
import type { VaultService } from '../../deploy/vault/policies.ts';
import { createCredentials } from '../../services/worker/accounts/credentials.ts';
import { createEvents } from '../../services/worker/events.ts';
import { everythingIn, fateOf, type MessageFate } from './tenant-rows.ts';

type Account = SeededTenant & { readonly id: string; readonly authToken: string };

/** How long the worker uses a decrypted secret before it asks Vault again. */
const SECRET_TTL_MS = 300;
const POLL = { interval: 50 };
const WAITS = { status: 'deferred', reason: 'provider_not_ready', retries: 0 };

let stack: AsyncDisposableStack;
let vault: TestVault;
let access: VaultLogins;
let admin: Sql;
let apiSql: Sql;
let twilio: StandIn;
let api: Keyring;
let worker: Keyring;
let metrics: ReturnType<typeof createWorkerMetrics>;
const logLines: string[] = [];
const plaintexts: string[] = [];

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  access = await openVaultLogins(stack);
  ({ vault } = access);
  const database = stack.use(await testDatabase());
  admin = database.open('admin', 2);
  apiSql = database.open('api');
  twilio = stack.use(await startTwilioStandIn());
  [api, worker] = [keyringOf('api'), keyringOf('worker')];
  metrics = createWorkerMetrics();
  startWorker(database.open('worker'));
});
afterAll(() => stack.disposeAsync());

const log = createLogger({
  level: 'debug',
  component: 'worker',
  destination: { write: (line) => void logLines.push(line) },
});

function keyringOf(service: VaultService): Keyring {
  return stack.use(openVaultKeyring({ config: vaultConfigAs(service, access), log }));
}

function startWorker(sql: Sql): void {
  startTestWorker(stack, {
    store: workerStore(sql, 10_000, ADDRESS_KEYS),
    credentials: createCredentials({ decrypter: worker, entriesMax: 100, ttlMs: SECRET_TTL_MS }),
    twilioOrigin: twilio.origin,
    events: createEvents(log, metrics, Date.now),
  });
}

const keyPath = ({ tenantId }: SeededTenant, path = ''): string =>
  `${vault.mount}/keys/despatch-${tenantId}${path}`;

/** Calls Vault with the controller's policy. */
async function asController(method: string, path: string, body?: unknown): Promise<unknown> {
  const { roleId: role_id, secretId: secret_id } = access.logins.controller;
  const login = await vault.request('POST', 'auth/approle/login', { role_id, secret_id });
  const { client_token: token } = (login.body as { auth: { client_token: string } }).auth;
  const response = await fetch(`${vault.address}/v1/${path}`, {
    method,
    headers: { 'x-vault-token': token },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  expect([path, response.status < 300]).toEqual([path, true]);
  return text === '' ? null : (JSON.parse(text) as unknown);
}

async function destroyKey(of: SeededTenant): Promise<void> {
  await asController('POST', keyPath(of, '/config'), { deletion_allowed: true });
  await asController('DELETE', keyPath(of));
}

/** Creates an account whose secret the api encrypted with Vault. */
async function account(of?: SeededTenant): Promise<Account> {
  const tenant = of ?? (await seedTenant(admin));
  const authToken = randomBytes(16).toString('hex');
  plaintexts.push(authToken, Buffer.from(authToken).toString('base64'));
  const config = { accountSid: `AC${randomBytes(16).toString('hex')}`, from: '+15005550006' };
  const id = await seedAccount(admin, tenant.tenantId, { provider: 'twilio', config });
  const stored = { ...tenant, id, authToken };
  await api.ensureKey(tenant.tenantId as TenantId);
  await putCiphertext(id, await encrypt(stored));
  return stored;
}

const bindingOf = ({ tenantId, id }: Account) => accountSecretBinding(tenantId as TenantId, id);
const encrypt = (of: Account): Promise<string> =>
  api.encrypt(bindingOf(of), Buffer.from(JSON.stringify({ authToken: of.authToken })));

async function putCiphertext(id: string, ciphertext: string): Promise<void> {
  await admin`update provider_accounts set ciphertext = ${ciphertext}, version = version + 1,
    secret_version = secret_version + 1 where id = ${id}`;
  await admin`select wake_deferred(${id})`;
}

async function ciphertextOf({ id }: Account): Promise<string> {
  const [row] = await admin<
    { ciphertext: string }[]
  >`select ciphertext from provider_accounts where id = ${id}`;
  return row?.ciphertext ?? '';
}

/** Sends one message that is pinned to this account. */
async function send(over: Account): Promise<string> {
  const row = acceptRow(over, { pinned_account_id: over.id });
  const [verdict] = await acceptBatch(apiSql, [row], 0);
  expect(verdict?.verdict).toBe('accepted');
  return row.id;
}

/** How often the vendor was called with this account's secret. */
const callsWith = ({ authToken }: Account): number =>
  twilio.received.filter(({ headers }) =>
    Buffer.from((headers['authorization'] ?? '').replace('Basic ', ''), 'base64')
      .toString()
      .endsWith(`:${authToken}`),
  ).length;

async function expectFate(id: string, fate: Partial<MessageFate>): Promise<void> {
  await expect.poll(() => fateOf(admin, id), POLL).toMatchObject(fate);
}

/** Waits for longer than a cached secret stays fresh. */
async function cachesRunOut(): Promise<void> {
  const until = performance.now() + SECRET_TTL_MS * 1.5;
  await expect.poll(() => performance.now(), POLL).toBeGreaterThan(until);
}

async function expectNoPlaintext(): Promise<void> {
  const places = {
    database: await everythingIn(admin),
    log: logLines.join('\n'),
    metrics: await metrics.registry.metrics(),
  };
  expect(places.log.length).toBeGreaterThan(0);
  for (const plaintext of plaintexts) {
    for (const [place, text] of Object.entries(places)) {
      expect([place, text.includes(plaintext)]).toEqual([place, false]);
    }
  }
}

beforeEach(() => {
  logLines.length = 0;
});

describe("when a tenant's key is destroyed", () => {
  test('its secrets do not decrypt, its messages are deferred without a retry, and others are sent', async () => {
    const [erased, other] = [await account(), await account()];
    await expectFate(await send(erased), { status: 'sent' });
    const before = callsWith(erased);
    expect(before).toBe(1);
    const ciphertext = await ciphertextOf(erased);

    await destroyKey(erased);
    await cachesRunOut();
    const waiting = await send(erased);
    await expectFate(waiting, { ...WAITS, codes: ['credentials_unreadable'] });
    await expectFate(await send(other), { status: 'sent' });

    expect(callsWith(erased)).toBe(before);
    await expect(worker.decrypt(bindingOf(erased), ciphertext)).rejects.toMatchObject({
      code: 'key_missing',
    });
    // The root token cannot decrypt it either: a new key of the same name has other key material.
    await api.ensureKey(erased.tenantId as TenantId);
    const root = await vault.request('POST', `${vault.mount}/decrypt/despatch-${erased.tenantId}`, {
      ciphertext,
      context: Buffer.from(bindingText(bindingOf(erased))).toString('base64'),
    });
    expect(root.status).toBe(400);
    await expectNoPlaintext();

    await putCiphertext(erased.id, await encrypt(erased));
    await expectFate(waiting, { status: 'sent' });
  });
});

describe('while a key is rotated', () => {
  test('old and rewrapped secrets work; others fail once the old version is disabled', async () => {
    const [moved, left] = await account().then(async (first) => [first, await account(first)] as const);
    const old = await ciphertextOf(moved);
    expect(old).toMatch(/^vault:v1:/);
    await asController('POST', keyPath(moved, '/rotate'), {});
    await cachesRunOut();
    await expectFate(await send(moved), { status: 'sent' });

    const context = Buffer.from(bindingText(bindingOf(moved))).toString('base64');
    const rewrapped = (await asController('POST', `${vault.mount}/rewrap/despatch-${moved.tenantId}`, {
      ciphertext: old,
      context,
    })) as { data: { ciphertext: string } };
    expect(rewrapped.data.ciphertext).toMatch(/^vault:v2:/);
    expect(JSON.stringify(rewrapped)).not.toContain(moved.authToken);
    await putCiphertext(moved.id, rewrapped.data.ciphertext);
    await asController('POST', keyPath(moved, '/config'), { min_decryption_version: 2 });
    await cachesRunOut();

    await expectFate(await send(moved), { status: 'sent' });
    expect(callsWith(moved)).toBe(2);
    await expectFate(await send(left), WAITS);
    await expect(worker.decrypt(bindingOf(moved), old)).rejects.toMatchObject({ code: 'corrupt' });
    await expectNoPlaintext();
  });
});

describe('a ciphertext in the wrong row', () => {
  test.each([
    ["another tenant's", false],
    ['another account of the same tenant', true],
  ])('%s: does not decrypt, no provider is called, and the message is deferred', async (_, isSameTenant) => {
    const victim = await account();
    const thief = await account(isSameTenant ? victim : undefined);
    await putCiphertext(thief.id, await ciphertextOf(victim));
    const id = await send(thief);
    await expectFate(id, { ...WAITS, codes: ['credentials_unreadable'] });
    expect([callsWith(victim), callsWith(thief)]).toEqual([0, 0]);
    await expectFate(await send(victim), { status: 'sent' });
    await expectNoPlaintext();
  });
});
