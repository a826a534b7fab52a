import { X509Certificate } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accountSecretBinding } from '#core/domain/storage/binding.ts';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import type { CertificateLife } from '#core/platform/process/watched-certificate.ts';
import { openNats } from '#core/platform/nats/nats.ts';
import { openVaultKeyring } from '#core/platform/vault/vault-keyring.ts';
import { makeCertificates } from '#test/support/certificates.ts';
import { startNats, type NatsServer } from '../../deploy/servers/nats.ts';
import { startVault, type VaultServer } from '../../deploy/servers/vault.ts';
import { createNatsOperator } from './nats-credentials.ts';

let dir: string;
const file = (name: string): string => join(dir, name);
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'despatch-connections-'));
  makeCertificates(dir);
});
afterAll(() => rmSync(dir, { recursive: true }));

describe('Vault over TLS', () => {
  let server: VaultServer;
  beforeAll(async () => {
    server = await startVault({ tls: { certFile: file('server.pem'), keyFile: file('server.key') } });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const open = (
    caFile: string | undefined,
    onCertificate: (life: CertificateLife) => void = () => undefined,
  ) =>
    openVaultKeyring({
      onCertificate,
      config: {
        address: server.tlsAddress ?? '',
        caFile,
        transitMount: 'transit',
        keyPrefix: 'despatch-',
        auth: { method: 'token', token: secret(server.rootToken) },
      },
      log: silentLogger,
      deadlineMs: 3_000,
    });

  test("a keyring that trusts the server's authority encrypts and decrypts", async () => {
    await using keyring = open(file('ca.pem'));
    const tenantId = newId<TenantId>();
    const binding = accountSecretBinding(tenantId, newId());
    await keyring.ensureKey(tenantId);
    const ciphertext = await keyring.encrypt(binding, Buffer.from('canary'));
    expect(Buffer.from(await keyring.decrypt(binding, ciphertext)).toString()).toBe('canary');
  });

  test("a keyring tells when the server's certificate ends", async () => {
    const seen: CertificateLife[] = [];
    await using keyring = open(file('ca.pem'), (life) => seen.push(life));
    await keyring.ensureKey(newId<TenantId>());
    const { validFrom, validTo } = new X509Certificate(readFileSync(file('server.pem')));
    const { validTo: authorityTo } = new X509Certificate(readFileSync(file('ca.pem')));
    // The authority was made before the server's certificate, for as long, and may end a second earlier.
    expect(seen[0]?.to).toBe(Math.min(Date.parse(validTo), Date.parse(authorityTo)) / 1_000);
    expect(seen[0]?.from).toBeLessThanOrEqual(Date.parse(validFrom) / 1_000);
  });

  test.each<[string, () => string | undefined]>([
    ['another authority', () => file('other-ca.pem')],
    ['only the authorities of the system', () => undefined],
  ])('a keyring that trusts %s is unavailable', async (_, caFile) => {
    await using keyring = open(caFile());
    await expect(keyring.ensureKey(newId<TenantId>())).rejects.toMatchObject({ code: 'unavailable' });
    expect(keyring.isUsable()).toBe(false);
  });

  test('an authority file that is replaced while the process runs applies without a restart', async () => {
    copyFileSync(file('other-ca.pem'), file('mounted.pem'));
    await using keyring = open(file('mounted.pem'));
    await expect(keyring.ensureKey(newId<TenantId>())).rejects.toMatchObject({ code: 'unavailable' });
    copyFileSync(file('ca.pem'), file('mounted.pem'));
    await expect
      .poll(
        () =>
          keyring.ensureKey(newId<TenantId>()).then(
            () => true,
            () => false,
          ),
        { timeout: 15_000 },
      )
      .toBe(true);
    rmSync(file('mounted.pem'));
    await keyring.ensureKey(newId<TenantId>());
  });

  test('an unreadable certificate file fails the start', () => {
    expect(() => open(file('missing.pem'))).toThrow(/ENOENT/);
  });
});

describe('NATS with credentials', () => {
  let server: NatsServer;
  const operator = createNatsOperator();
  beforeAll(async () => {
    server = await startNats({ config: operator.config });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const open = (credentials: string | undefined) => {
    if (credentials !== undefined) writeFileSync(file('user.creds'), credentials);
    return openNats({
      config: {
        servers: [server.url],
        ...(credentials === undefined ? {} : { credsFile: file('user.creds') }),
        prefix: 'despatch',
        replicas: 1,
      },
      log: silentLogger,
      name: 'test',
      connectWaitMs: 1_000,
    });
  };

  test('a user of the account receives the notices of another', async () => {
    await using speaker = await open(operator.userCredentials('speaker'));
    await using listener = await open(operator.userCredentials('listener'));
    const heard: string[] = [];
    listener.onNotice('tenant', (_, payload) => void heard.push(payload));
    await expect
      .poll(() => {
        speaker.publishNotice('tenant', 't1');
        return heard[0];
      })
      .toBe('t1');
  });

  test('renewed credentials are read from the file once the old ones have expired', async () => {
    await using nats = await open(operator.userCredentials('short-lived', 2));
    expect(nats.isConnected()).toBe(true);
    writeFileSync(file('user.creds'), operator.userCredentials('renewed'));
    // The server ends the connection when they expire. The moment without one may be too short to be seen.
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    await expect.poll(() => nats.isConnected(), { timeout: 10_000 }).toBe(true);
  });

  test.each<[string, () => string | undefined]>([
    ['credentials of another operator', () => createNatsOperator().userCredentials('stranger')],
    ['the token of one user and the key of another', () => mixedCredentials()],
    ['no credentials', () => undefined],
  ])('%s get no connection', async (_, credentials) => {
    await using stranger = await open(credentials());
    expect(stranger.isConnected()).toBe(false);
  });

  test('an unreadable credentials file fails the start', async () => {
    const config = {
      servers: [server.url],
      credsFile: file('missing.creds'),
      prefix: 'despatch',
      replicas: 1,
    };
    await expect(openNats({ config, log: silentLogger, name: 'test' })).rejects.toThrow(/ENOENT/);
  });

  function mixedCredentials(): string {
    const [token = ''] = operator.userCredentials('one').split('-----BEGIN USER NKEY SEED-----');
    const [, seed = ''] = operator.userCredentials('another').split('-----BEGIN USER NKEY SEED-----');
    return `${token}-----BEGIN USER NKEY SEED-----${seed}`;
  }
});
