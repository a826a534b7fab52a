import { z } from 'zod';
import { bindingText, type Binding } from '#core/domain/storage/binding.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { KeyringError, type Keyring, type VaultConfig } from './keyring.ts';
import type { CertificateLife } from '../process/watched-certificate.ts';
import type { Logger } from '../telemetry/logger.ts';
import {
  createVaultTransport,
  type VaultAnswer,
  type VaultOperation,
  type VaultRequest,
} from './vault-transport.ts';
import { openVaultSession } from './vault-session.ts';

export type VaultKeyringOptions = {
  readonly config: VaultConfig;
  readonly log: Logger;
  /** Maximum time of one call as a whole. Default 5 s. */
  readonly deadlineMs?: number;
  readonly onRequest?: (request: VaultRequest) => void;
  readonly onTokenExpiry?: (epochSeconds: number) => void;
  /** Called for each connection with TLS. */
  readonly onCertificate?: (life: CertificateLife) => void;
};

const Encrypted = z.object({ data: z.object({ ciphertext: z.string().min(1) }) });
const Decrypted = z.object({ data: z.object({ plaintext: z.base64() }) });

/**
 * Opens the keyring with one derived transit key per tenant. The binding is the derivation context, so Vault itself rejects a
 * ciphertext that was moved to another row. The login runs in the background. `encrypt` for a tenant without a key is `refused`:
 * only a login that may read keys could distinguish the two.
 * @throws if the certificate file cannot be read.
 */
export function openVaultKeyring(options: VaultKeyringOptions): Keyring {
  const {
    config,
    log,
    deadlineMs = 5_000,
    onRequest = () => undefined,
    onTokenExpiry = () => undefined,
  } = options;
  const call = createVaultTransport({ config, deadlineMs, onRequest, onCertificate: options.onCertificate });
  const session = openVaultSession({ auth: config.auth, call, log, onTokenExpiry });

  const post = async (
    op: VaultOperation,
    verb: string,
    tenantId: TenantId,
    body: Record<string, unknown>,
  ) => {
    const path = `${config.transitMount}/${verb}/${config.keyPrefix}${tenantId}`;
    const answer = await session.withToken((token) => call({ op, method: 'POST', path, body, token }));
    if (answer.status !== 200) throw toKeyringError(op, answer);
    return answer.body;
  };

  return {
    async encrypt(binding, plaintext) {
      const body = {
        context: contextOf(binding),
        plaintext: Buffer.from(plaintext).toString('base64'),
      };
      const answer = Encrypted.safeParse(await post('encrypt', 'encrypt', binding.tenantId, body));
      if (!answer.success) throw new KeyringError('unavailable', 'Vault gave no ciphertext');
      return answer.data.data.ciphertext;
    },
    async decrypt(binding, ciphertext) {
      if (!ciphertext.startsWith('vault:v'))
        throw new KeyringError('corrupt', 'the ciphertext is not one of Vault');
      const body = { context: contextOf(binding), ciphertext };
      const answer = Decrypted.safeParse(await post('decrypt', 'decrypt', binding.tenantId, body));
      if (!answer.success) throw new KeyringError('unavailable', 'Vault gave no plaintext');
      return Buffer.from(answer.data.data.plaintext, 'base64');
    },
    async ensureKey(tenantId) {
      // Vault does not change an existing key.
      await post('create_key', 'keys', tenantId, KEY_KIND);
    },
    isUsable: session.isLoggedIn,
    async [Symbol.asyncDispose]() {
      session[Symbol.dispose]();
    },
  };
}

/** The kind of a tenant's key. */
export const KEY_KIND = {
  type: 'aes256-gcm96',
  derived: true,
  convergent_encryption: false,
  exportable: false,
} as const;

/** Returns the context that Vault derives the key of a ciphertext from. */
export function contextOf(binding: Binding): string {
  // Tests break this (mutant: ciphertext-context): a ciphertext can be decrypted for its own row only.
  return Buffer.from(bindingText(binding)).toString('base64');
}

/**
 * What transit says of a ciphertext that is damaged, was made for another context, or by a key version that was trimmed or does not
 * exist (Vault's `sdk/helper/keysutil/policy.go`). Any other 400, such as one of a disaster recovery secondary or of a proxy, says
 * nothing of the ciphertext.
 */
const CIPHERTEXT_FAULTS = /invalid ciphertext|ciphertext or signature version|message authentication failed/;

/** Converts Vault's refusal of an operation into a KeyringError. */
export function toKeyringError(op: VaultOperation, { status, error, isLate }: VaultAnswer): KeyringError {
  if (status === 403) return new KeyringError('refused', `Vault refused to ${op}`);
  if (status === 400 && error.includes('key not found'))
    return new KeyringError('key_missing', 'the tenant has no key');
  if (status === 400) {
    const isOfCiphertext = (op === 'decrypt' || op === 'rewrap') && CIPHERTEXT_FAULTS.test(error);
    return new KeyringError(isOfCiphertext ? 'corrupt' : 'refused', `Vault could not ${op}`);
  }
  return new KeyringError(
    'unavailable',
    status === 0 ? `Vault gave no answer: ${error}` : `Vault answered ${status}`,
    isLate === true ? { fault: 'deadline' } : undefined,
  );
}
