import { z } from 'zod';
import type { Binding } from '#core/domain/storage/binding.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { KeyringError } from './keyring.ts';
import { contextOf, KEY_KIND, toKeyringError, type VaultKeyringOptions } from './vault-keyring.ts';
import { createVaultTransport, type VaultAnswer, type VaultCall } from './vault-transport.ts';
import { openVaultSession } from './vault-session.ts';

/** A tenant's transit key as Vault describes it; never any key material. */
export type KeyFacts = {
  readonly name: string;
  readonly latestVersion: number;
  /** When the latest version was created. */
  readonly rotatedAt: Date;
};

/**
 * The controller's rights on keys. It can neither encrypt nor decrypt. Every call has a deadline.
 * @throws KeyringError
 */
export type KeyKeeper = AsyncDisposable & {
  /** Creates the key if there is none; `made` tells whether it did. */
  readonly ensure: (tenantId: TenantId) => Promise<KeyFacts & { readonly made: boolean }>;
  /** Adds a version, which encrypts from now on; older ones still decrypt. */
  readonly rotate: (tenantId: TenantId) => Promise<KeyFacts>;
  /** Encrypts the same secret with the latest version, inside Vault. */
  readonly rewrap: (binding: Binding, ciphertext: string) => Promise<string>;
  /** Deletes the key, so that nothing encrypted with it can be read again. Does nothing if there is none. */
  readonly destroy: (tenantId: TenantId) => Promise<void>;
  readonly nameOf: (tenantId: TenantId) => string;
  readonly isUsable: () => boolean;
};

const Key = z.object({
  data: z.object({
    latest_version: z.int().positive(),
    // Creation times in seconds, by version.
    keys: z.record(z.string(), z.number()),
  }),
});
const Rewrapped = z.object({ data: z.object({ ciphertext: z.string().min(1) }) });

/**
 * Opens the keys; the login runs in the background.
 * @throws if the certificate file cannot be read.
 */
export function openVaultKeys(options: VaultKeyringOptions): KeyKeeper {
  const { config, log, deadlineMs = 5_000, onRequest = () => undefined } = options;
  const call = createVaultTransport({ config, deadlineMs, onRequest, onCertificate: options.onCertificate });
  const session = openVaultSession({
    auth: config.auth,
    call,
    log,
    onTokenExpiry: options.onTokenExpiry ?? (() => undefined),
  });
  const nameOf = (tenantId: TenantId): string => `${config.keyPrefix}${tenantId}`;
  const ask = (request: Omit<VaultCall, 'token'>): Promise<VaultAnswer> =>
    session.withToken((token) => call({ ...request, path: `${config.transitMount}/${request.path}`, token }));

  const read = async (tenantId: TenantId): Promise<KeyFacts | undefined> => {
    const answer = await ask({ op: 'read_key', method: 'GET', path: `keys/${nameOf(tenantId)}` });
    // Vault names no error for a key that does not exist, but does so for a mount; a proxy may answer 404 too.
    if (answer.status === 404 && answer.error === '') return undefined;
    if (answer.status !== 200) throw toKeyringError('read_key', answer);
    const key = Key.safeParse(answer.body);
    if (!key.success) throw new KeyringError('unavailable', 'Vault described no key');
    const { latest_version: latestVersion, keys } = key.data.data;
    return {
      name: nameOf(tenantId),
      latestVersion,
      rotatedAt: new Date((keys[String(latestVersion)] ?? 0) * 1_000),
    };
  };
  const present = async (tenantId: TenantId): Promise<KeyFacts> => {
    const facts = await read(tenantId);
    if (facts === undefined) throw new KeyringError('key_missing', 'the tenant has no key');
    return facts;
  };
  const done = async (request: Omit<VaultCall, 'token'>): Promise<VaultAnswer> => {
    const answer = await ask(request);
    if (answer.status !== 200) throw toKeyringError(request.op, answer);
    return answer;
  };

  return {
    nameOf,
    async ensure(tenantId) {
      const facts = await read(tenantId);
      if (facts !== undefined) return { ...facts, made: false };
      await done({ op: 'create_key', method: 'POST', path: `keys/${nameOf(tenantId)}`, body: KEY_KIND });
      return { ...(await present(tenantId)), made: true };
    },
    async rotate(tenantId) {
      await done({ op: 'rotate_key', method: 'POST', path: `keys/${nameOf(tenantId)}/rotate` });
      return present(tenantId);
    },
    async rewrap(binding, ciphertext) {
      const answer = await done({
        op: 'rewrap',
        method: 'POST',
        path: `rewrap/${nameOf(binding.tenantId)}`,
        body: { ciphertext, context: contextOf(binding) },
      });
      const rewrapped = Rewrapped.safeParse(answer.body);
      if (!rewrapped.success) throw new KeyringError('unavailable', 'Vault gave no ciphertext');
      return rewrapped.data.data.ciphertext;
    },
    async destroy(tenantId) {
      if ((await read(tenantId)) === undefined) return;
      // Vault refuses to delete a key unless its configuration allows it.
      await done({
        op: 'delete_key',
        method: 'POST',
        path: `keys/${nameOf(tenantId)}/config`,
        body: { deletion_allowed: true },
      });
      await done({ op: 'delete_key', method: 'DELETE', path: `keys/${nameOf(tenantId)}` });
    },
    isUsable: session.isLoggedIn,
    async [Symbol.asyncDispose]() {
      session[Symbol.dispose]();
    },
  };
}
