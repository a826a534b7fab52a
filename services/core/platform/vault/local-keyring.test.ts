import { chmod, copyFile, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Binding } from '#core/domain/storage/binding.ts';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import { createLogger } from '../telemetry/logger.ts';
import { openLocalKeyring } from './local-keyring.ts';
import { openKeyring } from './open-keyring.ts';

async function setup() {
  const parent = await mkdtemp(join(tmpdir(), 'despatch-keyring-'));
  const dir = join(parent, 'keys');
  const keyring = await openLocalKeyring(dir);
  const tenantId = newId<TenantId>();
  await keyring.ensureKey(tenantId);
  const binding: Binding = { tenantId, subject: 'account-1', purpose: 'provider-secret' };
  return {
    dir,
    keyring,
    tenantId,
    binding,
    async [Symbol.asyncDispose]() {
      await keyring[Symbol.asyncDispose]();
      await rm(parent, { recursive: true });
    },
  };
}

const PLAINTEXT = Buffer.from('canary-91c2');

test('a ciphertext decrypts under the same binding, also in another keyring instance', async () => {
  await using b = await setup();
  const ciphertext = await b.keyring.encrypt(b.binding, PLAINTEXT);
  expect(ciphertext).toMatch(/^local:v1:/);
  expect(Buffer.from(await b.keyring.decrypt(b.binding, ciphertext))).toEqual(PLAINTEXT);
  const other = await openLocalKeyring(b.dir);
  expect(Buffer.from(await other.decrypt(b.binding, ciphertext))).toEqual(PLAINTEXT);
});

test('two ciphertexts of one secret differ', async () => {
  await using b = await setup();
  expect(await b.keyring.encrypt(b.binding, PLAINTEXT)).not.toBe(
    await b.keyring.encrypt(b.binding, PLAINTEXT),
  );
});

test.each<[string, Partial<Binding>]>([
  ['account', { subject: 'account-2' }],
  ['purpose', { purpose: 'webhook-secret' }],
])('a ciphertext moved to another %s does not decrypt', async (_, change) => {
  await using b = await setup();
  const ciphertext = await b.keyring.encrypt(b.binding, PLAINTEXT);
  await expect(b.keyring.decrypt({ ...b.binding, ...change }, ciphertext)).rejects.toMatchObject({
    code: 'corrupt',
  });
});

test('a ciphertext moved to another tenant does not decrypt, even with the key file copied', async () => {
  await using b = await setup();
  const other = newId<TenantId>();
  const ciphertext = await b.keyring.encrypt(b.binding, PLAINTEXT);
  await b.keyring.ensureKey(other);
  await expect(b.keyring.decrypt({ ...b.binding, tenantId: other }, ciphertext)).rejects.toMatchObject({
    code: 'corrupt',
  });
  await copyFile(join(b.dir, `${b.tenantId}.key`), join(b.dir, `${other}.key`));
  await expect(b.keyring.decrypt({ ...b.binding, tenantId: other }, ciphertext)).rejects.toMatchObject({
    code: 'corrupt',
  });
});

test('a changed, cut or foreign ciphertext is corrupt', async () => {
  await using b = await setup();
  const ciphertext = await b.keyring.encrypt(b.binding, PLAINTEXT);
  const bytes = Buffer.from(ciphertext.slice(9), 'base64');
  bytes[15] = (bytes[15] ?? 0) ^ 1;
  for (const bad of [`local:v1:${bytes.toString('base64')}`, 'local:v1:AAAA', 'vault:v1:AAAA', '']) {
    await expect(b.keyring.decrypt(b.binding, bad)).rejects.toMatchObject({ code: 'corrupt' });
  }
});

test('encryption and decryption fail with key_missing after the key file was deleted', async () => {
  await using b = await setup();
  const ciphertext = await b.keyring.encrypt(b.binding, PLAINTEXT);
  await rm(join(b.dir, `${b.tenantId}.key`));
  await expect(b.keyring.decrypt(b.binding, ciphertext)).rejects.toMatchObject({ code: 'key_missing' });
  await expect(b.keyring.encrypt(b.binding, PLAINTEXT)).rejects.toMatchObject({ code: 'key_missing' });
});

test('ensuring an existing key does not replace it', async () => {
  await using b = await setup();
  const ciphertext = await b.keyring.encrypt(b.binding, PLAINTEXT);
  await b.keyring.ensureKey(b.tenantId);
  await expect(b.keyring.decrypt(b.binding, ciphertext)).resolves.toBeDefined();
});

test('concurrent keyring instances agree on one root key and one tenant key', async () => {
  await using b = await setup();
  const dir = join(b.dir, 'fresh');
  const tenantId = newId<TenantId>();
  const keyrings = await Promise.all(Array.from({ length: 8 }, () => openLocalKeyring(dir)));
  await Promise.all(keyrings.map((keyring) => keyring.ensureKey(tenantId)));
  const binding = { ...b.binding, tenantId };
  const ciphertexts = await Promise.all(keyrings.map((keyring) => keyring.encrypt(binding, PLAINTEXT)));
  for (const [position, ciphertext] of ciphertexts.entries()) {
    const reader = keyrings[(position + 1) % keyrings.length];
    expect(Buffer.from((await reader?.decrypt(binding, ciphertext)) ?? [])).toEqual(PLAINTEXT);
  }
  expect((await readdir(dir)).toSorted()).toEqual([`${tenantId}.key`, 'root.key']);
});

test('keys are readable by their owner only, and a root key that others may read is refused', async () => {
  await using b = await setup();
  expect((await stat(join(b.dir, 'root.key'))).mode & 0o777).toBe(0o600);
  expect((await stat(b.dir)).mode & 0o777).toBe(0o700);
  await chmod(join(b.dir, 'root.key'), 0o644);
  await expect(openLocalKeyring(b.dir)).rejects.toThrow(/0600/);
});

test('the file of a tenant key is encrypted and does not contain the root key', async () => {
  await using b = await setup();
  const root = await readFile(join(b.dir, 'root.key'));
  const wrapped = await readFile(join(b.dir, `${b.tenantId}.key`));
  expect(wrapped.includes(root)).toBe(false);
  expect(wrapped).toHaveLength(12 + 32 + 16);
});

test('an id that is not a tenant id is refused and never becomes a file name', async () => {
  await using b = await setup();
  await expect(b.keyring.ensureKey('../../etc/x' as TenantId)).rejects.toMatchObject({ code: 'refused' });
});

test('a local keyring reports that its token never expires', async () => {
  await using b = await setup();
  const expiries: number[] = [];
  await openKeyring(
    { kind: 'local', dir: b.dir },
    { log: createLogger({ level: 'error', component: 'test' }), onTokenExpiry: (at) => expiries.push(at) },
  );
  expect(expiries).toEqual([Infinity]);
});
