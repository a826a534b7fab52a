import type { Binding } from '#core/domain/storage/binding.ts';
import { DependencyError, type DependencyFault } from '#core/domain/fault/dependency-error.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Secret } from '#core/domain/storage/secret.ts';

/**
 * The api's rights. Every call has a deadline.
 * @throws KeyringError
 */
export type KeyEncrypter = {
  readonly encrypt: (binding: Binding, plaintext: Uint8Array) => Promise<string>;
  /** Creates the tenant's key if there is none; an existing key does not change. */
  readonly ensureKey: (tenantId: TenantId) => Promise<void>;
};

/**
 * The worker's rights. Every call has a deadline.
 * @throws KeyringError
 */
export type KeyDecrypter = {
  readonly decrypt: (binding: Binding, ciphertext: string) => Promise<Uint8Array>;
};

export type Keyring = KeyEncrypter &
  KeyDecrypter &
  AsyncDisposable & {
    /** Whether a call can succeed now; false while not logged in. */
    readonly isUsable: () => boolean;
  };

/**
 * Codes of keyring errors:
 * - `unavailable`: no answer, sealed, or not logged in now; a later try may succeed.
 * - `key_missing`: the tenant has no key (never created, or destroyed).
 * - `refused`: this login lacks the permission.
 * - `corrupt`: the ciphertext is damaged or bound to another context.
 */
export type KeyringErrorCode = 'unavailable' | 'key_missing' | 'refused' | 'corrupt';

const FAULTS: Readonly<Record<KeyringErrorCode, DependencyFault>> = {
  unavailable: 'unavailable',
  refused: 'refused',
  key_missing: 'rejected',
  corrupt: 'rejected',
};

export class KeyringError extends DependencyError {
  override readonly name = 'KeyringError';
  readonly code: KeyringErrorCode;

  constructor(
    code: KeyringErrorCode,
    message: string,
    options?: ErrorOptions & { readonly fault?: DependencyFault },
  ) {
    super('vault', options?.fault ?? FAULTS[code], message, options);
    this.code = code;
  }
}

export type VaultAuth =
  | { readonly method: 'token'; readonly token: Secret; readonly tokenFile?: string | undefined }
  | {
      readonly method: 'approle';
      readonly mount: string;
      readonly roleId: string;
      readonly secretId: Secret;
      readonly secretIdFile?: string | undefined;
    }
  | {
      readonly method: 'kubernetes';
      readonly mount: string;
      readonly role: string;
      readonly tokenFile: string;
    };

export type VaultConfig = {
  readonly address: string;
  readonly namespace?: string | undefined;
  readonly caFile?: string | undefined;
  /** Mount path of the transit engine. */
  readonly transitMount: string;
  /** A tenant's key is named by this prefix and the tenant's id. */
  readonly keyPrefix: string;
  readonly auth: VaultAuth;
};

export type KeyringConfig =
  | { readonly kind: 'local'; readonly dir: string }
  | ({ readonly kind: 'vault' } & VaultConfig);
