import type { Binding } from '#core/domain/binding.ts';
import { DependencyError, type DependencyFault } from '#core/domain/dependency-error.ts';
import type { TenantId } from '#core/domain/ids.ts';
import type { Secret } from '#core/domain/secret.ts';

/** What the api may do. Every call has a deadline. @throws KeyringError */
export type KeyEncrypter = {
  readonly encrypt: (binding: Binding, plaintext: Uint8Array) => Promise<string>;
  /** Makes the tenant's key where there is none, and changes nothing where there is one. */
  readonly ensureKey: (tenantId: TenantId) => Promise<void>;
};

/** What the worker may do. Every call has a deadline. @throws KeyringError */
export type KeyDecrypter = {
  readonly decrypt: (binding: Binding, ciphertext: string) => Promise<Uint8Array>;
};

export type Keyring = KeyEncrypter &
  KeyDecrypter &
  AsyncDisposable & {
    /** Whether a call has a chance now; false while not logged in. */
    readonly isUsable: () => boolean;
  };

/**
 * - `unavailable`: no answer, sealed, or not logged in now; a later try may succeed.
 * - `key_missing`: the tenant has no key (never made, or destroyed).
 * - `refused`: this login may not do that.
 * - `corrupt`: the ciphertext is damaged or belongs elsewhere.
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
  /** A tenant's key is this and its id. */
  readonly keyPrefix: string;
  readonly auth: VaultAuth;
};

export type KeyringConfig =
  | { readonly kind: 'local'; readonly dir: string }
  | ({ readonly kind: 'vault' } & VaultConfig);
